package ingest

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/job"
)

// TestDiskReserve: below the reserve creates and large outputs are refused, claims and completions go on; when space returns so do
// creates.
func TestDiskReserve(t *testing.T) {
	ctx := t.Context()
	const gib = 1 << 30
	var free atomic.Uint64
	free.Store(gib)
	e, _ := startWith(t, Options{Dir: t.TempDir(), Statfs: func(string) (uint64, uint64, error) { return free.Load(), 100 * gib, nil }})
	if _, _, err := e.Create(ctx, lines(2)); err != nil {
		t.Fatal(err)
	}
	set := func(bytes uint64) {
		free.Store(bytes)
		e.lookAtDisk()
	}
	set(diskReserve - 1)
	if _, _, err := e.Create(ctx, lines(1)); !errors.Is(err, ErrDiskFull) {
		t.Errorf("create below the reserve: %v", err)
	}
	claimed, jobs, _, err := e.Claim(ctx, claimOf(2), 0)
	if err != nil || len(jobs) != 2 {
		t.Fatalf("claim below the reserve: %d jobs, %v", len(jobs), err)
	}
	outcome := job.Outcome{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}
	outcome.OutputKind, outcome.Output = job.Bytes, make([]byte, largeOutput)
	if _, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome}}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("large output below the reserve: %v", err)
	}
	outcome.Output = outcome.Output[1:]
	if _, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome}}); err != nil {
		t.Errorf("small output below the reserve: %v", err)
	}
	set(diskReserve)
	if _, _, err := e.Create(ctx, lines(1)); !errors.Is(err, ErrDiskFull) {
		t.Errorf("create just above the reserve, which was not left by its margin: %v", err)
	}
	set(3 * gib)
	if _, _, err := e.Create(ctx, lines(1)); err != nil {
		t.Errorf("create with space: %v", err)
	}
	if info, err := os.Stat(e.disk.ballast()); err != nil || info.Size() != diskReserve/ballastShare {
		t.Errorf("ballast with space: %v, %v", info, err)
	}
	set(diskReserve/ballastShare - 1)
	if _, err := os.Stat(e.disk.ballast()); !os.IsNotExist(err) {
		t.Errorf("ballast without space: %v", err)
	}
}
