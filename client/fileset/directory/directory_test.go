package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// store is a Source and a Target in memory.
type store struct {
	mu     sync.Mutex
	blobs  map[fileset.Address][]byte
	copied int
	stored int
	before func() // is called before a blob is copied
	failAt int    // the number of the copy that should fail
}

func newStore() *store { return &store{blobs: map[fileset.Address][]byte{}} }

func (s *store) CopyBlob(_ context.Context, a fileset.Address, w io.Writer) error {
	s.mu.Lock()
	b, ok := s.blobs[a]
	s.copied++
	n, before := s.copied, s.before
	s.mu.Unlock()
	if before != nil {
		before()
	}
	if !ok || n == s.failAt {
		return errors.New("there is no such blob")
	}
	_, err := w.Write(b)
	return err
}

func (s *store) Missing(_ context.Context, all []fileset.Address) (missing []fileset.Address, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		if _, ok := s.blobs[a]; !ok {
			missing = append(missing, a)
		}
	}
	return missing, nil
}

func (s *store) StoreBlob(_ context.Context, a fileset.Address, size int64, r io.ReadSeeker) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if fileset.AddressOf(b) != a || int64(len(b)) != size {
		return errors.New("the content has another digest")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[a] = b
	s.stored++
	return nil
}

// add adds a file to a manifest and its content to the store.
func (s *store) add(m *fileset.Manifest, path, content string) *fileset.File {
	a := fileset.AddressOf([]byte(content))
	s.blobs[a] = []byte(content)
	m.Files = append(m.Files, fileset.File{Path: path, Blob: a, Size: int64(len(content))})
	m.Sort()
	return &m.Files[slices.IndexFunc(m.Files, func(f fileset.File) bool { return f.Path == path })]
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	root := testkit.Must(os.OpenRoot(dir))(t)
	t.Cleanup(func() { root.Close() })
	return root
}

func write(t *testing.T, dir, path, content string) {
	t.Helper()
	path = filepath.Join(dir, path)
	testkit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
}

func has(t *testing.T, dir, path, content string) {
	t.Helper()
	testkit.Equal(t, string(testkit.Must(os.ReadFile(filepath.Join(dir, path)))(t)), content, path)
}

// leftover fails if a directory contains other names than the given ones.
func leftover(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries := testkit.Must(os.ReadDir(dir))(t)
	for _, e := range entries {
		testkit.Holds(t, slices.Contains(names, e.Name()), e.Name(), "is left")
	}
}

func noPatterns(t *testing.T, list ...string) fileset.Patterns {
	t.Helper()
	return testkit.Must(fileset.ParsePatterns(list))(t)
}

// TestPullAndScan: Scan reads the files that Pull wrote, and a second Pull fetches only changed files.
func TestPullAndScan(t *testing.T) {
	dir, s, m := t.TempDir(), newStore(), &fileset.Manifest{EmptyDirectories: []string{"empty", "out/none"}}
	s.add(m, "bin/run", "#!").Executable = true
	s.add(m, "a", "content")
	s.add(m, "same", "content")
	s.add(m, "zero", "")
	s.add(m, strings.Repeat("directory/", 60)+"file", strings.Repeat("x", 100_000))
	root := openRoot(t, dir)
	testkit.MustEqual(t, testkit.Must(Pull(t.Context(), s, root, m, Options{}))(t), Moved{Files: 5, Bytes: m.Bytes()})
	has(t, dir, "a", "content")
	info := testkit.Must(os.Stat(filepath.Join(dir, "bin/run")))(t)
	testkit.Holds(t, info.Mode()&0o100 != 0, "bin/run", info)
	leftover(t, dir, "a", "bin", "directory", "empty", "out", "same", "zero")
	same := func() {
		t.Helper()
		got := testkit.Must(Scan(t.Context(), root, noPatterns(t), Options{}))(t)
		first, _ := m.Encode()
		second, err := got.Encode()
		testkit.Holds(t, err == nil && bytes.Equal(first, second), second, "not", first, err)
	}
	same()

	testkit.Equal(t, testkit.Must(Pull(t.Context(), s, root, m, Options{Parallel: 1}))(t), Moved{Skipped: 5}, "again")
	write(t, dir, "a", "CONTENT")
	write(t, dir, "zero", "x")
	testkit.NoError(t, errors.Join(os.Chmod(filepath.Join(dir, "bin/run"), 0o644), os.Chmod(filepath.Join(dir, "same"), 0o755)))
	testkit.Equal(t, testkit.Must(Pull(t.Context(), s, root, m, Options{}))(t), Moved{Files: 2, Skipped: 3, Bytes: 7}, "after changes")
	same()
}

// TestPushSendsWhatIsMissing: equal files are sent once, and stored files are not sent.
func TestPushSendsWhatIsMissing(t *testing.T) {
	dir, s := t.TempDir(), newStore()
	for i := range 100 {
		write(t, dir, fmt.Sprintf("d%d/f%d", i%7, i), fmt.Sprint(i/2))
	}
	root := openRoot(t, dir)
	push := func() (*Tree, Moved) {
		m := testkit.Must(Scan(t.Context(), root, noPatterns(t), Options{}))(t)
		moved := testkit.Must(Push(t.Context(), s, root, m.Manifest, Options{}))(t)
		return m, moved
	}
	if m, moved := push(); len(m.Files) != 100 || moved.Files != 50 || moved.Skipped != 50 || s.stored != 50 {
		t.Errorf("%d files, %+v, %d stored", len(m.Files), moved, s.stored)
	}
	write(t, dir, "d0/f0", "another")
	_, moved := push()
	testkit.Holds(t, moved.Files == 1 && moved.Bytes == 7 && s.stored == 51, moved, s.stored, "stored")
	m := testkit.Must(Scan(t.Context(), root, noPatterns(t, "d1/**", "!**/f1"), Options{}))(t)
	testkit.Equal(t, len(m.Files), 14, "files")
	m, _ = Scan(t.Context(), root, noPatterns(t), Options{})
	write(t, dir, "d3/f3", "changed after the scan")
	delete(s.blobs, fileset.AddressOf([]byte("1"))) // of f2 and f3
	write(t, dir, "d2/f2", "changed, too")
	testkit.Fails(Push(t.Context(), s, root, m.Manifest, Options{}))(t, "has changed while it was pushed")
	write(t, dir, "d2/f2", "2")
	write(t, dir, "d3/f3", "2")
	testkit.Fails(Push(t.Context(), s, root, m.Manifest, Options{}))(t, ErrChanged, "it has the digest")
}

// TestChangesAreFound: a file that changes after its Scan, or while it is read, is an error, even if its size and its
// time stay the same. The archive then ends before its last byte.
func TestChangesAreFound(t *testing.T) {
	content := strings.Repeat("content", 10_000)
	other := strings.Repeat("CONTENT", 10_000)
	for name, change := range map[string]func(dir string) error{
		"other content, same time": func(dir string) error {
			info, err := os.Stat(filepath.Join(dir, "b"))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "b"), []byte(other), 0o644), os.Chtimes(filepath.Join(dir, "b"), info.ModTime(), info.ModTime()))
		},
		"longer":                    func(dir string) error { return os.WriteFile(filepath.Join(dir, "b"), []byte(content+"x"), 0o644) },
		"shorter":                   func(dir string) error { return os.Truncate(filepath.Join(dir, "b"), 5) },
		"removed":                   func(dir string) error { return os.Remove(filepath.Join(dir, "b")) },
		"one that was sent already": func(dir string) error { return os.Chtimes(filepath.Join(dir, "a"), time.Time{}, time.Unix(1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "a", content)
			write(t, dir, "b", content)
			root := openRoot(t, dir)
			tree := testkit.Must(Scan(t.Context(), root, noPatterns(t), Options{}))(t)
			whole := &trigger{}
			testkit.NoError(t, WriteArchive(t.Context(), whole, root, tree))
			testkit.Check(t, tree.Unchanged(t.Context(), root))
			cut := &trigger{at: 20_000, do: func() error { return change(dir) }}
			err := WriteArchive(t.Context(), cut, root, tree)
			testkit.Holds(t, errors.Is(err, ErrChanged) && cut.err == nil, err, cut.err)
			testkit.Holds(t, name == "one that was sent already" || cut.n < whole.n-1024, cut.n, "of", whole.n, "bytes were written")
			if name == "other content, same time" {
				s := newStore()
				_, err := Push(t.Context(), s, root, &fileset.Manifest{Files: tree.Files[1:]}, Options{})
				testkit.Holds(t, errors.Is(err, ErrChanged) && s.stored == 0, "Push", err, s.stored, "were stored")
			} else if err := tree.Unchanged(t.Context(), root); !errors.Is(err, ErrChanged) {
				t.Errorf("Unchanged: %v", err)
			}
		})
	}
	dir := t.TempDir()
	write(t, dir, "a", content)
	root := openRoot(t, dir)
	in := testkit.Must(openUnchanged(root, &fileset.File{Path: "a", Size: int64(len(content)), Blob: fileset.AddressOf([]byte(content))}))(t)
	defer in.Close()
	for _, from := range []int64{0, 100, 69_999, 5, 70_000, 0} { // like an upload that is resumed
		testkit.Must(in.Seek(from, io.SeekStart))(t)
		got := testkit.Must(io.ReadAll(in))(t)
		testkit.Holds(t, string(got) == content[from:], "from", from, len(got), "bytes")
	}
	testkit.Equal(t, testkit.Must(in.Seek(0, io.SeekEnd))(t), 70_000)
	write(t, dir, "a", other)
	in.Seek(69_000, io.SeekStart)
	in.Seek(0, io.SeekStart)
	got, err := io.ReadAll(in)
	testkit.Holds(t, errors.Is(err, ErrChanged) && len(got) != len(content), len(got), "bytes", err)
}

// trigger is a writer that calls a function once it has received some bytes.
type trigger struct {
	n, at int
	do    func() error
	err   error
}

func (w *trigger) Write(p []byte) (int, error) {
	w.n += len(p)
	if w.do != nil && w.n >= w.at {
		w.err = w.do()
		w.do = nil
	}
	return len(p), nil
}

// TestScanFindsWriters: a file that is written to while Scan reads it is an error.
func TestScanFindsWriters(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "x")
	root := openRoot(t, dir)
	ended := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := int64(1); ; n++ {
			select {
			case <-ended:
				return
			default:
				os.Truncate(filepath.Join(dir, "a"), 1<<20+n%1000)
			}
		}
	})
	defer writing.Wait()
	defer close(ended)
	for {
		if _, err := Scan(t.Context(), root, noPatterns(t), Options{}); errors.Is(err, ErrChanged) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPullDoesNotEscape: links in the directory never lead Pull out of it, whenever they are made.
func TestPullDoesNotEscape(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "victim", "untouched")
	link := func(dir, path, to string) { t.Helper(); testkit.NoError(t, os.Symlink(to, filepath.Join(dir, path))) }
	for name, tt := range map[string]struct {
		make func(dir string)
		want error
		text string
	}{
		"a file is a link":              {func(dir string) { link(dir, "victim", filepath.Join(outside, "victim")) }, ErrNotRegular, `"victim" is a symbolic link`},
		"a file is a link that dangles": {func(dir string) { link(dir, "victim", "nowhere") }, ErrNotRegular, `"victim" is a symbolic link`},
		"a file is a link within":       {func(dir string) { write(t, dir, "x", "x"); link(dir, "victim", "x") }, ErrNotRegular, `"victim" is a symbolic link`},
		"a directory is a link":         {func(dir string) { link(dir, "d", outside) }, ErrNotRegular, `"d" is a symbolic link`},
		"a directory is a link within":  {func(dir string) { os.Mkdir(filepath.Join(dir, "x"), 0o755); link(dir, "d", "x") }, ErrNotRegular, `"d" is a symbolic link`},
		"a directory is a file":         {func(dir string) { write(t, dir, "d", "x") }, ErrNotRegular, `"d" is a regular file`},
		"a file is a directory":         {func(dir string) { os.Mkdir(filepath.Join(dir, "victim"), 0o755) }, ErrNotRegular, `"victim" is a directory`},
		"a file is a named pipe":        {func(dir string) { syscall.Mkfifo(filepath.Join(dir, "victim"), 0o644) }, ErrNotRegular, `"victim" is a named pipe`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s, m := t.TempDir(), newStore(), &fileset.Manifest{}
			s.add(m, "victim", "attack")
			s.add(m, "d/victim", "attack")
			tt.make(dir)
			testkit.Fails(Pull(t.Context(), s, openRoot(t, dir), m, Options{}))(t, tt.want, tt.text)
			has(t, outside, "victim", "untouched")
			leftover(t, outside, "victim")
			leftover(t, dir, "victim", "d", "x")
		})
	}
	t.Run("links are made meanwhile", func(t *testing.T) {
		dir, s, m := t.TempDir(), newStore(), &fileset.Manifest{}
		for i := range 50 {
			s.add(m, fmt.Sprintf("victim%d", i), fmt.Sprint("attack ", i))
			s.add(m, fmt.Sprintf("d%d/victim", i), fmt.Sprint("attack ", i))
		}
		n := 0
		s.before = func() { // Pull places all files with one goroutine, so this runs between its check and its rename
			os.Symlink(filepath.Join(outside, "victim"), filepath.Join(dir, fmt.Sprintf("victim%d", n)))
			os.RemoveAll(filepath.Join(dir, fmt.Sprintf("d%d", n)))
			os.Symlink(outside, filepath.Join(dir, fmt.Sprintf("d%d", n)))
			n++
		}
		for range 50 { // a directory that was replaced by a link is an error
			n = 0
			testkit.Fails(Pull(t.Context(), s, openRoot(t, dir), m, Options{Parallel: 1}))(t)
			if s.copied > 60 {
				break
			}
		}
		has(t, outside, "victim", "untouched")
		leftover(t, outside, "victim")
		testkit.Holds(t, s.copied != 0, "nothing was fetched")
	})
}

// TestScanRefusesSpecialFiles: links and pipes are errors, unless the patterns exclude them. Scan never reads through a
// link.
func TestScanRefusesSpecialFiles(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a symbolic link": func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a named pipe":    func(path string) error { return syscall.Mkfifo(path, 0o644) },
	} {
		dir := t.TempDir()
		write(t, dir, "good", "x")
		testkit.NoError(t, make(filepath.Join(dir, "special")))
		root := openRoot(t, dir)
		_, err := Scan(t.Context(), root, noPatterns(t), Options{})
		testkit.Holds(t, errors.Is(err, ErrNotRegular) && strings.Contains(err.Error(), `"special" is `+name), name, err)
		m := testkit.Must(Scan(t.Context(), root, noPatterns(t, "!special"), Options{}))(t)
		testkit.Equal(t, len(m.Files), 1, name, "that is excluded:", m)
		_, _, err = describe(t.Context(), root, "special")
		testkit.Holds(t, errors.Is(err, ErrNotRegular), name, "that was a file when it was listed", err)
	}
	dir := t.TempDir()
	write(t, dir, `back\slash`, "x")
	testkit.Fails(Scan(t.Context(), openRoot(t, dir), noPatterns(t), Options{}))(t, fileset.ErrPath)
	dir = t.TempDir()
	write(t, dir, temporaryPrefix+"left/0", "x")
	m := testkit.Must(Scan(t.Context(), openRoot(t, dir), noPatterns(t), Options{}))(t)
	testkit.Equal(t, len(m.Files), 0, "what a killed Pull has left:", m)
}

// TestDamagedBlobs: content with a wrong digest or size never gets the path of a file.
func TestDamagedBlobs(t *testing.T) {
	for name, content := range map[string]string{"another": "CONTENT", "shorter": "conten", "longer": "contents", "none": ""} {
		dir, s, m := t.TempDir(), newStore(), &fileset.Manifest{}
		f := s.add(m, "a", "content")
		s.blobs[f.Blob] = []byte(content)
		write(t, dir, "a", "old")
		_, err := Pull(t.Context(), s, openRoot(t, dir), m, Options{})
		testkit.Holds(t, errors.Is(err, ErrDamaged) && strings.Contains(err.Error(), `pull "a"`), name, err)
		has(t, dir, "a", "old")
		leftover(t, dir, "a")
	}
}

// TestPullGoesOn: the next Pull continues a failed one.
func TestPullGoesOn(t *testing.T) {
	dir, s, m := t.TempDir(), newStore(), &fileset.Manifest{}
	for i := range 100 {
		s.add(m, fmt.Sprint("f", i), fmt.Sprint(i))
	}
	s.failAt = 50
	root := openRoot(t, dir)
	first, err := Pull(t.Context(), s, root, m, Options{})
	testkit.MustHold(t, err != nil && first.Files != 0, first, err)
	s.failAt = 0
	second := testkit.Must(Pull(t.Context(), s, root, m, Options{}))(t)
	testkit.Holds(t, second.Skipped == first.Files && second.Files == 100-first.Files, second, "after", first)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Fails(Pull(ctx, s, openRoot(t, t.TempDir()), m, Options{}))(t, context.Canceled)
	testkit.Fails(Scan(ctx, root, noPatterns(t), Options{}))(t, context.Canceled)
	bad := &fileset.Manifest{Files: []fileset.File{{Path: "../x"}}}
	testkit.Fails(Pull(t.Context(), s, root, bad, Options{}))(t, fileset.ErrPath)
	if os.Geteuid() != 0 && runtime.GOOS == "linux" {
		readOnly := t.TempDir()
		testkit.NoError(t, os.Chmod(readOnly, 0o500))
		testkit.Fails(Pull(t.Context(), s, openRoot(t, readOnly), m, Options{}))(t, fs.ErrPermission)
	}
}
