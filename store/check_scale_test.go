package store

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// maxCheckMiB is how much memory the process may need for a check of ten million one-job batches.
const maxCheckMiB = 1024

// TestCheckOfManyBatches checks a store of ten million one-job batches, half of which were claimed and completed. It
// takes minutes and gigabytes of disk, so it runs only with `make bench SET=check`. TestCheckMemoryIsFlat is the small
// test.
func TestCheckOfManyBatches(t *testing.T) {
	batches := 10_000_000
	switch asked := os.Getenv("DAYBOOK_CHECK_BATCHES"); asked {
	case "":
		t.Skip("ten million batches take some minutes: make bench SET=check")
	default:
		if n, err := strconv.Atoi(asked); err == nil && n >= 1000 {
			batches = n
		}
	}
	f := inStore(t, Options{}, func(f *feeder) {
		for i := range batches {
			f.Apply(plainCreate("a", "x", 1, 3))
			if i%2 == 1 {
				c := f.Apply(plainClaim("r", 1)).(*applied.Claimed)
				f.Apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
			}
			if i%200 == 0 {
				mustCommit(f.t, f.s)
			}
		}
	})
	before, began := residentMiB(t, "VmRSS"), time.Now()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the peak memory
		t.Skip(err)
	}
	sound(t, f.s)
	peak := residentMiB(t, "VmHWM")
	t.Logf("a check of %d batches took %v; the process had %d MiB before, and %d MiB at most", batches, time.Since(began), before, peak)
	if peak > maxCheckMiB {
		t.Errorf("a check of %d batches took %d MiB, more than %d", batches, peak, maxCheckMiB)
	}
}

// residentMiB reads a memory figure of this process from the kernel.
func residentMiB(t *testing.T, name string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == name+":" {
			kib := testkit.Must(strconv.Atoi(string(fields[1])))(t)
			return kib / 1024
		}
	}
	t.Skipf("no %s in /proc/self/status", name)
	return 0
}
