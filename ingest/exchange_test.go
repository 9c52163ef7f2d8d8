package ingest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

func admitAll(int64) error { return nil }

// claimOne claims one job of the engine's default queue.
func claimOne(t *testing.T, e *Engine) job.ID {
	t.Helper()
	claimed, _ := mustClaim(t, e, claimOf(1))
	testkit.MustHold(t, len(claimed.Runs) != 0, "claimed", claimed)
	return claimed.Claim
}

// TestExchangeSharesAGroup: one group of the log has the completions and the claim of a request, in this order.
func TestExchangeSharesAGroup(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(ctx, lines(100)))(t)
	groups := func() uint64 { s := e.log.Status(); return s.Groups - s.Marks }
	const rounds = 20
	held, before := claimOne(t, e), groups()
	for range rounds {
		x := testkit.Must(e.Exchange(ctx, []job.Complete{completeOf(held)}, claimOf(1)))(t)
		ended, last := testkit.Must2(x.Ended(ctx))(t)
		testkit.MustHold(t, len(ended) == 1 && ended[0].All == 1, "ended", ended)
		claimed, jobs, receipt, err := x.Claimed(ctx, 0, admitAll)
		testkit.NoError(t, err)
		testkit.MustHold(t, len(jobs) == 1 && receipt.Seq > last.Seq, "claimed", claimed, len(jobs), "jobs", receipt, "after", last)
		held = claimed.Claim
	}
	// The log may begin to write between the two proposals, but this is rare.
	n := groups() - before
	testkit.Holds(t, n <= rounds*3/2, rounds, "requests took", n, "groups")
}

// TestExchangeAfterASilence: a runner that let a lease run out and then sends a new exchange gets jobs from its claim,
// and can wait for them.
func TestExchangeAfterASilence(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		ctx := t.Context()
		testkit.Must2(e.Create(ctx, lines(2)))(t)
		before := e.Silence("r1")
		claimOne(t, e)
		time.Sleep(2 * time.Minute)
		testkit.MustHold(t, e.Silence("r1") != before, "the lease has not run out")
		exchange := func(wait time.Duration) (took time.Duration) {
			t.Helper()
			began := time.Now()
			x := testkit.Must(e.Exchange(ctx, []job.Complete{completeOf(claimOne(t, e))}, claimOf(1)))(t)
			testkit.Must2(x.Ended(ctx))(t)
			claimed, jobs, _, err := x.Claimed(ctx, wait, admitAll)
			testkit.MustHold(t, err == nil && len(jobs) == 1, "claimed", claimed, len(jobs), "jobs", err)
			return time.Since(began)
		}
		exchange(0) // of the second job
		testkit.Must2(e.Create(ctx, lines(1)))(t)
		go func() {
			time.Sleep(time.Second)
			_, _, err := e.Create(ctx, lines(1))
			testkit.Check(t, err)
		}()
		testkit.Equal(t, exchange(time.Minute), time.Second, "the claim waited for a job")
	})
}

// TestExchangeClaimsWhatItReturned: the completions of a request make the only job pending again, and the claim of the
// same request gets it.
func TestExchangeClaimsWhatItReturned(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	held := claimOne(t, e)
	unget := job.Complete{Claim: held, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
	x := testkit.Must(e.Exchange(ctx, []job.Complete{unget}, claimOf(1)))(t)
	testkit.Must2(x.Ended(ctx))(t)
	claimed, jobs, _, err := x.Claimed(ctx, 0, admitAll)
	testkit.Holds(t, err == nil && len(jobs) == 1 && claimed.Claim != held, "claimed", claimed, len(jobs), "jobs", err)
}

// TestExchangeWaits: a claim that finds nothing waits for a job after the completions were answered.
func TestExchangeWaits(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	x := testkit.Must(e.Exchange(ctx, []job.Complete{completeOf(claimOne(t, e))}, claimOf(1)))(t)
	ended, _ := testkit.Must2(x.Ended(ctx))(t)
	testkit.MustEqual(t, ended[0].All, 1, "ended", ended)
	got := make(chan int, 1)
	go func() {
		_, jobs, _, err := x.Claimed(ctx, time.Minute, admitAll)
		testkit.Check(t, err)
		got <- len(jobs)
	}()
	testkit.Eventually(t, "the claim is parked", func() bool { return e.parked.n.Load() > 0 })
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	testkit.Equal(t, <-got, 1, "jobs of the claim")
}

// TestExchangeIsAbandoned: if the caller gives up before the completions are answered, the jobs of the claim are
// released, and the outcomes are carried out.
func TestExchangeIsAbandoned(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(ctx, lines(2)))(t)
	gone, leave := context.WithCancel(ctx)
	x := testkit.Must(e.Exchange(gone, []job.Complete{completeOf(claimOne(t, e))}, claimOf(1)))(t)
	leave()
	if _, _, err := x.Ended(gone); err == nil {
		// The answer had arrived already. In this case the claim is answered or released too.
		if _, _, _, err := x.Claimed(gone, 0, admitAll); err == nil {
			t.Skip("the answers arrived before the caller gave up")
		}
	} else if !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the claim is answered or released", func() bool {
		c := current(t, e).Totals().Counts
		return c[job.Pending] == 1 && c[job.Completed] == 1
	})
}

// TestExchangeIsClosed: if a request fails before it reads the answer to its claim, the jobs of the claim are released.
// If the request has a number, its repeat gets them instead.
func TestExchangeIsClosed(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(ctx, lines(3)))(t)
	number := inSession(t, e)
	plain := func(c *job.Claim, done *job.Complete) {}
	numbered := func(c *job.Claim, done *job.Complete) { c.Once = number(0, 1); done.Once = c.Once }
	for _, set := range []func(*job.Claim, *job.Complete){plain, numbered} {
		c, done := claimOf(1), completeOf(claimOne(t, e))
		set(&c, &done)
		testkit.Eventually(t, "no other claim has an offer of the next job", func() bool {
			o, found := e.parked.find(&c)
			e.parked.end(o)
			return found && !o.early
		})
		x := testkit.Must(e.Exchange(ctx, []job.Complete{done}, c))(t)
		testkit.Must2(x.Ended(ctx))(t)
		x.Close()
		x.Close()
		if !c.Once.Given() {
			testkit.Eventually(t, "the job is released", func() bool { return current(t, e).Totals().Counts[job.Pending] == 2 })
			continue
		}
		again := testkit.Must(e.Exchange(ctx, []job.Complete{done}, c))(t)
		defer again.Close()
		ended, _ := testkit.Must2(again.Ended(ctx))(t)
		testkit.Holds(t, ended[0].Replayed, "ended", ended)
		claimed, _, _, err := again.Claimed(ctx, 0, admitAll)
		testkit.Holds(t, err == nil && claimed.Replayed, "claimed", claimed, err)
	}
}

// TestExchangeRefusals: a refused outcome does not prevent the claim, and a repeated request with a key gets the first
// answer.
func TestExchangeRefusals(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(ctx, lines(5)))(t)
	exchange := func(done job.Complete, c job.Claim) (applied.Ended, applied.Claimed, error) {
		t.Helper()
		x := testkit.Must(e.Exchange(ctx, []job.Complete{done}, c))(t)
		ended, _, err := x.Ended(ctx)
		if err != nil {
			return applied.Ended{}, applied.Claimed{}, err
		}
		claimed, _, _, err := x.Claimed(ctx, 0, admitAll)
		return ended[0], claimed, err
	}
	lost := completeOf(job.NewID(1, 1<<30, 0))
	ended, claimed := testkit.Must2(exchange(lost, claimOf(1)))(t)
	testkit.Holds(t, ended.Refusal == job.ClaimLost && len(claimed.Runs) == 1, "a lost claim", ended, claimed)
	once := job.Once{Scope: "claim r1", Key: "k", Digest: job.Digest{1}}
	c, done := claimOf(1), completeOf(claimOne(t, e))
	c.Once, done.Once = once, once
	first, got := testkit.Must2(exchange(done, c))(t)
	testkit.MustHold(t, first.All == 1 && len(got.Runs) == 1, "with a key", first, got)
	again, repeated := testkit.Must2(exchange(done, c))(t)
	testkit.Holds(t, again.All == 1 && again.Replayed && repeated.Claim == got.Claim && repeated.Replayed, "repeated", again, repeated)
	large := completeOf(claimOne(t, e))
	large.All = nil
	large.Outcomes = []job.Outcome{{ID: got.Claim, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: []byte(strings.Repeat("x", largeOutput))}}}
	ended, claimed = testkit.Must2(exchange(large, claimOf(1)))(t)
	testkit.Holds(t, len(ended.Results) == 1 && len(claimed.Runs) == 1, "with a large output", ended, claimed)
}

// inSession opens a session and returns a function for the Once of its requests.
func inSession(t *testing.T, e *Engine) func(slot int, number uint64) job.Once {
	t.Helper()
	session, _ := testkit.Must2(e.OpenSession(t.Context(), job.OpenSession{Runner: "r1"}))(t)
	return func(slot int, number uint64) job.Once {
		return job.Once{Session: session.ID, Slot: slot, Number: number, Digest: job.Digest{1}}
	}
}

// TestNumberedRequestsOverARestart: each kind of request is carried out once, whether its repeat arrives before or after
// a restart.
func TestNumberedRequestsOverARestart(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e, stop := start(t, dir)
	number := inSession(t, e)
	create := func() *job.Create {
		c := lines(4)
		c.Once = number(0, 1)
		return c
	}
	claim := claimOf(2)
	claim.Once = number(1, 1)
	made, _ := testkit.Must2(e.Create(ctx, create()))(t)
	claimed, _ := mustClaim(t, e, claim)
	testkit.MustEqual(t, claimed.Jobs(), 2, claimed)
	// Two commands of one request; the second is for all jobs that the claim still holds.
	parts := []job.Complete{
		{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: made.Batch, Code: job.Fail, ExitCode: 400, DelayMs: -1}}, Once: number(2, 1)},
		{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Once: number(2, 1)},
	}
	parts[1].Once.Part = 1
	ended, last := testkit.Must2(e.CompleteInOrder(ctx, parts))(t)
	testkit.MustHold(t, ended[0].Results[0].Status == job.Failed && ended[1].All == 1, ended)
	repeat := func(when string) {
		t.Helper()
		same, receipt, err := e.Create(ctx, create())
		testkit.Holds(t, err == nil && same.Replayed && same.Batch == made.Batch && receipt.Seq == made.Seq, when, "create", same, err)
		held, jobs, _, err := e.Claim(ctx, claim, time.Hour)
		testkit.Holds(t, err == nil && held.Replayed && held.Claim == claimed.Claim && len(jobs) == 0, when, "claim", held, err)
		again, receipt, err := e.CompleteInOrder(ctx, parts)
		testkit.Holds(t, err == nil && again[0].Replayed && again[0].Results[0] == ended[0].Results[0] && again[1].All == 1 && receipt == last,
			when, "complete", again, receipt, err)
		counts := e.Stats().Jobs
		testkit.Holds(t, counts["pending"] == 2 && counts["completed"] == 1 && counts["failed"] == 1, when, counts)
	}
	repeat("before the restart")
	stop()
	e, _ = start(t, dir)
	repeat("after the restart")
	keys := e.Stats().Keys
	testkit.Holds(t, keys == 0 && e.Stats().Sessions == 1, keys, "keys", e.Stats().Sessions, "sessions")
}

// TestRefusedNumbers: an unknown session, a number that has passed, and a number of another request are refused without
// waiting, even for a claim that would wait.
func TestRefusedNumbers(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	number := inSession(t, e)
	c := lines(1)
	c.Once = number(0, 5)
	testkit.Must2(e.Create(ctx, c))(t)
	unknown, other := number(0, 6), number(0, 5)
	unknown.Session = job.NewID(unknown.Session.At()+1, 1, 0)
	other.Digest = job.Digest{2}
	for want, once := range map[job.Refusal]job.Once{job.NumberPassed: number(0, 4), job.NumberReused: other, job.SessionNotFound: unknown} {
		for _, types := range [][]string{nil, {"nothing"}} { // with and without a job to hand out
			claim := claimOf(1)
			claim.Once, claim.Types = once, types
			_, _, _, err := e.Claim(ctx, claim, time.Hour)
			testkit.Holds(t, errors.Is(err, want), "claim of", types, err, "want", want)
		}
		end := job.Complete{Outcomes: []job.Outcome{{ID: unknown.Session, Code: job.OK, ExitCode: 200, DelayMs: -1}}, Once: once}
		_, _, err := e.Complete(ctx, end)
		testkit.Holds(t, errors.Is(err, want), "complete", err, "want", want)
		c := lines(1)
		c.Once = once
		_, _, err = e.Create(ctx, c)
		testkit.Holds(t, errors.Is(err, want), "create", err, "want", want)
	}
	testkit.Fails(e.EndSession(ctx, job.EndSession{Session: unknown.Session}))(t, job.SessionNotFound)
	testkit.Equal(t, e.Stats().Jobs["pending"], 1, "jobs are pending")
}

// TestRepeatWaitsForTheRequestUnderWay: a slot runs one request at a time, so that a repeated claim does not take a
// second job.
func TestRepeatWaitsForTheRequestUnderWay(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	number := inSession(t, e)
	claim := claimOf(1)
	claim.Once = number(3, 1)
	type answer struct {
		claim    job.ID
		jobs     int
		replayed bool
		err      error
	}
	answers := make(chan answer, 2)
	for range 2 {
		go func() {
			c, jobs, _, err := e.Claim(ctx, claim, time.Minute)
			answers <- answer{c.Claim, len(jobs), c.Replayed, err}
		}()
	}
	testkit.Eventually(t, "a claim is parked", func() bool { return e.Stats().Parked > 0 })
	// A request in another slot does not wait.
	elsewhere := claimOf(1)
	elsewhere.Once = number(4, 1)
	c, _, _, err := e.Claim(ctx, elsewhere, 0)
	testkit.Holds(t, err == nil && c.Jobs() == 0, "another slot", c, err)
	testkit.Must2(e.Create(ctx, lines(2)))(t)
	first, second := <-answers, <-answers
	testkit.Holds(t, first.err == nil && second.err == nil && first.claim == second.claim && first.jobs == 1 &&
		second.jobs == 1 && first.replayed != second.replayed, first, "and", second)
	testkit.Equal(t, e.Stats().Jobs["active"], 1, "jobs are handed out")
}

// TestNumberedClaimKeepsItsJobs: a caller that gave up may repeat its claim, so its jobs are not returned to the queue.
func TestNumberedClaimKeepsItsJobs(t *testing.T) {
	e, _ := start(t, t.TempDir())
	number := inSession(t, e)
	testkit.Must2(e.Create(t.Context(), lines(3)))(t)
	claim := claimOf(2)
	claim.Once = number(0, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for n := 0; e.Stats().Jobs["active"] == 0; n++ { // if the caller gives up before its claim is journaled, the claim gets no jobs
		if n > 0 {
			var delay context.CancelFunc
			ctx, delay = context.WithTimeout(t.Context(), time.Duration(n)*50*time.Microsecond)
			defer delay()
		}
		_, _, _, _ = e.Claim(ctx, claim, 0) // it may also be answered in time
	}
	again, jobs := mustClaim(t, e, claim)
	testkit.Holds(t, again.Replayed && len(jobs) == 2, again, len(jobs), "jobs")
}
