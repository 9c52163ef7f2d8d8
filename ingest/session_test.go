package ingest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

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
		if again, receipt, err := e.Create(ctx, create()); err != nil || !again.Replayed || again.Batch != made.Batch || receipt.Seq != made.Seq {
			t.Errorf("%s: create %+v, %v", when, again, err)
		}
		if again, jobs, _, err := e.Claim(ctx, claim, time.Hour); err != nil || !again.Replayed || again.Claim != claimed.Claim || len(jobs) != 0 {
			t.Errorf("%s: claim %+v, %v", when, again, err)
		}
		again, receipt, err := e.CompleteInOrder(ctx, parts)
		if err != nil || !again[0].Replayed || again[0].Results[0] != ended[0].Results[0] || again[1].All != 1 || receipt != last {
			t.Errorf("%s: complete %+v, %v, %v", when, again, receipt, err)
		}
		counts := e.Stats().Jobs
		testkit.Holds(t, counts["pending"] == 2 && counts["completed"] == 1 && counts["failed"] == 1, when, counts)
	}
	repeat("before the restart")
	stop()
	e, _ = start(t, dir)
	repeat("after the restart")
	if keys := e.Stats().Keys; keys != 0 || e.Stats().Sessions != 1 {
		t.Errorf("%d keys, %d sessions", keys, e.Stats().Sessions)
	}
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
	if first.err != nil || second.err != nil || first.claim != second.claim || first.jobs != 1 || second.jobs != 1 || first.replayed == second.replayed {
		t.Errorf("%+v and %+v", first, second)
	}
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
