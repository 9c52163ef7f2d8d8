package backup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/internal/testkit"
)

func entriesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries := testkit.Must(os.ReadDir(dir))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// mustBeSound checks a restored data directory, and that it contains nothing else.
func mustBeSound(t *testing.T, data string, more ...string) {
	t.Helper()
	want := append(slices.Clone(more), "journal", "store")
	slices.Sort(want)
	testkit.EqualSlices(t, entriesOf(t, data), want, "the restored directory")
	found := testkit.Must(ingest.Inspect(t.Context(), data, func(problem string) bool { t.Error(problem); return true }))(t)
	testkit.Equal(t, found.Jobs["pending"], 10, found)
}

// tenJobs returns a backup of a server with ten jobs.
func tenJobs(t *testing.T) Made {
	t.Helper()
	s := startSource(t, 0)
	testkit.Must(s.create(t.Context(), 10, "x"))(t)
	return mustMake(t, t.TempDir(), s.stream, nil, 0)
}

// TestRestoreInto: the data directory of a restore must be free. The leftovers of a killed restore are removed; files
// from anybody else are not.
func TestRestoreInto(t *testing.T) {
	made := tenJobs(t)
	for name, exists := range map[string]bool{"a directory that exists": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "deep", "data")
			restore := func() error { _, err := Restore(t.Context(), made.Path, data, RestoreOptions{}); return err }
			testkit.NoError(t, os.MkdirAll(data, 0o750))
			testkit.NoError(t, os.WriteFile(filepath.Join(data, "x"), nil, 0o600))
			testkit.Failed(t, restore(), ErrNotEmpty)
			testkit.NoError(t, os.Remove(filepath.Join(data, "x")))
			partial := filepath.Join(data, restoreInside)
			if !exists {
				testkit.NoError(t, os.Remove(data))
				partial = data + restoreSuffix
			}
			testkit.NoError(t, os.MkdirAll(filepath.Join(partial, "store"), 0o750))
			testkit.Failed(t, restore(), ErrNotEmpty)
			testkit.NoError(t, os.WriteFile(filepath.Join(partial, restoreMark), nil, 0o600))
			lock := testkit.Must(filelock.Open(filepath.Join(partial, restoreMark)))(t)
			testkit.Failed(t, restore(), ErrInUse)
			testkit.NoError(t, lock.Close())
			if exists { // the restore was killed after it had moved the store
				testkit.NoError(t, os.Rename(filepath.Join(partial, "store"), filepath.Join(data, "store")))
			}
			testkit.Check(t, restore(), "over what a killed restore has left")
			testkit.Equal(t, len(entriesOf(t, filepath.Dir(data))), 1)
			mustBeSound(t, data)
			testkit.Failed(t, restore(), ErrNotEmpty)
			// A restore was killed after it had moved everything except its mark. The result is ordinary data.
			inside := filepath.Join(data, restoreInside)
			testkit.NoError(t, errors.Join(os.Mkdir(inside, 0o750), os.WriteFile(filepath.Join(inside, restoreMark), nil, 0o600)))
			testkit.Failed(t, restore(), ErrNotEmpty)
			mustBeSound(t, data, restoreInside)
		})
	}
}

// TestRestoreIntoTheSameDirectory: an existing directory stays, with its owner, and gets the files. Nothing is written
// next to it, since it may be a mount point whose parent belongs to somebody else. The file system's lost+found stays.
func TestRestoreIntoTheSameDirectory(t *testing.T) {
	made := tenJobs(t)
	parent := t.TempDir()
	data := filepath.Join(parent, "data")
	testkit.NoError(t, os.MkdirAll(filepath.Join(data, "lost+found"), 0o700))
	before := testkit.Must(os.Stat(data))(t)
	testkit.Must(Restore(t.Context(), made.Path, data, RestoreOptions{}))(t)
	after := testkit.Must(os.Stat(data))(t)
	testkit.Holds(t, os.SameFile(before, after) && after.Mode() == before.Mode(), "it is another directory", after)
	testkit.Equal(t, len(entriesOf(t, parent)), 1, "beside it")
	mustBeSound(t, data, "lost+found")
}

// TestRestoreThroughLinks: a symbolic link to a data directory stays a link, even if its target does not exist. In our
// packages, /var/lib/daybook is a link.
func TestRestoreThroughLinks(t *testing.T) {
	made := tenJobs(t)
	for name, exists := range map[string]bool{"a directory that exists": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			target, link := filepath.Join(root, "private", "daybook"), filepath.Join(root, "daybook")
			testkit.NoError(t, errors.Join(os.Mkdir(filepath.Dir(target), 0o700), os.Symlink("private/daybook", link)))
			if exists {
				testkit.NoError(t, os.Mkdir(target, 0o700))
			}
			testkit.Must(Restore(t.Context(), made.Path, link, RestoreOptions{}))(t)
			testkit.Equal(t, testkit.Must(os.Readlink(link))(t), "private/daybook", "the link leads to")
			mustBeSound(t, target)
			testkit.Equal(t, len(entriesOf(t, root)), 2)
		})
	}
	loop := filepath.Join(t.TempDir(), "loop")
	testkit.NoError(t, os.Symlink(loop, loop))
	testkit.Fails(Restore(t.Context(), made.Path, loop, RestoreOptions{}))(t)
}
