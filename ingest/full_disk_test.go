package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/diskspace"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/proof/stallfs"
	"github.com/daybookq/daybook/store"
)

// fillingDisk is a disk in memory that is full while the returned flag is set.
func fillingDisk() (vfs.FS, *atomic.Bool) {
	full := new(atomic.Bool)
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") && op.Kind != errorfs.OpRemove {
			return syscall.ENOSPC
		}
		return nil
	})), full
}

// runOnFillingDisk runs an engine until stop, which returns the error of Run.
func runOnFillingDisk(t *testing.T, o Options) (e *Engine, full *atomic.Bool, stop func() error) {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "full"))(t) // not t.TempDir, because Pebble keeps working for a moment
	t.Cleanup(func() {
		testkit.Eventually(t, "no file is written any more", func() bool { return os.RemoveAll(dir) == nil })
	})
	o.Dir = dir
	o.Store.FS, full = fillingDisk()
	t.Cleanup(func() { full.Store(false) })
	e = testkit.Must(Open(o))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	testkit.Eventually(t, "the engine is ready", func() bool { return e.Ready() == nil })
	return e, full, func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			t.Fatal("the engine does not stop")
			return nil
		}
	}
}

// TestStopOnFullDisk: a stop does not wait for a store that cannot write, because the next start replays the journal. The
// error of the stop says so.
func TestStopOnFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		wait    time.Duration
		blocked bool // a commit waits for Pebble
	}{
		"tables cannot be written": {time.Hour, false},
		"a commit is blocked":      {time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			e, full, stop := runOnFillingDisk(t, Options{CommitWait: c.wait, Store: store.Options{MemtableBytes: 256 << 10}})
			full.Store(true)
			if c.blocked {
				testkit.Eventually(t, "a commit is blocked", func() bool { e.Create(t.Context(), lines(5000)); return e.accepting() != nil })
			} else if _, _, err := e.Create(t.Context(), lines(1)); err != nil {
				t.Fatal(err)
			}
			err := stop()
			testkit.Holds(t, errors.Is(err, syscall.ENOSPC) && errors.Is(err, ErrStuck) == c.blocked &&
				strings.Contains(err.Error(), "nothing is lost"), err)
		})
	}
}

// TestFullDiskIsSeenAtOnce: when a write of the journal or of the store fails on a full disk, the engine immediately
// updates its disk status.
func TestFullDiskIsSeenAtOnce(t *testing.T) {
	const total = 100 << 20
	for name, meet := range map[string]func(*Engine) error{
		"a create": func(e *Engine) error { _, _, err := e.Create(t.Context(), lines(2)); return err },
		"a create that shares records": func(e *Engine) error {
			c := lines(1)
			c.Joined = true
			_, _, err := e.Create(t.Context(), c)
			return err
		},
		"a command": func(e *Engine) error { _, _, err := e.Switch(t.Context(), job.Switch{Stopped: true}); return err },
		"the store": func(e *Engine) error {
			err := fmt.Errorf("write: %w", syscall.ENOSPC)
			e.storeOptions().Failing(err)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Uint64
			free.Store(total)
			var full atomic.Bool
			var looks sync.Mutex
			e, _ := startWith(t, Options{
				Dir: t.TempDir(),
				Space: func(string) (uint64, uint64, error) {
					looks.Lock()
					defer looks.Unlock()
					return free.Load(), total, nil
				},
				Journal: journal.Options{Hooks: journal.Hooks{Write: func(l *wal.Log, b *wal.Batch) error {
					if full.Load() {
						return syscall.ENOSPC
					}
					return l.WriteBatch(b)
				}}},
			})
			looks.Lock() // keeps the engine from checking the disk in between
			full.Store(true)
			free.Store(1000)
			met := make(chan error, 1)
			go func() { met <- meet(e) }()
			testkit.Eventually(t, "a write meets the full disk", func() bool { return e.disk.IsFull() })
			looks.Unlock()
			testkit.Failed(t, <-met, syscall.ENOSPC)
			s := e.Stats()
			testkit.Holds(t, s.DiskLow && s.DiskFree == 1000, s.DiskStats)
			full.Store(false)
		})
	}
}

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
	set := func(bytes uint64) { free.Store(bytes); e.disk.Look() }
	set(diskspace.Reserve - 1)
	testkit.Fails2(e.Create(ctx, lines(1)))(t, ErrDiskFull)
	claimed, jobs := mustClaim(t, e, claimOf(2))
	testkit.MustEqual(t, len(jobs), 2, "jobs of a claim below the reserve")
	outcome := job.Outcome{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}
	outcome.OutputKind, outcome.Output = job.Bytes, make([]byte, largeOutput)
	testkit.Fails2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome}}))(t, ErrDiskFull)
	text := outcome
	text.OutputKind, text.Output, text.Error = job.Nothing, nil, strings.Repeat("e", largeOutput/2)
	testkit.Fails2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{text, text}}))(t, ErrDiskFull)
	outcome.Output = outcome.Output[1:]
	testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcome}}))(t)
	set(diskspace.Reserve)
	testkit.Fails2(e.Create(ctx, lines(1)))(t, ErrDiskFull)
	set(3 * gib)
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	info := testkit.Must(os.Stat(filepath.Join(dir, "ballast")))(t)
	testkit.Equal(t, info.Size(), diskspace.Reserve/diskspace.BallastShare, "ballast with space:", info)
	set(diskspace.Reserve/diskspace.BallastShare - 1)
	testkit.Fails(os.Stat(filepath.Join(dir, "ballast")))(t, os.ErrNotExist)
}

// TestBlockedCommit: on a full disk Pebble returns no error. It keeps trying to write its tables, and when its memtables
// are full a commit waits. The engine then refuses requests with the reason, and serves them again when the disk has
// space. No acknowledged job is lost.
func TestBlockedCommit(t *testing.T) {
	ctx := t.Context()
	var full atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") && op.Kind != errorfs.OpRemove {
			return syscall.ENOSPC
		}
		return nil
	}))
	e, stop := startWith(t, Options{Dir: t.TempDir(), Store: store.Options{FS: fs, MemtableBytes: 256 << 10}})
	defer stop()
	var acknowledged []job.ID
	create := func() error {
		_, receipt, err := e.Create(ctx, lines(5000))
		if err == nil {
			acknowledged = append(acknowledged, job.NewID(receipt.At, receipt.Seq, 4999))
		}
		return err
	}
	testkit.NoError(t, create())
	full.Store(true)
	testkit.Eventually(t, "a commit is blocked", func() bool {
		if err := create(); err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrOverloaded) {
			t.Fatalf("create while the commit is about to block: %v", err)
		}
		return e.accepting() != nil
	})
	testkit.Failed(t, e.Ready(), ErrStale, "disk full")
	testkit.Failed(t, create(), ErrStale)
	_, _, _, err := e.Claim(ctx, claimOf(1), 0)
	testkit.Holds(t, errors.Is(err, ErrStale), "claim while a commit is blocked", err)
	full.Store(false)
	testkit.Eventually(t, "it is ready, as there is space again", func() bool { return e.Ready() == nil })
	testkit.Check(t, create(), "create with space")
	_, jobs := mustClaim(t, e, claimOf(1))
	testkit.Equal(t, len(jobs), 1, "claim with space")
	for _, id := range acknowledged {
		doc := testkit.Must(current(t, e).Job(id))(t)
		testkit.Equal(t, string(doc.Payload), "line 4999", "job", id, "of", len(acknowledged), "acknowledged creates")
	}
	t.Logf("%d creates were acknowledged", len(acknowledged))
}

// startStalled runs an engine whose store no longer commits. stop ends the engine and returns the result of Run. resume
// lets the store continue.
func startStalled(t *testing.T) (e *Engine, stop func() error, resume func()) {
	t.Helper()
	gate := make(chan struct{})
	dir := testkit.Must(os.MkdirTemp("", "stalled"))(t) // not t.TempDir, because an engine with ErrStuck keeps running for a moment
	e = testkit.Must(Open(Options{Dir: dir, CommitWait: time.Second,
		Store: store.Options{FS: stallfs.New(gate), MemtableBytes: stallfs.MemtableBytes}}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	testkit.Eventually(t, "the engine is ready", func() bool { return e.Ready() == nil })
	testkit.Eventually(t, "the engine notices that the store takes no commit", func() bool {
		for e.commits.stalled() == nil { // the journal acknowledges creates before they are applied
			if _, _, err := e.Create(t.Context(), lines(1000)); errors.Is(err, ErrStale) || errors.Is(err, ErrOverloaded) {
				return false
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			return errors.New("the engine does not end")
		}
	})
	resume = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(func() {
		resume()
		err := stop()
		testkit.Holds(t, err == nil || errors.Is(err, ErrStuck), err)
		testkit.Eventually(t, "the engine writes no file any more", func() bool { return os.RemoveAll(dir) == nil })
	})
	return e, stop, resume
}

func TestStopIsBoundedWhileTheStoreTakesNoCommit(t *testing.T) {
	_, stop, _ := startStalled(t)
	testkit.Failed(t, stop(), ErrStuck)
}

// TestDecisionsAreBoundedWhileTheStoreTakesNoCommit: a command that was proposed before the engine noticed the blocked
// commit is answered too. If its caller got that answer, the jobs of a claim are returned when the claim is applied.
func TestDecisionsAreBoundedWhileTheStoreTakesNoCommit(t *testing.T) {
	e, _, resume := startStalled(t)
	testkit.Fails2(e.decide(t.Context(), claimOf(1)))(t, ErrUnknown, ErrStale) // as if it had arrived before the commit
	_, _, _, err := e.Claim(t.Context(), claimOf(1), 0)
	testkit.Holds(t, errors.Is(err, ErrStale) && !errors.Is(err, ErrUnknown), "a claim after it", err)
	_, _, err = e.Create(t.Context(), lines(1))
	testkit.Holds(t, errors.Is(err, ErrStale) && !errors.Is(err, ErrUnknown), "a create after it", err)
	resume()
	testkit.Eventually(t, "the engine is ready", func() bool { return e.Ready() == nil })
	for { // until the jobs of the claim are returned
		next := e.commits.applied.next()
		testkit.NoError(t, e.CatchUp(t.Context(), 0))
		if e.store.Totals().Counts[job.Active] == 0 {
			return
		}
		select {
		case <-next:
		case <-t.Context().Done():
			t.Fatal("the claim is not given back")
		}
	}
}

// TestAStuckCommandIsNoticed: if one command takes longer than a commit may, because its disk does not answer, the engine
// is not ready, and requests are answered within a bound: with an unknown outcome if they were proposed before the engine
// noticed, and as not stored afterwards. The engine continues when the command has ended.
func TestAStuckCommandIsNoticed(t *testing.T) {
	var armed atomic.Bool
	stuck, resume := make(chan struct{}), make(chan struct{})
	e, stop := startWith(t, Options{Dir: t.TempDir(), CommitWait: 50 * time.Millisecond, closeWait: time.Minute, Store: store.Options{BeforeApply: func(uint64) {
		if armed.CompareAndSwap(true, false) {
			close(stuck)
			<-resume
		}
	}}})
	defer stop()
	testkit.Eventually(t, "the engine is ready", func() bool { return e.Ready() == nil })
	armed.Store(true)
	testkit.Must2(e.Create(t.Context(), lines(3)))(t) // answered when it is durable
	<-stuck
	testkit.Fails2(e.decide(t.Context(), claimOf(1)))(t, ErrUnknown, ErrStale)
	testkit.Failed(t, e.Ready(), ErrStale, "one command")
	_, _, err := e.Create(t.Context(), lines(1))
	testkit.Holds(t, errors.Is(err, ErrStale) && !errors.Is(err, ErrUnknown), "a create", err)
	_, _, _, err = e.Claim(t.Context(), claimOf(1), time.Hour)
	testkit.Holds(t, errors.Is(err, ErrStale) && !errors.Is(err, ErrUnknown), "a claim", err)
	testkit.Failed(t, e.CatchUp(t.Context(), 0), ErrStale)
	close(resume)
	testkit.Eventually(t, "the engine is ready again", func() bool { return e.Ready() == nil })
	testkit.Must2(e.Create(t.Context(), lines(1)))(t)
}
