package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// A job with a timeout_ms is returned to its queue before the wait for a handler takes much of the time-out, since the
// server counts it from the claim.
func TestJobsWithATimeOutDoNotWait(t *testing.T) {
	limited := func(n int, timeout time.Duration) clienttest.Reply {
		r := clienttest.HandOut(n, time.Hour)
		r.Body = strings.ReplaceAll(r.Body, `"status":"active"`, fmt.Sprintf(`"status":"active","timeout_ms":%d`, timeout.Milliseconds()))
		return r
	}
	t.Run("they are returned to their queue after a twentieth of it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(limited(3, time.Minute))})
			var ev events
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Batch: 3, Prefetch: 5, OnEvent: ev.add, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
				time.Sleep(50 * time.Second)
				return client.Outcome{}, nil
			}})
			time.Sleep(time.Minute)
			back := f.To("/jobs/{id}/release")
			testkit.Holds(t, len(back) == 2 && back[0].At.Sub(began).Truncate(10*time.Millisecond) == 3*time.Second &&
				back[0].Body["how"] == "unget" && back[0].Body["claim_id"] == clienttest.TestClaim, "given back", back)
			for _, c := range f.To("/jobs/claim") {
				at := c.At.Sub(began)
				testkit.Holds(t, at < 3*time.Second || c.Body["max"] == 1.0, "after", at, "it claimed", c.Body["max"], "with one handler")
			}
			testkit.Check(t, stop())
			for id, end := range ev.ends() {
				testkit.Holds(t, (end.Err == nil) == (id == clienttest.TestID(0)) && !errors.Is(end.Err, worker.ErrDraining), id, end.Err)
			}
		})
	})
	t.Run("a handler's context ends with the time-out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began, ended := time.Now(), make(chan time.Time, 1)
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(limited(1, 7*time.Second))})
			var ev events
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", OnEvent: ev.add, Handler: until(ended)})
			testkit.Equal(t, (<-ended).Sub(began), 7*time.Second, "it ended")
			testkit.Check(t, stop())
			end := ev.ends()[clienttest.TestID(0)]
			testkit.Holds(t, errors.Is(end.Err, worker.ErrLeaseLost), end.Err)
		})
	})
	t.Run("no job loses an attempt", func(t *testing.T) {
		const jobs = 6
		s := daybooktest.Start(t)
		added, err := s.Client.AddLines(t.Context(), []byte(strings.Repeat("x\n", jobs)), client.AddOptions{Attributes: client.Attributes{TimeoutMs: 4000}})
		testkit.NoError(t, err)
		back, all := make(chan struct{}, jobs), make(chan struct{})
		var left atomic.Int32
		left.Store(jobs)
		var first atomic.Bool
		w := &worker.Worker{Client: s.Client, Batch: jobs, Prefetch: jobs, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			if !first.Swap(true) {
				for range jobs - 1 { // while the worker holds the rest
					<-back
				}
			}
			return client.Outcome{}, nil
		}, OnEvent: func(e worker.Event) {
			switch {
			case e.Job == nil:
			case e.Err != nil:
				back <- struct{}{}
			case left.Add(-1) == 0:
				close(all)
			}
		}}
		stop := start(t, w)
		<-all
		testkit.Check(t, stop())
		for _, id := range added.JobIDs {
			j := testkit.Must(s.Client.Job(t.Context(), id))(t)
			testkit.Holds(t, j.Status == "completed" && j.RunAttempts == 1 && len(j.Attempts) == 0, j)
		}
	})
}

// Jobs that were claimed in advance for quick handlers, and now wait for slow ones, are returned to their queue.
func TestJobsClaimedAheadDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		given := 0
		f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": func(c clienttest.Call) clienttest.Reply {
			n := min(int(c.Body["max"].(float64)), 2000-given)
			if n == 0 {
				return clienttest.Nothing(c)
			}
			given += n
			return clienttest.HandOutFrom(given-n, n, time.Hour)
		}})
		slow := clienttest.TestID(1000)
		stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Batch: 50, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
			time.Sleep(time.Microsecond)
			if j.ID == slow {
				time.Sleep(time.Minute)
			}
			return client.Outcome{}, nil
		}})
		time.Sleep(time.Minute)
		back := f.To("/jobs/{id}/release")
		testkit.Holds(t, len(back) != 0 && back[0].At.Sub(began) >= 9*time.Second &&
			back[len(back)-1].At.Sub(began) <= 12*time.Second, len(back), "were given back")
		testkit.Check(t, stop())
	})
}

// TestRunIsBounded: Run returns within DrainTimeout and ReportTimeout whatever its handlers do, and tickles no job
// afterwards.
func TestRunIsBounded(t *testing.T) {
	const drain, report = 10 * time.Second, 20 * time.Second
	for name, c := range map[string]struct {
		handler    func(release <-chan struct{}) worker.Handler
		took       time.Duration
		unfinished bool
	}{
		"a handler never returns": {func(release <-chan struct{}) worker.Handler {
			return func(context.Context, *client.Job) (client.Outcome, error) { <-release; return client.Outcome{}, nil }
		}, drain + report, true},
		"a handler never ends its goroutine": {func(release <-chan struct{}) worker.Handler {
			return func(context.Context, *client.Job) (client.Outcome, error) {
				defer func() { <-release }()
				runtime.Goexit()
				return client.Outcome{}, nil
			}
		}, drain + report, true},
		"a handler never ends its panic": {func(release <-chan struct{}) worker.Handler {
			return func(context.Context, *client.Job) (client.Outcome, error) {
				defer func() { <-release }()
				panic("stuck")
			}
		}, drain + report, true},
		"a handler ignores its context for a while": {func(release <-chan struct{}) worker.Handler {
			return func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
				<-ctx.Done()
				time.Sleep(5 * time.Second)
				return client.Outcome{}, context.Cause(ctx)
			}
		}, drain + 5*time.Second, false},
		"a handler returns when its context ends": {func(release <-chan struct{}) worker.Handler {
			return func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
				<-ctx.Done()
				return client.Outcome{}, context.Cause(ctx)
			}
		}, drain, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tickles atomic.Int64
				answer := clienttest.Once(clienttest.HandOut(3, 3*time.Second))
				f := clienttest.Runner(t, nil)
				usual := f.Answer
				f.Answer = func(c clienttest.Call) clienttest.Reply {
					switch {
					case c.Route == "/jobs/claim":
						return answer(c)
					case strings.Contains(c.Route, "tickle"):
						tickles.Add(1)
					}
					return usual(c)
				}
				release := make(chan struct{})
				defer close(release)
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 2, Batch: 3,
					DrainTimeout: drain, ReportTimeout: report, Handler: c.handler(release)})
				synctest.Wait()
				began := time.Now()
				err := stop()
				took := time.Since(began)
				testkit.Holds(t, took >= c.took && took <= c.took+time.Second && took <= drain+report, "Run returned after", took, "not", c.took)
				testkit.Holds(t, errors.Is(err, worker.ErrUnfinished) == c.unfinished && (c.unfinished || err == nil), "Run returned", err)
				testkit.Holds(t, !c.unfinished || strings.Contains(err.Error(), clienttest.TestID(0)), "the error names no job", err)
				before := tickles.Load()
				testkit.Holds(t, before != 0, "nothing was tickled while the worker drained")
				time.Sleep(time.Minute)
				testkit.Equal(t, tickles.Load()-before, 0, "tickles after Run has returned")
			})
		})
	}
	t.Run("an OnEvent never returns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(1, time.Minute))})
			release := make(chan struct{})
			defer close(release)
			stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", DrainTimeout: drain, ReportTimeout: report,
				Handler: well, OnEvent: func(worker.Event) { <-release }})
			synctest.Wait()
			began := time.Now()
			err := stop()
			testkit.Holds(t, err != nil && !errors.Is(err, worker.ErrUnfinished), "Run returned", err)
			took := time.Since(began)
			testkit.Holds(t, took <= drain+report, "Run returned after", took)
		})
	})
}
