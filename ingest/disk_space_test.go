package ingest

import (
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
	testkit.Fails2(e.Create(ctx, lines(1)))(t, ErrDiskFull)
	claimed, jobs := mustClaim(t, e, claimOf(2))
	testkit.MustEqual(t, len(jobs), 2, "claim below the reserve jobs")
	outcome := job.Outcome{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}
	outcome.OutputKind, outcome.Output = job.Bytes, make([]byte, largeOutput)
	testkit.Fails2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome}}))(t, ErrDiskFull)
	text := outcome
	text.OutputKind, text.Output, text.Error = job.Nothing, nil, strings.Repeat("e", largeOutput/2)
	testkit.Fails2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{text, text}}))(t, ErrDiskFull)
	outcome.Output = outcome.Output[1:]
	if _, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome}}); err != nil {
		t.Errorf("small output below the reserve: %v", err)
	}
	set(diskspace.Reserve)
	testkit.Fails2(e.Create(ctx, lines(1)))(t, ErrDiskFull)
	set(3 * gib)
	if _, _, err := e.Create(ctx, lines(1)); err != nil {
		t.Errorf("create with space: %v", err)
	}
	info := testkit.Must(os.Stat(filepath.Join(dir, "ballast")))(t)
	testkit.Equal(t, info.Size(), diskspace.Reserve/diskspace.BallastShare, "ballast with space:", info)
	set(diskspace.Reserve/diskspace.BallastShare - 1)
	testkit.Fails(os.Stat(filepath.Join(dir, "ballast")))(t, os.ErrNotExist)
}
