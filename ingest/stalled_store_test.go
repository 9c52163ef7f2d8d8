package ingest

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/stallfs"
	"github.com/daybookq/daybook/store"
)

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
	if _, _, _, err := e.Claim(t.Context(), claimOf(1), 0); !errors.Is(err, ErrStale) || errors.Is(err, ErrUnknown) {
		t.Errorf("a claim after it: %v", err)
	}
	if _, _, err := e.Create(t.Context(), lines(1)); !errors.Is(err, ErrStale) || errors.Is(err, ErrUnknown) {
		t.Errorf("a create after it: %v", err)
	}
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
	if _, _, err := e.Create(t.Context(), lines(1)); err != nil {
		t.Error(err)
	}
}
