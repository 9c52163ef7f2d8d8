package worker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

func TestHandlersErrors(t *testing.T) {
	oops := errors.New("oops")
	for name, c := range map[string]struct {
		end   worker.Handler
		code  string
		delay any
	}{
		"error":       {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, oops }, "error", nil},
		"Fail":        {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, worker.Fail(oops) }, "failed", nil},
		"Fail of nil": {func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, worker.Fail(nil) }, "", nil},
		"RetryAfter": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, worker.RetryAfter(time.Second, oops)
		}, "retry", 1000.0},
		"RetryAfter of nil": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, worker.RetryAfter(time.Second, nil)
		}, "", nil},
		"negative RetryAfter": {func(context.Context, *client.Job) (client.Outcome, error) {
			return client.Outcome{}, worker.RetryAfter(-time.Second, oops)
		}, "retry", 0.0},
		"panic": {func(context.Context, *client.Job) (client.Outcome, error) { panic(oops) }, "error", nil},
		"runtime.Goexit": {func(context.Context, *client.Job) (client.Outcome, error) {
			runtime.Goexit()
			return client.Outcome{}, nil
		}, "error", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(2, time.Minute))})
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Batch: 2, Handler: c.end})
				time.Sleep(time.Second)
				testkit.Check(t, stop())
				seen := 0
				for _, done := range f.To("/jobs/complete") {
					list, _ := done.Body["outcomes"].([]any)
					for _, o := range list {
						seen++
						o := o.(map[string]any)
						want := c.code
						testkit.Holds(t, (o["code"] == want || want == "" && o["code"] == "ok") && o["delay_ms"] == c.delay, "reported", o)
						testkit.Equal(t, o["error"] != nil, c.code != "", "reported", o)
					}
				}
				testkit.Equal(t, seen, 2, "reports")
			})
		})
	}
}

// TestChainedJobs: a job creates others by its outcome and by its OnComplete, in all forms of creates and completions.
func TestChainedJobs(t *testing.T) {
	s := daybooktest.Start(t)
	c, ctx := s.Client, t.Context()
	claim := func(typ string, n int) *client.Claim {
		t.Helper()
		held := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Types: []string{typ}, Max: n}))(t)
		testkit.MustEqual(t, len(held.Jobs), n, typ, held)
		return held
	}
	next := client.Attributes{OnComplete: &client.FollowOn{Type: "b", Attributes: client.Attributes{MaxAttempts: 7, OnComplete: &client.FollowOn{Client: "other", Type: "c"}}}}
	first, err := c.Create(ctx, client.NewJob{Type: "a", Attributes: next})
	testkit.MustHold(t, err == nil && first.OnComplete != nil && first.OnComplete.Type == "b" && first.OnComplete.MaxAttempts == 7 &&
		first.OnComplete.OnComplete.Client == "other", first, err)
	testkit.Must(c.AddLines(ctx, []byte("1\n2\n"), client.AddOptions{Type: "a", Attributes: next}))(t)
	held := claim("a", 3)
	payload := client.JSONJob("then", []byte(`{"n":1}`))
	payload.Client, payload.Meta = "own", map[string]string{"k": "v"}
	done, err := c.Complete(ctx, held.Jobs[0].ID, held.ID, client.Outcome{Output: []byte("result"), Then: []client.NewJob{payload, client.TextJob("then", "x")}})
	testkit.NoError(t, err)
	testkit.MustEqual(t, done.Status, "completed", done)
	if _, results, err := c.CompleteClaim(ctx, held.ID, client.TextOutput("all"), client.JobOutcome{JobID: held.Jobs[1].ID, Outcome: client.Outcome{Code: "failed", Then: []client.NewJob{client.TextJob("then", "y")}}}); err != nil || results[0].Err() != nil {
		t.Fatal(results, err)
	}
	made := claim("then", 3)
	j := made.Jobs[0]
	testkit.Holds(t, j.Client == "own" && j.Meta["k"] == "v" && string(j.Payload) == `{"n":1}` && j.Kind == client.JSON, j)
	second := claim("b", 2)
	testkit.Equal(t, string(second.Jobs[0].Payload)+" "+string(second.Jobs[1].Payload), "result all", "the payloads of the next jobs")
	j = testkit.Must(c.Job(ctx, second.Jobs[0].ID))(t)
	testkit.Holds(t, j.Hops == 1 && j.MaxAttempts == 7 && j.OnComplete != nil && j.OnComplete.Type == "c", j)
	testkit.Fails2(c.CompleteClaim(ctx, second.ID, client.Outcome{Then: []client.NewJob{{Type: "x"}}}))(t, client.ErrBadRequest)
}

// TestUnget: a handler can return a job to its queue as if it had never been claimed.
func TestUnget(t *testing.T) {
	s := daybooktest.Start(t)
	j, err := s.Client.Create(t.Context(), client.TextJob("x", "0"))
	testkit.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	calls := 0
	w := worker.Worker{Client: s.Client, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
		if calls++; calls < 3 {
			return client.Outcome{}, worker.ErrUnget
		}
		return client.Outcome{}, nil
	}, OnEvent: func(e worker.Event) {
		switch {
		case e.Job == nil:
		case e.Err == nil:
			cancel()
		case !errors.Is(e.Err, worker.ErrUnget):
			t.Errorf("%v", e.Err)
		}
	}}
	testkit.Check(t, w.Run(ctx))
	j, err = s.Client.Job(t.Context(), j.ID)
	testkit.Holds(t, err == nil && j.Status == "completed" && j.RunAttempts == 1 && len(j.Attempts) == 0, j, err)
}

// TestWorkerChains: the outcome of a handler may create jobs. An error creates none. A chain that is too long ends as
// failed, with the reason.
func TestWorkerChains(t *testing.T) {
	s := daybooktest.Start(t)
	testkit.Must(s.Client.Create(t.Context(), client.TextJob("loop", "0")))(t)
	failed := client.TextJob("fails", "0")
	failed.MaxAttempts = 1
	testkit.Must(s.Client.Create(t.Context(), failed))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := worker.Worker{Client: s.Client, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
		o := client.Outcome{Then: []client.NewJob{client.TextJob(j.Type, "again")}}
		if j.Type == "fails" {
			return o, errors.New("broken")
		}
		return o, nil
	}, OnEvent: func(e worker.Event) {
		if e.Job != nil && e.Err != nil {
			cancel() // the end of the chain
		}
	}}
	testkit.Failed(t, w.Run(ctx), "100 jobs have already created each other")
	list := map[string]int{}
	for j, err := range s.Client.Jobs(t.Context(), client.JobsQuery{}) {
		testkit.NoError(t, err)
		list[j.Type+" "+j.Status]++
		testkit.Holds(t, j.Type != "loop" || j.Status != "failed" || strings.Contains(j.Error, "cannot be reported"), j)
	}
	testkit.Holds(t, list["loop completed"] == 100 && list["loop failed"] == 1 && list["fails failed"] == 1 && len(list) == 3, list)
}
