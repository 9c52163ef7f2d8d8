package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
)

// TestFsyncFailsInARecovery: a process is killed before its fsync. The next process reads the data that the first one
// wrote, but its fsync fails, and the kernel reports this only once. A third process reads everything, its fsync
// succeeds, and it appends records. Then the power is lost.
func TestFsyncFailsInARecovery(t *testing.T) {
	dir := memory(t)
	lost := 0
	for seed := range uint64(40) {
		base := filepath.Join(dir, fmt.Sprint(seed))
		root := filepath.Join(base, "first")
		must(t, os.MkdirAll(root, 0o750))
		d, err := newDisk(root, rand.New(rand.NewPCG(seed, 0)), honest)
		must(t, err)
		fault := func(string, string) error { return nil }
		d.fault = func(call, path string) error { return fault(call, path) }

		// The first process is killed in the fsync of its second record.
		j := mustOpenJournal(t, d)
		put(t, j, "stored")
		killed := filepath.Join(base, "second")
		var next *disk
		fault = func(call, _ string) (err error) {
			if call == "fsync" && next == nil {
				next, err = d.afterKill(killed, rand.New(rand.NewPCG(seed, 1)))
			}
			return err
		}
		put(t, j, strings.Repeat("not acknowledged ", 200))
		must(t, j.Close())

		// The fsync of the second process fails.
		d = next
		d.fault = func(call, path string) error {
			if call == "sync" && filepath.Base(path) == "00000000000000000001" {
				return syscall.EIO
			}
			return nil
		}
		testkit.Fails(journal.Open(options(d)))(t, syscall.EIO)

		// The third process appends records.
		d.fault = func(string, string) error { return nil }
		j = mustOpenJournal(t, d)
		put(t, j, "acknowledged")
		last := j.Synced()
		d, err = d.afterPowerLoss(filepath.Join(base, "third"), rand.New(rand.NewPCG(seed, 2)))
		must(t, err)
		must(t, j.Close())

		d.fault = func(string, string) error { return nil }
		j, err = journal.Open(options(d))
		if err != nil {
			lost++
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		testkit.Holds(t, j.Synced() >= last, "seed", seed, "the journal ends at", j.Synced(), "and", last, "was acknowledged")
		must(t, j.Close())
	}
	t.Logf("%d of 40 seeds lost something", lost)
}

func options(d *disk) journal.Options {
	return journal.Options{Dir: filepath.Join(d.root, "journal"), Hooks: d.hooks()}
}

func mustOpenJournal(t *testing.T, d *disk) *journal.Journal {
	t.Helper()
	j, err := journal.Open(options(d))
	must(t, err)
	go j.Run(context.Background())
	return j
}

func put(t *testing.T, j *journal.Journal, body string) {
	t.Helper()
	done := make(chan error, 1)
	must(t, j.Propose(t.Context(), &journal.Proposal{
		Lane: journal.Bulk, Verb: "create", Body: []byte(body), Done: func(_ uint64, _ int64, err error) { done <- err },
	}))
	must(t, <-done)
}
