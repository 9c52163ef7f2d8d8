package ingest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// bubble runs a test with an engine in fake time, so that no test has to wait for leases.
func bubble(t *testing.T, test func(t *testing.T, e *Engine)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e, stop := start(t, dir)
		test(t, e)
		stop()
	})
}

func status(t *testing.T, e *Engine, id job.ID) job.Job {
	t.Helper()
	return testkit.Must(current(t, e).Job(id))(t)
}

func TestAbandonedAfterItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		ctx := t.Context()
		testkit.Must2(e.Create(ctx, lines(2)))(t)
		for attempt := 1; attempt <= 3; attempt++ {
			claimed, jobs, _, err := e.Claim(ctx, claimOf(2), 0)
			if err != nil || len(jobs) != 2 {
				t.Fatalf("attempt %d: %d jobs, %v", attempt, len(jobs), err)
			}
			time.Sleep(50 * time.Second) // of a lease of 60
			testkit.Must2(e.Tickle(ctx, job.Tickle{IDs: []job.ID{jobs[1].ID}, Progress: -1}))(t)
			time.Sleep(12 * time.Second)
			first, second := status(t, e, jobs[0].ID), status(t, e, jobs[1].ID)
			want := job.Pending
			if attempt == 3 {
				want = job.Failed
			}
			if first.Status != want || first.Runner != "" || len(first.Attempts) != attempt || first.Attempts[attempt-1].Why != job.Abandoned {
				t.Fatalf("attempt %d: the first job is %+v", attempt, first)
			}
			if second.Status != job.Active || second.Claim != claimed.Claim {
				t.Fatalf("attempt %d: the tickled job is %+v", attempt, second)
			}
			time.Sleep(50 * time.Second)
			if second = status(t, e, jobs[1].ID); second.Status != want {
				t.Fatalf("attempt %d: the second job is %+v", attempt, second)
			}
			if attempt < 3 {
				continue // a late completion would be accepted
			}
			ended, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}}})
			if err != nil || ended.Results[0].Refusal != job.ClaimLost {
				t.Fatalf("a completion of a failed job: %+v, %v", ended, err)
			}
		}
	})
}

func TestDeferredRunsAtItsTime(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		ctx := t.Context()
		c := lines(1)
		c.Groups[0].RunAt = e.Now() + 3_600_000
		testkit.Must2(e.Create(ctx, c))(t)
		began := time.Now()
		_, jobs, _, err := e.Claim(ctx, claimOf(1), 2*time.Hour)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		if waited := time.Since(began); waited < time.Hour || waited > time.Hour+time.Second {
			t.Errorf("the job came after %v, not an hour", waited)
		}
		if n := e.counters.ticks.Load(); n > 3 {
			t.Errorf("%d ticks for one job that became due", n)
		}
	})
}

func TestRetryWaitsForItsBackoff(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		ctx := t.Context()
		testkit.Must2(e.Create(ctx, lines(1)))(t)
		claimed, jobs, _, err := e.Claim(ctx, claimOf(1), 0)
		testkit.NoError(t, err)
		testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.Error, ExitCode: 500, Error: "no luck", DelayMs: -1}}}))(t)
		doc := status(t, e, jobs[0].ID)
		if wait := doc.RunAt - e.Now(); doc.Status != job.Deferred || wait < 750 || wait > 1250 {
			t.Fatalf("after an error: %+v, to run in %d ms", doc, wait)
		}
		if _, jobs, _, err = e.Claim(ctx, claimOf(1), 0); err != nil || len(jobs) != 0 {
			t.Fatalf("claimed %d jobs during the backoff, %v", len(jobs), err)
		}
		if _, jobs, _, err = e.Claim(ctx, claimOf(1), time.Minute); err != nil || len(jobs) != 1 || jobs[0].RunAttempts != 2 {
			t.Fatalf("claimed %+v after the backoff, %v", jobs, err)
		}
	})
}

// TestClaimOfTheDead: jobs that were handed to a caller that had hung up are returned immediately, not when the lease
// ends.
func TestClaimOfTheDead(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		testkit.Must2(e.Create(t.Context(), lines(1)))(t)
		claimed, _, _, err := e.Claim(t.Context(), claimOf(1), 0)
		testkit.NoError(t, err)
		e.giveBack(&claimed, nil)
		_, jobs, _, err := e.Claim(t.Context(), claimOf(1), time.Second)
		if err != nil || len(jobs) != 1 || jobs[0].RunAttempts != 1 {
			t.Fatalf("claimed %+v, %v: the first claim should have been ungot", jobs, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); cancel() }()
		if _, _, _, err := e.Claim(ctx, claimOf(1), time.Minute); !errors.Is(err, context.Canceled) {
			t.Fatalf("a claim whose caller hung up: %v", err)
		}
		if n := e.parked.n.Load(); n != 0 {
			t.Errorf("%d claims still parked", n)
		}
	})
}

// TestStoodStill: runners keep their jobs if the process was suspended. In the hardest case the suspension is as short as
// the shortest lease and begins with a sleep of the timekeeper, so that the timekeeper notices it last.
func TestStoodStill(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		ctx := t.Context()
		testkit.Must2(e.Create(ctx, lines(1)))(t)
		if _, _, _, err := e.Claim(ctx, claimOf(1), 0); err != nil {
			t.Fatal(err)
		}
		k := timekeeper{e: e, term: 1}
		for _, c := range []struct {
			stopped time.Duration
			graces  uint64
		}{{late + k.sleep(), 0}, {job.MinLeaseMs * time.Millisecond, 1}} {
			before := e.counters.graces.Load()
			asleep := time.Now()
			awake := asleep.Add(k.sleep())
			time.Sleep(c.stopped)
			k.turn(ctx, awake)
			if got := e.counters.graces.Load() - before; got != c.graces {
				t.Errorf("stopped for %v: %d graces, not %d", c.stopped, got, c.graces)
			}
		}
	})
}

// TestOversleep: time in which the process may have been suspended ends no lease before the tickles that runners sent in
// that time are applied.
func TestOversleep(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		ctx := t.Context()
		c := lines(1)
		c.Groups[0].LeaseMs = 3_600_000 // so long that the running timekeeper does nothing
		testkit.Must2(e.Create(ctx, c))(t)
		_, jobs, _, err := e.Claim(ctx, claimOf(1), 0)
		testkit.NoError(t, err)
		k := timekeeper{e: e, term: 1, stall: stallWatch{began: time.Now()}}
		deadline := time.Now().Add(time.Duration(jobs[0].DeadlineAt-e.Now()) * time.Millisecond)
		e.refuse(ErrNotReady)                                       // pauses the running timekeeper; the test calls another timekeeper
		time.Sleep(time.Until(deadline) + 200_300*time.Microsecond) // at this time the running timekeeper sleeps
		e.state.Store(&stateNote{})
		k.turn(ctx, time.Now().Add(-400*time.Millisecond)) // it should have been awake before the lease was over
		if doc := status(t, e, jobs[0].ID); doc.Status != job.Active {
			t.Fatalf("after an oversleep: %+v", doc)
		}
	})
}

func TestReadiness(t *testing.T) {
	e := testkit.Must(Open(Options{Dir: t.TempDir()}))(t)
	if err := e.Ready(); !errors.Is(err, ErrNotReady) {
		t.Errorf("ready before Run: %v", err)
	}
	if _, _, err := e.Create(t.Context(), lines(1)); !errors.Is(err, ErrNotReady) {
		t.Errorf("create before Run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.NoError(t, e.Run(ctx))
	if _, _, err := e.Create(t.Context(), lines(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("create after Run: %v", err)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	start(t, dir)
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second open: %v", err)
	}
}

// TestAcceptTime: AcceptTime adopts a wall clock that was set forward, and no lease runs out because of the skipped time.
func TestAcceptTime(t *testing.T) {
	const tenDays = 10 * 24 * time.Hour
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var step atomic.Int64
		ctx := t.Context()
		e, stop := startWith(t, Options{Dir: dir, AllowClockAhead: true, Journal: journal.Options{
			Wall: func() time.Time { return time.Now().Add(time.Duration(step.Load())) },
		}})
		later := lines(1)
		later.Groups[0].RunAt = e.Now() + tenDays.Milliseconds()
		_, receipt := testkit.Must2(e.Create(ctx, later))(t)
		testkit.Must2(e.Create(ctx, lines(1)))(t)
		claimed, jobs, _, err := e.Claim(ctx, claimOf(1), 0)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		step.Store(int64(tenDays + time.Minute))
		time.Sleep(10 * time.Second)
		deferred := job.NewID(receipt.At, receipt.Seq, 0)
		if doc := status(t, e, deferred); doc.Status != job.Deferred {
			t.Errorf("before the time was accepted the job is %v", doc.Status)
		}
		if offset := e.ClockOffset(); offset > -tenDays {
			t.Errorf("before: an offset of %v", offset)
		}
		offset, err := e.AcceptTime(ctx)
		if err != nil || offset != 0 {
			t.Fatalf("accepted, and is %d ms ahead, %v", offset, err)
		}
		time.Sleep(time.Second)
		if doc := status(t, e, deferred); doc.Status != job.Pending {
			t.Errorf("after the time was accepted the job is %v", doc.Status)
		}
		time.Sleep(50 * time.Second) // of a lease of 60
		tickled, _, err := e.Tickle(ctx, job.Tickle{Claim: claimed.Claim, Progress: -1})
		if err != nil || tickled.Held != 1 {
			t.Errorf("tickled after the time was accepted: %+v, %v", tickled, err)
		}

		// AcceptTime does not set back a time that is ahead of the wall clock.
		step.Store(int64(tenDays))
		if offset, err = e.AcceptTime(ctx); err != nil || offset < 55_000 {
			t.Errorf("after the clock was set back the journal is %d ms ahead, %v", offset, err)
		}
		stop()
		if _, err := e.AcceptTime(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
