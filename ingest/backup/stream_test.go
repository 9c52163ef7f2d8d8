package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func addressOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// filesIn returns the files of a directory with their contents.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	testkit.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(content)
		return err
	}))
	return all
}

// TestIncompleteStream: a stream that ends early is not a backup, and the previous backup stays.
func TestIncompleteStream(t *testing.T) {
	s := startSource(t, 0)
	testkit.Must(s.create(t.Context(), 100, "x"))(t)
	dir := t.TempDir()
	first := mustMake(t, dir, s.stream, nil, 0)
	whole := s.captured()
	for _, n := range append([]int{0, 1, 511, 512, 513, len(whole) - 1024, len(whole) - 1023}, randomly(40, len(whole)-1024)...) {
		if _, err := tryMake(t, dir, streamOf(whole[:n]), nil, 1); !errors.Is(err, ErrDamaged) {
			// the last 1024 bytes are zeros: archive/tar finds the end without them
			testkit.MustHold(t, n >= len(whole)-1024, "the first", n, "of", len(whole), "bytes", err)
			break
		}
		entries := testkit.Must(os.ReadDir(dir))(t)
		testkit.MustHold(t, len(entries) == 1 && entries[0].Name() == filepath.Base(first.Path), "after the first", n, "bytes", entries)
	}
	mustMake(t, dir, streamOf(whole), nil, 1)
}

func randomly(n, below int) (list []int) {
	for range n {
		list = append(list, rand.IntN(below))
	}
	return list
}

// TestChangedStream: a stream with a changed byte is refused, unless its files are unaffected.
func TestChangedStream(t *testing.T) {
	s := startSource(t, 0)
	testkit.Must(s.create(t.Context(), 100, "x"))(t)
	whole := s.captured()
	reference := t.TempDir()
	testkit.Must(Receive(reference, bytes.NewReader(whole), ""))(t)
	want := filesIn(t, reference)
	refused := 0
	for _, at := range randomly(300, len(whole)) {
		changed := bytes.Clone(whole)
		changed[at] ^= 1 << rand.IntN(8)
		dir := t.TempDir()
		if _, err := Receive(dir, bytes.NewReader(changed), ""); err != nil {
			refused++
			continue
		}
		if got := filesIn(t, dir); fmt.Sprint(got) != fmt.Sprint(want) {
			// the manifest itself has no digest, so Verify decides by comparing it with the files
			testkit.NoError(t, Seal(dir, nil))
			v, err := Verify(t.Context(), dir, true)
			testkit.MustHold(t, err != nil || v.Last == uint64(0) || sameState(got, want), "byte", at, "was changed, and the files differ")
		}
	}
	testkit.Holds(t, refused >= 100, "only", refused, "of 300 changed streams were refused")
}

// sameState reports whether all files except the manifest are equal.
func sameState(a, b map[string]string) bool {
	if len(a) < len(b) {
		return false
	}
	for path, content := range b {
		if path != "/"+ManifestName && a[path] != content {
			return false
		}
	}
	return true
}

// entry is a file of a tar.
type entry struct {
	name string
	kind byte
	body string
}

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o640, Size: int64(len(e.body))}
		if e.kind != tar.TypeReg {
			h.Size, h.Linkname = 0, e.body
		}
		testkit.NoError(t, w.WriteHeader(h))
		if e.kind == tar.TypeReg {
			testkit.Must(io.WriteString(w, e.body))(t)
		}
	}
	testkit.NoError(t, w.Close())
	return b.Bytes()
}

var badPaths = []string{
	"../x", "store/../../x", "/etc/x", "store/..", "store/.", "store/", "store", "x", "journal/x", "store/a/b", "store/.hidden", "./store/a", "store//a", "journal/00000000000000000001/../x",
	"journal/identity/x", "blobs/x", ManifestName + "/x", "..", "", `store\..\x`, "store/" + strings.Repeat("a", maxPath), "store/a\x00b", "store/LOCK", sumName, blobsName, restoreMark,
}

// TestPathsOfStreams: a stream can only write the files of a backup.
func TestPathsOfStreams(t *testing.T) {
	identity := entry{"journal/identity", tar.TypeReg, "x"}
	sum := strings.TrimPrefix(addressOf("x"), "sha256:")
	manifest := func(paths ...string) entry {
		m := Manifest{Format: formatName, Version: formatVersion}
		for _, path := range paths {
			m.Files = append(m.Files, File{path, 1, sum})
		}
		text := testkit.Must(m.encode())(t)
		return entry{ManifestName, tar.TypeReg, string(text)}
	}
	check := func(what string, entries ...entry) {
		t.Helper()
		parent := t.TempDir()
		dir := filepath.Join(parent, "a", "dir")
		testkit.NoError(t, os.MkdirAll(dir, 0o750))
		_, err := Receive(dir, bytes.NewReader(tarOf(t, entries...)), "")
		testkit.Holds(t, errors.Is(err, ErrDamaged), what, err)
		for path := range filesIn(t, parent) {
			testkit.Holds(t, strings.HasPrefix(path, "/a/dir/journal/") || strings.HasPrefix(path, "/a/dir/store/"), what, "wrote", path)
		}
	}
	for _, path := range badPaths {
		if path != "" && !strings.HasSuffix(path, "/") && !strings.Contains(path, "\x00") { // a tar cannot have these
			check(fmt.Sprintf("file %q", path), identity, entry{path, tar.TypeReg, "x"}, manifest("journal/identity", path))
		}
		check(fmt.Sprintf("manifest with %q", path), identity, manifest("journal/identity", path))
	}
	check("symbolic link", identity, entry{"store/a", tar.TypeSymlink, "/etc"}, manifest("journal/identity"))
	check("hard link", identity, entry{"store/a", tar.TypeLink, "journal/identity"}, manifest("journal/identity"))
	check("directory", identity, entry{"store/a", tar.TypeDir, ""}, manifest("journal/identity"))
	check("twice", identity, identity, manifest("journal/identity"))
	check("twice in the manifest", identity, manifest("journal/identity", "journal/identity"))
	check("manifest first", manifest("journal/identity"), identity)
	check("two manifests", identity, manifest("journal/identity"), manifest("journal/identity"))
	check("no manifest", identity)
	check("nothing")
	check("more than the manifest has", identity, entry{"store/a", tar.TypeReg, "x"}, manifest("journal/identity"))
	check("less than the manifest has", identity, manifest("journal/identity", "store/a"))
	check("another digest", entry{"journal/identity", tar.TypeReg, "y"}, manifest("journal/identity"))

	testkit.Must(Receive(t.TempDir(), bytes.NewReader(tarOf(t, identity, manifest("journal/identity"))), ""))(t)
}

// TestPathsOfManifests: a sealed backup whose manifest has a path out of the backup is refused, even if its digests are
// right.
func TestPathsOfManifests(t *testing.T) {
	s := startSource(t, 0)
	made := mustMake(t, t.TempDir(), s.stream, nil, 0)
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.NoError(t, os.WriteFile(secret, []byte("x"), 0o600))
	relative := testkit.Must(filepath.Rel(made.Path, secret))(t)
	for _, path := range append([]string{relative, "store/../" + relative, secret}, badPaths...) {
		m := *made.Verified.Manifest
		m.Files = append(append([]File{}, m.Files...), File{path, 1, strings.TrimPrefix(addressOf("x"), "sha256:")})
		reseal(t, made.Path, &m)
		_, err := Verify(t.Context(), made.Path, true)
		testkit.Holds(t, errors.Is(err, ErrDamaged), path, "Verify", err)
		_, err = Restore(t.Context(), made.Path, filepath.Join(t.TempDir(), "data"), RestoreOptions{})
		testkit.Holds(t, errors.Is(err, ErrDamaged), path, "Restore", err)
	}
	for _, line := range []string{"sha256:../../x 1 ", addressOf("x") + " 1 ..", addressOf("x") + " 1 ../..", addressOf("x") + " -1 a", addressOf("x") + " 1", "x 1 a b", addressOf("x") + " 1 " + strings.Repeat("a", 500)} {
		reseal(t, made.Path, made.Verified.Manifest)
		testkit.NoError(t, os.Remove(filepath.Join(made.Path, sumName)))
		testkit.NoError(t, Seal(made.Path, NewBlobs()))
		list := filepath.Join(made.Path, blobsName)
		testkit.NoError(t, os.WriteFile(list, []byte(line+"\n"), 0o600))
		sums := testkit.Must(os.ReadFile(filepath.Join(made.Path, sumName)))(t)
		sum := testkit.Must(sumFile(list))(t)
		first, _, _ := strings.Cut(string(sums), "\n")
		testkit.NoError(t, os.WriteFile(filepath.Join(made.Path, sumName), []byte(first+"\n"+sum+"  "+blobsName+"\n"), 0o600))
		_, err := Verify(t.Context(), made.Path, true)
		testkit.Holds(t, errors.Is(err, ErrDamaged), "the line", line, err)
		testkit.NoError(t, os.Remove(list))
	}
	reseal(t, made.Path, made.Verified.Manifest)
	testkit.Must(Verify(t.Context(), made.Path, true))(t)
}

// reseal replaces the manifest of a backup.
func reseal(t *testing.T, dir string, m *Manifest) {
	t.Helper()
	text := testkit.Must(m.encode())(t)
	for _, name := range []string{ManifestName, sumName, blobsName} {
		err := os.Remove(filepath.Join(dir, name))
		testkit.MustHold(t, err == nil || os.IsNotExist(err), err)
	}
	testkit.NoError(t, errors.Join(os.WriteFile(filepath.Join(dir, ManifestName), text, 0o640), Seal(dir, nil)))
}

// TestManifest: a manifest of another version is refused as unknown, and a malformed or inconsistent one as damaged.
func TestManifest(t *testing.T) {
	s := startSource(t, 0)
	testkit.Must(s.create(t.Context(), 10, "x"))(t)
	made := mustMake(t, t.TempDir(), s.stream, nil, 0)
	for name, c := range map[string]struct {
		change func(m *Manifest)
		want   error
	}{
		"version":  {func(m *Manifest) { m.Version = 2 }, ErrVersion},
		"format":   {func(m *Manifest) { m.Format = "x" }, ErrDamaged},
		"journal":  {func(m *Manifest) { m.Journal = "0b5c7e0e-7a1f-4a53-9a9a-3d6c1f0f6f3e" }, ErrDamaged},
		"cursor":   {func(m *Manifest) { m.Cursor-- }, ErrDamaged},
		"last":     {func(m *Manifest) { m.Last++ }, ErrDamaged},
		"no files": {func(m *Manifest) { m.Files = nil }, ErrDamaged},
		"bytes":    {func(m *Manifest) { m.Files[0].Bytes = -1 }, ErrDamaged},
	} {
		m := *made.Verified.Manifest
		m.Files = append([]File{}, m.Files...)
		c.change(&m)
		reseal(t, made.Path, &m)
		_, err := Verify(t.Context(), made.Path, true)
		testkit.Holds(t, errors.Is(err, c.want), name, err)
	}
	var fields map[string]any
	text, err := made.Verified.encode()
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	testkit.NoError(t, err)
	for _, text := range []string{"", "{", string(text) + "{}", strings.Replace(string(text), "{", `{"more":1,`, 1), "null", "[]"} {
		if _, err := decodeManifest([]byte(text)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// FuzzReceive: no stream makes Receive write outside of its directory, or fail other than by an error.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, stream []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "dir")
		testkit.NoError(t, os.Mkdir(dir, 0o750))
		_, _ = Receive(dir, bytes.NewReader(stream), "") // most streams are refused
		testkit.Equal(t, len(testkit.Must(os.ReadDir(parent))(t)), 1)
	})
}
