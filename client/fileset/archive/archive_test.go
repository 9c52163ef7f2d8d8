package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// memory is a Batch, and the source for Write.
type memory struct {
	mu    sync.Mutex
	blobs map[fileset.Address][]byte
	fail  error // of Add
	drop  bool  // discards the contents
}

func newMemory() *memory { return &memory{blobs: map[fileset.Address][]byte{}} }

func (m *memory) Add(ctx context.Context, r io.Reader) (fileset.Address, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return fileset.Address{}, fmt.Errorf("receive: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return fileset.Address{}, m.fail
	}
	a := fileset.AddressOf(b)
	if m.drop {
		b = nil
	}
	m.blobs[a] = b
	return a, nil
}

func (m *memory) copyFile(w io.Writer, f *fileset.File) error {
	_, err := w.Write(m.blobs[f.Blob])
	return err
}

// archiveOf returns an archive of entries. The content of a file is in PAXRecords["content"].
func archiveOf(t testing.TB, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		h, content := *h, ""
		if h.Typeflag == tar.TypeReg {
			content = h.Linkname
			h.Linkname = ""
			h.Size = int64(len(content))
		}
		testkit.NoError(t, w.WriteHeader(&h))
		testkit.Must(io.WriteString(w, content))(t)
	}
	testkit.NoError(t, w.Close())
	return b.Bytes()
}

// regular is a file. archiveOf takes its content from Linkname.
func regular(path, content string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: path, Linkname: content, Mode: 0o644}
}

func folder(path string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: path, Mode: 0o755}
}

func read(t testing.TB, text []byte) (*fileset.Manifest, *memory, error) {
	t.Helper()
	m := newMemory()
	got, err := Read(t.Context(), bytes.NewReader(text), m)
	return got, m, err
}

// TestArchivesThatAreRefused: one unacceptable entry makes Read refuse the archive, with an error that names the entry.
func TestArchivesThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		entries []*tar.Header
		want    error
		text    string
	}{
		"a hard link":                 {[]*tar.Header{{Typeflag: tar.TypeLink, Name: "l", Linkname: "a"}}, ErrArchive, `"l" is a hard link`},
		"a symbolic link":             {[]*tar.Header{{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc/passwd"}}, ErrArchive, `"l" is a symbolic link`},
		"a file behind a link":        {[]*tar.Header{{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc"}, regular("l/passwd", "x")}, ErrArchive, `"l" is a symbolic link`},
		"a character device":          {[]*tar.Header{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}, ErrArchive, `"null" is a device`},
		"a block device":              {[]*tar.Header{{Typeflag: tar.TypeBlock, Name: "sda"}}, ErrArchive, `"sda" is a device`},
		"a named pipe":                {[]*tar.Header{{Typeflag: tar.TypeFifo, Name: "p"}}, ErrArchive, `"p" is a named pipe`},
		"a contiguous file":           {[]*tar.Header{{Typeflag: tar.TypeCont, Name: "c"}}, ErrArchive, `"c" has the type '7'`},
		"a path that escapes":         {[]*tar.Header{regular("../a", "x")}, fileset.ErrPath, `"../a" has the element ".."`},
		"one that escapes within":     {[]*tar.Header{regular("a/../../b", "x")}, fileset.ErrPath, `has the element ".."`},
		"one that escapes after ./":   {[]*tar.Header{regular("./../b", "x")}, fileset.ErrPath, `has the element ".."`},
		"an absolute path":            {[]*tar.Header{regular("/etc/passwd", "x")}, fileset.ErrPath, `"/etc/passwd" is absolute`},
		"an absolute one after ./":    {[]*tar.Header{regular(".//etc/passwd", "x")}, fileset.ErrPath, `"/etc/passwd" is absolute`},
		"an absolute directory":       {[]*tar.Header{folder("/tmp/")}, fileset.ErrPath, `"/tmp" is absolute`},
		"the root":                    {[]*tar.Header{folder("/")}, fileset.ErrPath, "is absolute"},
		"a directory that escapes":    {[]*tar.Header{folder("../")}, fileset.ErrPath, `has the element ".."`},
		"a backslash":                 {[]*tar.Header{regular(`..\a`, "x")}, fileset.ErrPath, "has a backslash"},
		"a drive":                     {[]*tar.Header{regular(`C:/a`, "x")}, fileset.ErrPath, "drive"},
		"a file named .":              {[]*tar.Header{regular(".", "")}, fileset.ErrPath, `has the element "."`},
		"a path twice":                {[]*tar.Header{regular("a", "x"), regular("a", "y")}, fileset.ErrPath, `"a" occurs twice`},
		"a path twice, once with ./":  {[]*tar.Header{regular("a", "x"), regular("./a", "y")}, fileset.ErrPath, `"a" occurs twice`},
		"a file that is a directory":  {[]*tar.Header{regular("a", "x"), regular("a/b", "y")}, fileset.ErrPath, `"a" is a file and a directory`},
		"a file that is empty folder": {[]*tar.Header{regular("a", "x"), folder("a/")}, fileset.ErrPath, `"a" is a file and a directory`},
		"a name that is too long":     {[]*tar.Header{regular(strings.Repeat("x", 256), "x")}, fileset.ErrPath, "256 bytes"},
		"a path that is too long":     {[]*tar.Header{regular(strings.Repeat("x/", 600)+"x", "x")}, fileset.ErrPath, "1201 bytes"},
		"invalid UTF-8":               {[]*tar.Header{regular("a\xff", "x")}, fileset.ErrPath, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			entries := append([]*tar.Header{regular("good", "content")}, tt.entries...)
			m, _, err := read(t, archiveOf(t, append(entries, regular("later", "x"))...))
			testkit.Holds(t, m == nil && errors.Is(err, tt.want) && strings.Contains(err.Error(), tt.text), m, err)
		})
	}
}

// TestSparseFilesAreRefused: a file of a terabyte of holes takes a few bytes in an archive.
func TestSparseFilesAreRefused(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("there is no tar here, which writes sparse files")
	}
	dir := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "holes"), []byte("x"), 0o600))
	testkit.NoError(t, os.Truncate(filepath.Join(dir, "holes"), 1<<30))
	for _, format := range []string{"--format=gnu", "--format=posix", "--sparse-version=0.0", "--sparse-version=0.1"} {
		args := []string{"-C", dir, "--sparse", format, "-c", "holes"}
		if strings.HasPrefix(format, "--sparse") {
			args = append([]string{"--format=posix"}, args...)
		}
		text := testkit.Must(exec.Command("tar", args...).Output())(t)
		testkit.MustHold(t, len(text) <= 1<<20, format, "tar has not found the hole")
		m, _, err := read(t, text)
		testkit.Holds(t, m == nil && errors.Is(err, ErrArchive) && strings.Contains(err.Error(), `"holes" is a sparse file`), format, m, err)
	}
}

// TestArchivesThatAreCutOff: an archive without its end is refused, wherever it was cut off.
func TestArchivesThatAreCutOff(t *testing.T) {
	whole := archiveOf(t, folder("d/"), regular("d/zeros", strings.Repeat("\x00", 1024)), regular("a", "content"), regular(strings.Repeat("long/", 60)+"b", "x"))
	testkit.Must2(read(t, whole))(t)
	for n := range len(whole) {
		m, _, err := read(t, whole[:n])
		testkit.MustHold(t, m == nil && errors.Is(err, ErrArchive), "the first", n, "of", len(whole), "bytes", m, err)
	}
	broken := errors.New("the connection has ended")
	for _, n := range []int{0, 100, 512, 2000, len(whole) - 1} {
		r := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken))
		m, err := Read(t.Context(), r, newMemory())
		testkit.Holds(t, m == nil && errors.Is(err, broken) && !errors.Is(err, ErrArchive), "after", n, "bytes", m, err)
	}
	for _, more := range [][]byte{whole, []byte("x"), append(make([]byte, 20_000), 'x')} {
		if m, _, err := read(t, append(slices.Clone(whole), more...)); m != nil || !errors.Is(err, ErrArchive) || !strings.Contains(err.Error(), "data follows after its end") {
			t.Errorf("with %d bytes more: %v, %v", len(more), m, err)
		}
	}
	testkit.Must2(read(t, append(slices.Clone(whole), make([]byte, 20_000)...)))(t)
	m, _ := testkit.Must2(read(t, archiveOf(t)))(t)
	testkit.Equal(t, len(m.Files), 0, "an archive without entries:", m)
}

// TestDamagedArchives: a changed byte never makes Read panic or fail with another error. Contents have no checksum in
// tar.
func TestDamagedArchives(t *testing.T) {
	whole := archiveOf(t, folder("d/"), regular("d/a", "content"), regular(strings.Repeat("long/", 60)+"b", "x"))
	for i := range whole {
		damaged := slices.Clone(whole)
		damaged[i] ^= 0x40
		m, _, err := read(t, damaged)
		testkit.MustHold(t, (m == nil) != (err == nil), "byte", i, m, err)
		testkit.MustHold(t, err == nil || errors.Is(err, ErrArchive) || errors.Is(err, fileset.ErrPath) || errors.Is(err, fileset.ErrTooLarge),
			"byte", i, err)
	}
}

// endless repeats a text.
type endless struct {
	text []byte
	at   int
	read int64
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], e.text[e.at:])
		n += m
		e.at = (e.at + m) % len(e.text)
	}
	e.read += int64(n)
	return n, nil
}

// TestHeadersWithoutEnd: Read gives up an endless stream of headers without files.
func TestHeadersWithoutEnd(t *testing.T) {
	global := archiveOf(t, &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"comment": strings.Repeat("x", 900_000)}})
	long := archiveOf(t, &tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("x", 300), Format: tar.FormatGNU})
	for name, text := range map[string][]byte{
		"global headers": global[:len(global)-2*blockBytes],
		"long names":     long[:2*blockBytes], // without the entry that they name
	} {
		e := &endless{text: text}
		began := time.Now()
		m, err := Read(t.Context(), e, newMemory())
		testkit.Holds(t, m == nil && errors.Is(err, ErrArchive) && e.read <= maxOverheadBytes+1<<20, name, m, err, "after", e.read, "bytes")
		t.Logf("%s: given up after %d bytes, %s", name, e.read, time.Since(began))
	}
	zeros := io.MultiReader(bytes.NewReader(archiveOf(t)), &endless{text: make([]byte, 1<<16)})
	m, err := Read(t.Context(), zeros, newMemory())
	testkit.Holds(t, m == nil && errors.Is(err, ErrArchive), "zeros without end", m, err)
}

// TestForms: Read accepts the forms of archives that tar programs write.
func TestForms(t *testing.T) {
	deep := strings.Repeat("directory/", 30) + "file"
	global := &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "a commit"}}
	run := regular("./bin/run", "#!")
	run.Mode = 0o755
	m, blobs, err := read(t, archiveOf(t, global, folder("./"), folder("./bin/"), run, folder("empty/"), folder("empty/"), folder("out/"), folder("out/none/"), regular("zero", ""), regular(deep, "x"), regular("é", "x")))
	testkit.NoError(t, err)
	var got []string
	for _, f := range m.Files {
		got = append(got, fmt.Sprintf("%s %d %v", f.Path, f.Size, f.Executable))
	}
	want := []string{"bin/run 2 true", deep + " 1 false", "zero 0 false", "é 1 false"}
	testkit.Holds(t, slices.Equal(got, want) && slices.Equal(m.EmptyDirectories, []string{"empty", "out/none"}) &&
		len(blobs.blobs) == 3, got, m.EmptyDirectories, len(blobs.blobs), "blobs")
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("there is no tar here, whose forms the rest of this test reads")
	}
	dir := t.TempDir()
	testkit.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(deep), "empty"), 0o755))
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, deep), []byte("x"), 0o644))
	for _, form := range []string{"gnu", "oldgnu", "posix"} {
		for _, what := range []string{".", "directory"} {
			text := testkit.Must(exec.Command("tar", "-C", dir, "--format="+form, "-c", what).Output())(t)
			m, _ := testkit.Must2(read(t, text))(t)
			testkit.Holds(t, len(m.Files) == 1 && m.Files[0].Path == deep && len(m.EmptyDirectories) == 1, form, what, m)
		}
	}
}

// TestWriteAndRead: Read and tar can read the output of Write, which is the same each time.
func TestWriteAndRead(t *testing.T) {
	deep := strings.Repeat("directory/", 30) + "file"
	large := strings.Repeat("large", 100_000)
	run := regular("run", "#!")
	run.Mode = 0o700
	m, blobs, err := read(t, archiveOf(t, regular("b", "x"), run, regular(deep, "deep"), regular("large", large), folder("empty/"), regular("zero", "")))
	testkit.NoError(t, err)
	write := func() []byte {
		var b bytes.Buffer
		testkit.NoError(t, Write(t.Context(), &b, m, blobs.copyFile))
		return b.Bytes()
	}
	text := write()
	testkit.Holds(t, bytes.Equal(text, write()), "it is another archive the second time")
	again, others := testkit.Must2(read(t, text))(t)
	first, _ := m.Encode()
	second, _ := again.Encode()
	testkit.Holds(t, bytes.Equal(first, second) && maps.EqualFunc(blobs.blobs, others.blobs, bytes.Equal), first, "became", second)
	for name, copyFile := range map[string]func(w io.Writer, f *fileset.File) error{
		"too short": func(w io.Writer, f *fileset.File) error {
			_, err := w.Write(blobs.blobs[f.Blob][:f.Size/2])
			return err
		},
		"too long": func(w io.Writer, f *fileset.File) error {
			_, err := w.Write(append(slices.Clone(blobs.blobs[f.Blob]), 'x'))
			return err
		},
		"none": func(w io.Writer, f *fileset.File) error { return io.ErrUnexpectedEOF },
	} {
		testkit.Holds(t, Write(t.Context(), io.Discard, m, copyFile) != nil, name, "no error")
	}
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("there is no tar here, which the rest of this test runs")
	}
	dir := t.TempDir()
	cmd := exec.Command("tar", "-C", dir, "-x")
	cmd.Stdin = bytes.NewReader(text)
	out := testkit.Must(cmd.CombinedOutput())(t)
	testkit.MustHold(t, len(out) == 0, "tar -x", out)
	for path, want := range map[string]string{"b": "x", "run": "#!", deep: "deep", "large": large, "zero": ""} {
		got := testkit.Must(os.ReadFile(filepath.Join(dir, path)))(t)
		testkit.Holds(t, string(got) == want, path, len(got), "bytes")
	}
	info := testkit.Must(os.Stat(filepath.Join(dir, "run")))(t)
	testkit.Holds(t, info.Mode()&0o111 != 0, "run", info)
	info = testkit.Must(os.Stat(filepath.Join(dir, "empty")))(t)
	testkit.Holds(t, info.IsDir(), "empty", info)
}

// TestErrorsOfTheBatch: Read returns the error of storing a file, small or large.
func TestErrorsOfTheBatch(t *testing.T) {
	full := errors.New("the disk is full")
	for _, size := range []int{1, smallFileBytes + 1} {
		entries := []*tar.Header{}
		for i := range 50 {
			entries = append(entries, regular(fmt.Sprint(i), strings.Repeat("x", size)))
		}
		m := newMemory()
		m.fail = full
		got, err := Read(t.Context(), bytes.NewReader(archiveOf(t, entries...)), m)
		testkit.Holds(t, got == nil && errors.Is(err, full), "files of", size, "bytes", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := Read(ctx, bytes.NewReader(archiveOf(t, regular("a", "x"))), newMemory())
	testkit.Holds(t, got == nil && errors.Is(err, context.Canceled), "after a cancel", got, err)
}

// many returns an archive of n files, which is written while it is read.
func many(n, size int) io.Reader {
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		content := make([]byte, size)
		for i := range n {
			copy(content, fmt.Sprint(i))
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d%03d/f%06d", i/500, i), Size: int64(size), Mode: 0o644}); err != nil {
				w.CloseWithError(err)
				return
			}
			if _, err := t.Write(content); err != nil {
				w.CloseWithError(err)
				return
			}
		}
		w.CloseWithError(t.Close())
	}()
	return r
}

func TestLargestArchive(t *testing.T) {
	began := time.Now()
	m := testkit.Must(Read(t.Context(), many(fileset.MaxFiles, 20), &memory{blobs: map[fileset.Address][]byte{}, drop: true}))(t)
	testkit.MustEqual(t, len(m.Files), fileset.MaxFiles)
	t.Logf("%d files in %s", fileset.MaxFiles, time.Since(began))
	r := many(fileset.MaxFiles+1, 0)
	defer r.(io.Closer).Close()
	m, err := Read(t.Context(), r, newMemory())
	testkit.Holds(t, m == nil && errors.Is(err, fileset.ErrTooLarge), "one file more", err)
	// A large file passes through a small buffer.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r = many(2, 512<<20)
	defer r.(io.Closer).Close()
	testkit.Must(Read(t.Context(), r, discard{}))(t)
	runtime.ReadMemStats(&after)
	grown := after.TotalAlloc - before.TotalAlloc
	testkit.Holds(t, grown <= 600<<20, grown, "bytes were allocated") // the writer of the test takes 512 MiB
}

// discard is a Batch that keeps nothing.
type discard struct{}

func (discard) Add(_ context.Context, r io.Reader) (a fileset.Address, err error) {
	n, err := io.Copy(io.Discard, r)
	a[0] = byte(n)
	return a, err
}

// FuzzRead: any bytes lead to a manifest that can be encoded, or to an error about the archive.
func FuzzRead(f *testing.F) {
	f.Add(archiveOf(f, folder("d/"), regular("d/a", "content"), regular(strings.Repeat("long/", 60)+"b", "x")))
	f.Add(archiveOf(f, regular("a", "x"), &tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "a"}))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, blobs, err := read(t, text)
		if err != nil {
			testkit.MustHold(t, errors.Is(err, ErrArchive) || errors.Is(err, fileset.ErrPath) || errors.Is(err, fileset.ErrTooLarge), err)
			return
		}
		testkit.Must(m.Encode())(t)
		for _, f := range m.Files {
			testkit.MustHold(t, int64(len(blobs.blobs[f.Blob])) == f.Size, f, "has", len(blobs.blobs[f.Blob]), "bytes")
		}
	})
}
