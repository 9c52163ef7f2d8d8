package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestLies: here the disk or the API breaks a promise, and some of a few seeds must notice. A simulation that cannot fail would
// prove nothing.
func TestLies(t *testing.T) {
	dir := memory(t)
	for _, l := range []lie{fsyncLies, dirSyncLies, actorLies} {
		t.Run(string(l), func(t *testing.T) {
			noticed := 0
			const seeds, least = 12, 4
			seed := uint64(0)
			for seed < seeds && noticed < least {
				seed++
				if r := play(t, dir, seed, l, io.Discard); r.Error != "" {
					noticed++
				}
			}
			testkit.Holds(t, noticed == least, "only", noticed, "of", seed, "seeds noticed that", l)
		})
	}
}

// TestCutTooEarly: the simulation notices a journal that was cut too far.
func TestCutTooEarly(t *testing.T) {
	for _, tt := range []struct {
		first, durable uint64
		bad            bool
	}{{1, 0, false}, {11, 10, false}, {5, 10, false}, {12, 10, true}} {
		testkit.Equal(t, (covered(tt.first, tt.durable) != nil), tt.bad, "a journal from", tt.first, "and a store with", tt.durable)
	}
}

// TestPowerLossKeepsWhatIsDurable tests the simulated disk. Every power loss keeps synced data. Unsynced data is lost in
// some, kept in some, and torn in some.
func TestPowerLossKeepsWhatIsDurable(t *testing.T) {
	dir := memory(t)
	lost, kept, torn := 0, 0, 0
	for seed := range uint64(200) {
		base := filepath.Join(dir, fmt.Sprint(seed))
		root := filepath.Join(base, "now")
		folder := filepath.Join(root, "journal")
		must(t, os.MkdirAll(folder, 0o750))
		d, err := newDisk(root, rand.New(rand.NewPCG(seed, 0)), honest)
		must(t, err)
		d.fault = func(string, string) error { return nil }

		synced, grown, unnamed := filepath.Join(folder, "synced"), filepath.Join(folder, "grown"), filepath.Join(folder, "unnamed")
		old, added := strings.Repeat("a", 1000), strings.Repeat("b", 3000)
		for _, path := range []string{synced, grown} {
			must(t, os.WriteFile(path, []byte(old), 0o640))
			must(t, d.sync("sync", path))
		}
		must(t, d.sync("sync", folder))
		must(t, os.WriteFile(grown, []byte(old+added), 0o640))
		must(t, os.WriteFile(unnamed, []byte(old), 0o640))
		must(t, d.sync("sync", unnamed)) // syncs its bytes, but not its name

		after := filepath.Join(base, "after")
		_, err = d.afterPowerLoss(after, rand.New(rand.NewPCG(seed, 1)))
		must(t, err)
		testkit.MustEqual(t, string(testkit.Must(os.ReadFile(filepath.Join(after, "journal", "synced")))(t)), old, "seed", seed, "the synced file")
		data := testkit.Must(os.ReadFile(filepath.Join(after, "journal", "grown")))(t)
		testkit.MustHold(t, strings.HasPrefix(string(data), old), "seed", seed, "the synced part of a file that grew is", data)
		switch string(data) {
		case old:
			lost++
		case old + added:
			kept++
		default:
			torn++
		}
		data, err = os.ReadFile(filepath.Join(after, "journal", "unnamed"))
		testkit.MustHold(t, err != nil || string(data) == old, "seed", seed, "a file whose name stayed has", data)
	}
	testkit.Holds(t, lost >= 20 && kept >= 20 &&
		torn >= 20, "of 200 power losses", lost, "lost", kept, "kept and", torn, "tore data that was not durable")
}

func must(t *testing.T, err error) { t.Helper(); testkit.NoError(t, err) }
