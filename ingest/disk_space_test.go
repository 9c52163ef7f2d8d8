package ingest

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

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
	e, _ := startWith(t, Options{Dir: t.TempDir(), Statfs: func(string) (uint64, uint64, error) { return free.Load(), 100 * gib, nil }})
	testkit.Must2(e.Create(ctx, lines(2)))(t)
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
	text := outcome
	text.OutputKind, text.Output, text.Error = job.Nothing, nil, strings.Repeat("e", largeOutput/2)
	if _, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{text, text}}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("large error texts below the reserve: %v", err)
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

// TestBallastWithoutFallocate: if the file system cannot reserve space, zeros are written to the ballast.
func TestBallastWithoutFallocate(t *testing.T) {
	d := &disk{data: t.TempDir(), reserve: 1 << 20, fallocate: func(int, uint32, int64, int64) error { return unix.EOPNOTSUPP }}
	testkit.NoError(t, d.keepBallast(1<<30))
	var stat unix.Stat_t
	if err := unix.Stat(d.ballast(), &stat); err != nil || stat.Size != 1<<20/ballastShare || stat.Blocks == 0 {
		t.Errorf("the ballast has %d bytes in %d blocks, %v", stat.Size, stat.Blocks, err)
	}
}

// TestDiskProblemsAreLoggedOnce: the engine looks at the disk each second, and logs a problem only when it begins.
func TestDiskProblemsAreLoggedOnce(t *testing.T) {
	var log strings.Builder
	e := &Engine{logger: slog.New(slog.NewTextHandler(&log, nil)), disk: &disk{
		data: filepath.Join(t.TempDir(), "gone"), fallocate: fallocate,
		statfs: func(string) (free, total uint64, err error) { return 1 << 40, 1 << 40, nil },
	}}
	for range 5 {
		e.lookAtDisk()
	}
	if n := strings.Count(log.String(), "make or delete the ballast"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}
