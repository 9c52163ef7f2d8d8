package ingest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/wal"

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
			claimed, jobs := mustClaim(t, e, claimOf(2))
			testkit.MustEqual(t, len(jobs), 2, "attempt", attempt, "jobs")
			time.Sleep(50 * time.Second) // of a lease of 60
			testkit.Must2(e.Tickle(ctx, job.Tickle{IDs: []job.ID{jobs[1].ID}, Progress: -1}))(t)
			time.Sleep(12 * time.Second)
			first, second := status(t, e, jobs[0].ID), status(t, e, jobs[1].ID)
			want := job.Pending
			if attempt == 3 {
				want = job.Failed
			}
			testkit.MustHold(t, first.Status == want && first.Runner == "" && len(first.Attempts) == attempt &&
				first.Attempts[attempt-1].Why == job.Abandoned, "attempt", attempt, "the first job is", first)
			testkit.MustEqual(t, second.Status, job.Active, "attempt", attempt, "the tickled job", second)
			testkit.MustEqual(t, second.Claim, claimed.Claim, "attempt", attempt, "the tickled job", second)
			time.Sleep(50 * time.Second)
			second = status(t, e, jobs[1].ID)
			testkit.MustEqual(t, second.Status, want, "attempt", attempt, "the second job is", second)
			if attempt < 3 {
				continue // a late completion would be accepted
			}
			ended, _, err := e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}}})
			testkit.NoError(t, err)
			testkit.MustEqual(t, ended.Results[0].Refusal, job.ClaimLost, "a completion of a failed job:", ended)
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
		testkit.NoError(t, err)
		testkit.MustEqual(t, len(jobs), 1, "jobs")
		waited := time.Since(began)
		testkit.Holds(t, waited >= time.Hour && waited <= time.Hour+time.Second, "the job came after", waited, "not an hour")
		n := e.counters.ticks.Load()
		testkit.Holds(t, n <= 3, n, "ticks for one job that became due")
	})
}

func TestRetryWaitsForItsBackoff(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		ctx := t.Context()
		testkit.Must2(e.Create(ctx, lines(1)))(t)
		claimed, jobs := mustClaim(t, e, claimOf(1))
		testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.Error, ExitCode: 500, Error: "no luck", DelayMs: -1}}}))(t)
		doc := status(t, e, jobs[0].ID)
		wait := doc.RunAt - e.Now()
		testkit.MustHold(t, doc.Status == job.Deferred && wait >= 750 && wait <= 1250, "after an error", doc, "to run in", wait, "ms")
		_, jobs = mustClaim(t, e, claimOf(1))
		testkit.MustEqual(t, len(jobs), 0, "during the backoff")
		_, jobs, _, err := e.Claim(ctx, claimOf(1), time.Minute)
		testkit.Holds(t, err == nil && len(jobs) == 1 && jobs[0].RunAttempts == 2, "after the backoff", jobs, err)
	})
}

// TestClaimOfTheDead: jobs that were handed to a caller that had hung up are returned immediately, not when the lease
// ends.
func TestClaimOfTheDead(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		testkit.Must2(e.Create(t.Context(), lines(1)))(t)
		claimed, _ := mustClaim(t, e, claimOf(1))
		e.giveBack(&claimed, nil)
		_, jobs, _, err := e.Claim(t.Context(), claimOf(1), time.Second)
		testkit.NoError(t, err)
		testkit.MustHold(t, len(jobs) == 1 && jobs[0].RunAttempts == 1, "claimed", jobs, "the first claim should have been ungot")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); cancel() }()
		_, _, _, err = e.Claim(ctx, claimOf(1), time.Minute)
		testkit.MustHold(t, errors.Is(err, context.Canceled), "a claim whose caller hung up", err)
		testkit.Equal(t, e.parked.n.Load(), 0, "claims still parked")
	})
}

// TestStoodStill: runners keep their jobs if the process was suspended. In the hardest case the suspension is as short as
// the shortest lease and begins with a sleep of the timekeeper, so that the timekeeper notices it last.
func TestStoodStill(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		ctx := t.Context()
		testkit.Must2(e.Create(ctx, lines(1)))(t)
		mustClaim(t, e, claimOf(1))
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
			testkit.Equal(t, e.counters.graces.Load()-before, c.graces, "stopped for", c.stopped, "graces")
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
		_, jobs := mustClaim(t, e, claimOf(1))
		k := timekeeper{e: e, term: 1, stall: stallWatch{began: time.Now()}}
		deadline := time.Now().Add(time.Duration(jobs[0].DeadlineAt-e.Now()) * time.Millisecond)
		e.refuse(ErrNotReady)                                       // pauses the running timekeeper; the test calls another timekeeper
		time.Sleep(time.Until(deadline) + 200_300*time.Microsecond) // at this time the running timekeeper sleeps
		e.state.Store(&stateNote{})
		k.turn(ctx, time.Now().Add(-400*time.Millisecond)) // it should have been awake before the lease was over
		doc := status(t, e, jobs[0].ID)
		testkit.MustEqual(t, doc.Status, job.Active, "after an oversleep:", doc)
	})
}

func TestReadiness(t *testing.T) {
	e := testkit.Must(Open(Options{Dir: t.TempDir()}))(t)
	testkit.Failed(t, e.Ready(), ErrNotReady)
	testkit.Fails2(e.Create(t.Context(), lines(1)))(t, ErrNotReady)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.NoError(t, e.Run(ctx))
	testkit.Fails2(e.Create(t.Context(), lines(1)))(t, ErrClosed)
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	start(t, dir)
	testkit.Fails(Open(Options{Dir: dir}))(t, ErrInUse)
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
		claimed, jobs := mustClaim(t, e, claimOf(1))
		testkit.MustEqual(t, len(jobs), 1, "jobs")
		step.Store(int64(tenDays + time.Minute))
		time.Sleep(10 * time.Second)
		deferred := job.NewID(receipt.At, receipt.Seq, 0)
		doc := status(t, e, deferred)
		testkit.Equal(t, doc.Status, job.Deferred, "before the time was accepted the job")
		early := e.ClockOffset()
		testkit.Holds(t, early <= -tenDays, "before: an offset of", early)
		testkit.MustEqual(t, testkit.Must(e.AcceptTime(ctx))(t), 0, "the time was accepted: ms ahead")
		time.Sleep(time.Second)
		doc = status(t, e, deferred)
		testkit.Equal(t, doc.Status, job.Pending, "after the time was accepted the job")
		time.Sleep(50 * time.Second) // of a lease of 60
		tickled, _ := testkit.Must2(e.Tickle(ctx, job.Tickle{Claim: claimed.Claim, Progress: -1}))(t)
		testkit.Equal(t, tickled.Held, 1, "tickled after the time was accepted:", tickled)

		// AcceptTime does not set back a time that is ahead of the wall clock.
		step.Store(int64(tenDays))
		offset := testkit.Must(e.AcceptTime(ctx))(t)
		testkit.Holds(t, offset >= 55_000, "after the clock was set back the journal is", offset, "ms ahead")
		stop()
		testkit.Fails(e.AcceptTime(ctx))(t, ErrClosed)
	})
}

// TestSlowDisk: even if a disk stalls repeatedly, the jobs of a runner that has ended are handed out again in time.
func TestSlowDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		slow := false
		o := Options{Dir: dir}
		o.Journal.Hooks.Sync = func(l *wal.Log) error {
			if slow {
				time.Sleep(600 * time.Millisecond)
			}
			return l.Sync()
		}
		e, stop := startWith(t, o)
		ctx := t.Context()
		slow = true
		c := lines(1)
		c.Groups[0].LeaseMs = 3000
		testkit.Must2(e.Create(ctx, c))(t)
		_, jobs := mustClaim(t, e, claimOf(1))
		for i := range 10 { // another job becomes due each second
			later := lines(1)
			later.Groups[0].Type, later.Groups[0].RunAt = "later", e.Now()+int64(i)*1000
			testkit.Must2(e.Create(ctx, later))(t)
		}
		time.Sleep(3 * time.Second)
		doc := status(t, e, jobs[0].ID)
		testkit.Equal(t, doc.Status, job.Pending, "nine seconds after the claim", doc, e.counters.graces.Load(), "graces")
		stop()
	})
}

// TestTicksTakeTheirShare: after some ticks, each tick takes its target time, however long a row takes.
func TestTicksTakeTheirShare(t *testing.T) {
	for _, row := range []time.Duration{500, 2 * time.Microsecond, 4 * time.Microsecond} {
		rows := firstTickRows
		for range 20 {
			rows = tickDone{rows: rows, applied: time.Duration(rows) * row, moreDue: true}.nextRows()
		}
		if applied := time.Duration(rows) * row; applied > 11*idleTick/10 || applied < 9*idleTick/10 && rows < job.MaxTickRows {
			t.Errorf("rows of %v: a tick of %d rows takes %v while no other command waits", row, rows, applied)
		}
		// The first tick after another command was journaled has the new size.
		rows = tickDone{rows: rows, applied: time.Duration(rows) * row, contended: true, moreDue: true}.nextRows()
		if applied := time.Duration(rows) * row; applied > 11*busyTick/10 || applied < busyTick/2 {
			t.Errorf("rows of %v: a tick of %d rows takes %v while other commands wait", row, rows, applied)
		}
	}
	for _, test := range []struct {
		name string
		done tickDone
		want int
	}{
		{"at most twice as many", tickDone{rows: 1000, moreDue: true}, 2000},
		{"at most as many as a command may have", tickDone{rows: job.MaxTickRows, applied: 1, moreDue: true}, job.MaxTickRows},
		{"the disk stalled", tickDone{rows: 1000, applied: time.Minute, contended: true, moreDue: true}, minTickRows},
		{"nothing left due", tickDone{rows: job.MaxTickRows, applied: 1000}, firstTickRows},
		{"nothing left due, 400 rows", tickDone{rows: 400, applied: 100 * time.Microsecond, contended: true}, 800},
		{"nothing left due, few rows", tickDone{rows: minTickRows, applied: 10 * time.Microsecond}, 400},
		{"too long beside other commands", tickDone{rows: 1000, applied: 2 * time.Millisecond, contended: true, moreDue: true}, 500},
		{"not too long alone", tickDone{rows: 1000, applied: 2 * time.Millisecond, moreDue: true}, 2000},
	} {
		testkit.Equal(t, test.done.nextRows(), test.want, test.name, "rows")
	}
	for done, want := range map[tickDone]time.Duration{
		{applied: 3, moreDue: true, sweeping: true}:                  0,
		{applied: 3, moreDue: true}:                                  0,
		{applied: 3, moreDue: true, contended: true}:                 3,
		{applied: 3, moreDue: true, contended: true, sweeping: true}: 6,
		{applied: 3}: tickEvery,
	} {
		testkit.Equal(t, done.rest(), want, done)
	}
}

// TestFarTimersDoNotTick: a timer that is further away than the longest time.Duration is not due, and causes no ticks.
func TestFarTimersDoNotTick(t *testing.T) {
	fields := map[string]func(g *job.Group){
		"run_at":     func(g *job.Group) { g.RunAt = job.MaxTimeMs },
		"expires_at": func(g *job.Group) { g.ExpiresAt = job.MaxTimeMs },
		"both":       func(g *job.Group) { g.RunAt, g.ExpiresAt = job.MaxTimeMs, job.MaxTimeMs },
	}
	for name, set := range fields {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				e, stop := startWith(t, Options{Dir: dir, AllowClockAhead: true, Journal: journal.Options{
					Clock: func() int64 { return time.Now().UnixMilli() + ahead.Load() },
				}})
				c := lines(1)
				set(&c.Groups[0])
				testkit.Must2(e.Create(t.Context(), c))(t)
				for range 3 { // after weeks no other timer is left
					ahead.Add(15 * 86_400_000)
					time.Sleep(time.Minute)
				}
				before := e.counters.ticks.Load()
				time.Sleep(time.Minute)
				ticks := e.counters.ticks.Load() - before
				testkit.Holds(t, ticks == 0, ticks, "ticks in a minute in which nothing was due")
				due := e.untilDue()
				testkit.Holds(t, due > 0 && due <= maxSleep, "the next timer is due in", due)
				stop()
			})
		})
	}
}
