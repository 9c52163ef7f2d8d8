package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestMakeDirIsDurable: the names of the data directory and of its new parents are synced before a file is made in the
// directory. A later start syncs the name of the directory again.
func TestMakeDirIsDurable(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "a", "b", "data")
	var synced []string
	note := func(dir string) error {
		rel, err := filepath.Rel(root, dir)
		synced = append(synced, rel)
		entries, _ := os.ReadDir(dir)
		testkit.Equal(t, len(entries), 1, rel, "was synced with", "names")
		below, _ := os.ReadDir(filepath.Join(dir, entries[0].Name()))
		testkit.Holds(t, rel == "a/b" || len(below) == 0, rel, "was synced after something was put below it")
		return err
	}
	for _, want := range [][]string{{".", "a", "a/b"}, {"a/b"}} {
		synced = nil
		testkit.NoError(t, MakeDir(data, note))
		testkit.EqualSlices(t, synced, want, "synced")
	}
	failing := errors.New("a sync that fails")
	testkit.Failed(t, MakeDir(filepath.Join(root, "c"), func(string) error { return failing }), failing)
	testkit.Check(t, MakeDir(data, func(string) error { return os.ErrPermission }), "a directory that exists, below one that may not be read")
	file := filepath.Join(root, "file")
	testkit.NoError(t, os.WriteFile(file, nil, 0o644))
	testkit.Failed(t, MakeDir(file, note))
}
