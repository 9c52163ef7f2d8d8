package backup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAnotherServer: a directory with backups of one server takes none of another server, since the backups of both would
// count for --keep, and a restore would take the newest of either. The backups that are there stay.
func TestAnotherServer(t *testing.T) {
	a, b := startSource(t, 0), startSource(t, 0)
	dir := t.TempDir()
	first := mustMake(t, dir, a.stream, nil, 1)
	uuidA, uuidB := a.Stats().Journal.UUID, b.Stats().Journal.UUID
	refused := func(what string) {
		t.Helper()
		_, err := tryMake(t, dir, b.stream, nil, 1)
		if !errors.Is(err, ErrOtherServer) || !strings.Contains(err.Error(), uuidA) || !strings.Contains(err.Error(), uuidB) {
			t.Errorf("%s: %v, want both of %s and %s", what, err, uuidA, uuidB)
		}
		if _, err := Verify(t.Context(), first.Path, true); err != nil {
			t.Errorf("%s: the backup of the first server: %v", what, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
			t.Errorf("%s: %v, %v", what, entries, err)
		}
	}
	refused("after one backup")
	d, err := OpenDirectory(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Accepts(uuidA), d.Close()); err != nil {
		t.Error(err)
	}
	// The newest one cannot be read; the one before can.
	second := mustMake(t, dir, a.stream, nil, 0)
	flip(t, filepath.Join(second.Path, ManifestName), 10)
	refused("after a damaged backup")
	mustMake(t, dir, a.stream, nil, 0)
}
