package store

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestPowerCutWhileOpening cuts the power at every write of Open, on a file system that loses any part of the unsynced
// data. The next Open must succeed.
func TestPowerCutWhileOpening(t *testing.T) {
	t.Run("the first time", func(t *testing.T) { cutWhileOpening(t, vfs.NewCrashableMem(), 0) })
	t.Run("again", func(t *testing.T) {
		base := vfs.NewCrashableMem()
		s := mustOpenIn(t, base)
		mustApply(t, s, 1, 0, plainCreate("a", "x", 1, 1))
		mustCommit(t, s)
		testkit.NoError(t, s.FlushWait())
		testkit.NoError(t, s.Close())
		cutWhileOpening(t, base, 1)
	})
}

func cutWhileOpening(t *testing.T, base *vfs.MemFS, applied uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	base = base.CrashClone(vfs.CrashCloneCfg{})
	cuts := 0
	for at := 1; ; at++ {
		for range 20 {
			fs := base.CrashClone(vfs.CrashCloneCfg{})
			var mu sync.Mutex // Pebble removes obsolete files in a separate goroutine
			var left *vfs.MemFS
			n := 0
			s := mustOpenIn(t, errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					mu.Lock()
					defer mu.Unlock()
					if n++; n == at {
						left = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: random})
					}
				}
				return nil
			})))
			testkit.NoError(t, s.Close())
			if left == nil {
				testkit.MustHold(t, cuts >= 100, cuts, "cuts: an open has hardly any writes")
				return
			}
			cuts++
			again, err := Open("store", Options{FS: left, Journal: testJournal})
			testkit.NoError(t, err, "after a cut at write", at)
			testkit.MustEqual(t, again.Applied(), applied, "after a cut at write", at, "the store is")
			testkit.NoError(t, again.Close())
		}
	}
}

func mustOpenIn(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	return testkit.Must(Open("store", Options{FS: fs, Journal: testJournal}))(t)
}

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
			p := testkit.Must(Peek(dir, Options{}))(t)
			testkit.Holds(t, p.Journal == tt.journal && p.Applied == tt.applied && strings.Contains(p.Torn, manifest) == tt.torn, p)
			after := listing(t, dir)
			for file, data := range before {
				testkit.Equal(t, after[file], data)
			}
			testkit.Equal(t, len(after), len(before))
		})
	}
	testkit.NoError(t, os.WriteFile(manifest, whole[:3], 0o600))
	testkit.Fails(Peek(dir, Options{}))(t, row.ErrDamaged, manifest+", cannot be read from offset 0")
}
