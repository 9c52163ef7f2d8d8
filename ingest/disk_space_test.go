package ingest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/diskspace"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestDiskReserve: while less space is free than the reserve, creates and large outputs are refused, but claims and
// completions work. When space is free again, creates are accepted again.
func TestDiskReserve(t *testing.T) {
	ctx := t.Context()
	const gib = 1 << 30
	var free atomic.Uint64
	free.Store(gib)
	dir := t.TempDir()
	e, _ := startWith(t, Options{Dir: dir, Space: func(string) (uint64, uint64, error) { return free.Load(), 100 * gib, nil }})
	testkit.Must2(e.Create(ctx, lines(2)))(t)
	set := func(bytes uint64) {
		free.Store(bytes)
		e.disk.Look()
	}
	set(diskspace.Reserve - 1)
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
	text := outcome
	text.OutputKind, text.Output, text.Error = job.Nothing, nil, strings.Repeat("e", largeOutput/2)
	if _, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{text, text}}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("large error texts below the reserve: %v", err)
	}
	outcome.Output = outcome.Output[1:]
	if _, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome}}); err != nil {
		t.Errorf("small output below the reserve: %v", err)
	}
	set(diskspace.Reserve)
	if _, _, err := e.Create(ctx, lines(1)); !errors.Is(err, ErrDiskFull) {
		t.Errorf("create just above the reserve, which was not left by its margin: %v", err)
	}
	set(3 * gib)
	if _, _, err := e.Create(ctx, lines(1)); err != nil {
		t.Errorf("create with space: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "ballast")); err != nil || info.Size() != diskspace.Reserve/diskspace.BallastShare {
		t.Errorf("ballast with space: %v, %v", info, err)
	}
	set(diskspace.Reserve/diskspace.BallastShare - 1)
	if _, err := os.Stat(filepath.Join(dir, "ballast")); !os.IsNotExist(err) {
		t.Errorf("ballast without space: %v", err)
	}
}
