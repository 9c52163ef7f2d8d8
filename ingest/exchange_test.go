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
			if _, _, err := e.Create(ctx, lines(1)); err != nil {
				t.Error(err)
			}
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
	testkit.Equal(t, <-got, 1, "the claim, jobs")
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
	numbered := func(c *job.Claim, done *job.Complete) {
		c.Once = number(0, 1)
		done.Once = c.Once
	}
	for _, set := range []func(*job.Claim, *job.Complete){plain, numbered} {
		c, done := claimOf(1), completeOf(claimOne(t, e))
		set(&c, &done)
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
