package store

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/daybookq/daybook/internal/testkit"
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
				if cuts < 100 {
					t.Fatalf("%d cuts: an open has hardly any writes", cuts)
				}
				return
			}
			cuts++
			again, err := Open("store", Options{FS: left, Journal: testJournal})
			if err != nil {
				t.Fatalf("after a cut at write %d: %v", at, err)
			}
			if again.Applied() != applied {
				t.Fatalf("after a cut at write %d the store is at %d, not %d", at, again.Applied(), applied)
			}
			testkit.NoError(t, again.Close())
		}
	}
}

func mustOpenIn(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	return testkit.Must(Open("store", Options{FS: fs, Journal: testJournal}))(t)
}
