package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
		if len(entries) != 1 {
			t.Errorf("%s was synced with %d names", rel, len(entries))
		}
		if below, _ := os.ReadDir(filepath.Join(dir, entries[0].Name())); rel != "a/b" && len(below) != 0 {
			t.Errorf("%s was synced after something was put below it", rel)
		}
		return err
	}
	for _, want := range [][]string{{".", "a", "a/b"}, {"a/b"}} {
		synced = nil
		testkit.NoError(t, MakeDir(data, note))
		if !slices.Equal(synced, want) {
			t.Errorf("synced %q, not %q", synced, want)
		}
	}
	failing := errors.New("a sync that fails")
	if err := MakeDir(filepath.Join(root, "c"), func(string) error { return failing }); !errors.Is(err, failing) {
		t.Errorf("with a sync that fails: %v", err)
	}
	if err := MakeDir(data, func(string) error { return os.ErrPermission }); err != nil {
		t.Errorf("a directory that exists, below one that may not be read: %v", err)
	}
	file := filepath.Join(root, "file")
	testkit.NoError(t, os.WriteFile(file, nil, 0o644))
	if err := MakeDir(file, note); err == nil {
		t.Error("a file was taken for a directory")
	}
}
