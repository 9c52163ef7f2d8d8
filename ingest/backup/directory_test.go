package backup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestAnotherServer: a directory with backups of one server refuses backups of another server, because the backups of
// both would count for --keep, and a restore would use the newest of either. The existing backups stay.
func TestAnotherServer(t *testing.T) {
	a, b := startSource(t, 0), startSource(t, 0)
	dir := t.TempDir()
	first := mustMake(t, dir, a.stream, nil, 1)
	uuidA, uuidB := a.Stats().Journal.UUID, b.Stats().Journal.UUID
	refused := func(what string) {
		t.Helper()
		_, err := tryMake(t, dir, b.stream, nil, 1)
		testkit.Holds(t, errors.Is(err, ErrOtherServer) && strings.Contains(err.Error(), uuidA) &&
			strings.Contains(err.Error(), uuidB), what, err, "want both of", uuidA, "and", uuidB)
		_, err = Verify(t.Context(), first.Path, true)
		testkit.Check(t, err, what, "the backup of the first server")
		entries := testkit.Must(os.ReadDir(dir))(t)
		testkit.Holds(t, !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }), what, entries)
	}
	refused("after one backup")
	d := testkit.Must(OpenDirectory(dir, false))(t)
	testkit.Check(t, errors.Join(d.Accepts(uuidA), d.Close()))
	// The newest backup cannot be read; the one before can.
	second := mustMake(t, dir, a.stream, nil, 0)
	flip(t, filepath.Join(second.Path, ManifestName), 10)
	refused("after a damaged backup")
	mustMake(t, dir, a.stream, nil, 0)
}

// TestServerData: a server's data directory and everything inside it is refused as a directory for backups. The server's
// blobs would be removed together with the blobs that no backup uses.
func TestServerData(t *testing.T) {
	data := t.TempDir()
	for _, dir := range []string{"store", "journal", "blobs"} {
		testkit.NoError(t, os.Mkdir(filepath.Join(data, dir), 0o755))
	}
	testkit.NoError(t, os.WriteFile(filepath.Join(data, "journal", "identity"), nil, 0o644))
	link := filepath.Join(t.TempDir(), "link")
	testkit.NoError(t, os.Symlink(data, link))
	for _, path := range []string{data, filepath.Join(data, "blobs"), filepath.Join(data, "backups", "daily"), link} {
		_, err := OpenDirectory(path, true)
		testkit.Holds(t, errors.Is(err, ErrServerData), path, err, "want", ErrServerData)
	}
	testkit.Holds(t, !exists(data, "backups"), "a directory was made")
	testkit.Check(t, testkit.Must(OpenDirectory(filepath.Join(filepath.Dir(data), "backups"), true))(t).Close())
}

// TestLeftDirectories: OpenDirectory removes the leftovers of a killed backup, but nothing that another program or a user has
// made, whatever its name is.
func TestLeftDirectories(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, files ...string) {
		t.Helper()
		testkit.NoError(t, os.MkdirAll(filepath.Join(dir, name, "store"), 0o750))
		for _, file := range files {
			testkit.NoError(t, os.WriteFile(filepath.Join(dir, name, file), []byte("x"), 0o640))
		}
	}
	const at = "20261123T180500.123Z"
	foreign := []string{
		partialPrefix + "uploads", removedPrefix + "by-hand", partialPrefix + "12a", removedPrefix + at + "x", // names of other programs
		partialPrefix + "123", removedPrefix + at, // our names, without the mark
	}
	for _, name := range foreign[:4] {
		put(name, "precious", leftMark)
	}
	for _, name := range foreign[4:] {
		put(name, "precious")
	}
	left := []string{partialPrefix + "456", removedPrefix + "20261123T180500.124Z", partialPrefix + "789"}
	put(left[0], leftMark, ManifestName)
	put(left[1], leftMark, sumName)
	testkit.NoError(t, os.Mkdir(filepath.Join(dir, left[2]), 0o750)) // the command was killed before it wrote the mark
	target := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(target, leftMark), nil, 0o640))
	link := partialPrefix + "999"
	testkit.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	testkit.Check(t, testkit.Must(OpenDirectory(dir, true))(t).Close())
	for _, name := range append(foreign, link) {
		_, err := os.Stat(filepath.Join(dir, name))
		testkit.Check(t, err, name, "was removed")
	}
	for _, name := range left {
		_, err := os.Lstat(filepath.Join(dir, name))
		testkit.Holds(t, os.IsNotExist(err), name, "is still there", err)
	}
}

// TestMarks: a complete backup has no mark, but an interrupted removal leaves one at any moment.
func TestMarks(t *testing.T) {
	s := startSource(t, 0)
	dir := t.TempDir()
	first := mustMake(t, dir, s.stream, nil, 0)
	testkit.Fails(os.Lstat(filepath.Join(first.Path, leftMark)))(t, os.ErrNotExist)
	// The removal was killed when the backup had its mark, and in the second case when it also had its new name.
	testkit.NoError(t, os.WriteFile(filepath.Join(first.Path, leftMark), nil, 0o640))
	second := mustMake(t, dir, s.stream, nil, 1)
	testkit.EqualSlices(t, second.Removed, []string{first.Path}, "removed")
	gone := filepath.Join(dir, removedPrefix+filepath.Base(second.Path))
	testkit.NoError(t, errors.Join(os.WriteFile(filepath.Join(second.Path, leftMark), nil, 0o640), os.Rename(second.Path, gone)))
	third := mustMake(t, dir, s.stream, nil, 1)
	entries := testkit.Must(os.ReadDir(dir))(t)
	testkit.Holds(t, len(entries) == 1 && len(third.Removed) == 0, "left", entries)
}

// TestRottenBlob: a blob whose bytes have changed in the directory is fetched again. Then the new backup can be restored,
// and so can the earlier backups that share the blob. Others does not suggest backups that share the damaged blob.
func TestRottenBlob(t *testing.T) {
	s := startSource(t, 0)
	dir := t.TempDir()
	f := &fakeBlobs{}
	f.put("", "stays")
	without := mustMake(t, dir, s.stream, f, 0)
	address := f.put("acme", "rots")
	first := mustMake(t, dir, s.stream, f, 0)
	second := mustMake(t, dir, s.stream, f, 0)
	path := filepath.Join(dir, blobsDir, "clients", "acme", "blobs", "sha256", strings.TrimPrefix(address, "sha256:"))
	flip(t, path, 1)
	for what, try := range map[string]func() error{
		"Verify": func() error { _, err := Verify(t.Context(), second.Path, true); return err },
		"Restore": func() error {
			_, err := Restore(t.Context(), second.Path, filepath.Join(t.TempDir(), "x"), RestoreOptions{})
			return err
		},
	} {
		err := try()
		testkit.Holds(t, errors.Is(err, ErrDamaged), what, err)
		testkit.Equal(t, Others(second.Path, err), without.Path, what, "the other backups that share the blob")
	}
	testkit.Equal(t, Others(second.Path, ErrDamaged), first.Path+", "+without.Path, "the other backups")
	f.gets = 0
	third := mustMake(t, dir, s.stream, f, 0)
	testkit.Holds(t, f.gets == 1 && slices.Equal(third.Repaired, []string{address}) && third.NewBlobs == 1, f.gets, "blobs were fetched", third)
	for _, m := range []Made{first, second, third} {
		testkit.Must(Verify(t.Context(), m.Path, true))(t)
	}

	flip(t, path, 1)
	f.damaged = map[string]bool{address: true}
	fourth := mustMake(t, dir, s.stream, f, 0)
	if n, _ := fourth.Verified.Blobs.Count(); n != 1 || !slices.Equal(fourth.Damaged, []string{address}) || len(fourth.Repaired) > 0 {
		t.Errorf("a blob that is damaged here and there: %d blobs, %+v", n, fourth)
	}
	testkit.Must(Verify(t.Context(), fourth.Path, true))(t)

	f.damaged, f.gets = nil, 0
	d := testkit.Must(OpenDirectory(dir, false))(t)
	d.BlobsBySize = true
	testkit.Must(d.Make(t.Context(), s.stream, f, 0))(t)
	testkit.Holds(t, f.gets == 0, "with BlobsBySize", f.gets, "blobs were fetched")
	testkit.Check(t, d.Close())
}
