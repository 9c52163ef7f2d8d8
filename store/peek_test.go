package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/store/internal/row"
)

// listing returns the names and contents of a directory's files.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries := testkit.Must(os.ReadDir(dir))(t)
	for _, e := range entries {
		data := testkit.Must(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		files[e.Name()] = string(data)
	}
	return files
}

// TestPeek: Peek reads the cursor and journal of a store without changing any file. This matters most if the manifest
// has lost its end: an open for writing would let Pebble delete the tables that the rest of the manifest does not name.
func TestPeek(t *testing.T) {
	testkit.Equal(t, testkit.Must(Peek(filepath.Join(t.TempDir(), "none"), Options{}))(t), Peeked{}, "of no store")
	dir := filepath.Join(t.TempDir(), "store")
	s := testkit.Must(Open(dir, Options{Journal: testJournal}))(t)
	if p, err := Peek(dir, Options{}); err == nil { // it is locked
		t.Errorf("of a store in use: %+v", p)
	}
	manifest := filepath.Join(dir, "MANIFEST-000001")
	empty := testkit.Must(os.ReadFile(manifest))(t)
	mustApply(t, s, 1, 0, plainCreate("a", "x", 1, 50))
	mustCommit(t, s)
	testkit.NoError(t, s.FlushWait())
	testkit.NoError(t, s.Close())
	whole := testkit.Must(os.ReadFile(manifest))(t)
	for name, tt := range map[string]struct {
		bytes   int
		journal string
		applied uint64
		torn    bool
	}{
		"whole":                 {len(whole), testJournal, 1, false},
		"a record short":        {len(empty), "", 0, false},
		"within a record":       {len(empty) + 5, "", 0, true},
		"all but its last byte": {len(whole) - 1, "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.NoError(t, os.WriteFile(manifest, whole[:tt.bytes], 0o600))
			before := listing(t, dir)
			p, err := Peek(dir, Options{})
			if err != nil || p.Journal != tt.journal || p.Applied != tt.applied || strings.Contains(p.Torn, manifest) != tt.torn {
				t.Errorf("%+v, %v", p, err)
			}
			after := listing(t, dir)
			for file, data := range before {
				testkit.Equal(t, after[file], data)
			}
			testkit.Equal(t, len(after), len(before))
		})
	}
	testkit.NoError(t, os.WriteFile(manifest, whole[:3], 0o600))
	if _, err := Peek(dir, Options{}); !errors.Is(err, row.ErrDamaged) || !strings.Contains(err.Error(), manifest+", cannot be read from offset 0") {
		t.Errorf("of a manifest without a record: %v", err)
	}
}
