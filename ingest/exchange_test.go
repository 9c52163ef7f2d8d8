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
	claimed, _, _, err := e.Claim(t.Context(), claimOf(1), 0)
	if err != nil || len(claimed.Runs) == 0 {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
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
		ended, last, err := x.Ended(ctx)
		if err != nil || len(ended) != 1 || ended[0].All != 1 {
			t.Fatalf("ended %+v, %v", ended, err)
		}
		claimed, jobs, receipt, err := x.Claimed(ctx, 0, admitAll)
		if err != nil || len(jobs) != 1 || receipt.Seq <= last.Seq {
			t.Fatalf("claimed %+v, %d jobs, %+v after %+v, %v", claimed, len(jobs), receipt, last, err)
		}
		held = claimed.Claim
	}
	// The log may begin to write between the two proposals, but this is rare.
	if n := groups() - before; n > rounds*3/2 {
		t.Errorf("%d requests took %d groups", rounds, n)
	}
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
		if e.Silence("r1") == before {
			t.Fatal("the lease has not run out")
		}
		exchange := func(wait time.Duration) (took time.Duration) {
			t.Helper()
			began := time.Now()
			x := testkit.Must(e.Exchange(ctx, []job.Complete{completeOf(claimOne(t, e))}, claimOf(1)))(t)
			testkit.Must2(x.Ended(ctx))(t)
			if claimed, jobs, _, err := x.Claimed(ctx, wait, admitAll); err != nil || len(jobs) != 1 {
				t.Fatalf("claimed %+v, %d jobs, %v", claimed, len(jobs), err)
			}
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
		if took := exchange(time.Minute); took != time.Second {
			t.Errorf("the claim waited %v for a job", took)
		}
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
	if claimed, jobs, _, err := x.Claimed(ctx, 0, admitAll); err != nil || len(jobs) != 1 || claimed.Claim == held {
		t.Errorf("claimed %+v, %d jobs, %v", claimed, len(jobs), err)
	}
}

// TestExchangeWaits: a claim that finds nothing waits for a job after the completions were answered.
func TestExchangeWaits(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	x := testkit.Must(e.Exchange(ctx, []job.Complete{completeOf(claimOne(t, e))}, claimOf(1)))(t)
	if ended, _, err := x.Ended(ctx); err != nil || ended[0].All != 1 {
		t.Fatalf("ended %+v, %v", ended, err)
	}
	got := make(chan int, 1)
	go func() {
		_, jobs, _, err := x.Claimed(ctx, time.Minute, admitAll)
		testkit.Check(t, err)
		got <- len(jobs)
	}()
	testkit.Eventually(t, "the claim is parked", func() bool { return e.parked.n.Load() > 0 })
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	if n := <-got; n != 1 {
		t.Errorf("the claim got %d jobs", n)
	}
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
		if ended, _, err := again.Ended(ctx); err != nil || !ended[0].Replayed {
			t.Errorf("ended %+v, %v", ended, err)
		}
		if claimed, _, _, err := again.Claimed(ctx, 0, admitAll); err != nil || !claimed.Replayed {
			t.Errorf("claimed %+v, %v", claimed, err)
		}
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
	if ended, claimed, err := exchange(lost, claimOf(1)); err != nil || ended.Refusal != job.ClaimLost || len(claimed.Runs) != 1 {
		t.Errorf("a lost claim: %+v, %+v, %v", ended, claimed, err)
	}
	once := job.Once{Scope: "claim r1", Key: "k", Digest: job.Digest{1}}
	c, done := claimOf(1), completeOf(claimOne(t, e))
	c.Once, done.Once = once, once
	first, got, err := exchange(done, c)
	if err != nil || first.All != 1 || len(got.Runs) != 1 {
		t.Fatalf("with a key: %+v, %+v, %v", first, got, err)
	}
	if again, repeated, err := exchange(done, c); err != nil || again.All != 1 || !again.Replayed || repeated.Claim != got.Claim || !repeated.Replayed {
		t.Errorf("repeated: %+v, %+v, %v", again, repeated, err)
	}
	large := completeOf(claimOne(t, e))
	large.All = nil
	large.Outcomes = []job.Outcome{{ID: got.Claim, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: []byte(strings.Repeat("x", largeOutput))}}}
	if ended, claimed, err := exchange(large, claimOf(1)); err != nil || len(ended.Results) != 1 || len(claimed.Runs) != 1 {
		t.Errorf("with a large output: %+v, %+v, %v", ended, claimed, err)
	}
}
