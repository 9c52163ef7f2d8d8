package worker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

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
				if took := time.Since(began); took < c.took || took > c.took+time.Second || took > drain+report {
					t.Errorf("Run returned after %v, not %v", took, c.took)
				}
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
