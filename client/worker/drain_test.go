package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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

func TestDrain(t *testing.T) {
	t.Run("returns jobs to their queues in parallel, up to a bound", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ev events
			slow := func(c clienttest.Call) clienttest.Reply {
				return clienttest.Reply{Status: 200, Body: fmt.Sprintf(`{"job_id":%q}`, c.Id), After: time.Second}
			}
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{"/jobs/claim": clienttest.Once(clienttest.HandOut(66, time.Minute)), "/jobs/{id}/release": slow})
			w := &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Batch: 66, DrainTimeout: time.Second, OnEvent: ev.add, Handler: until(make(chan time.Time, 1))}
			stop := start(t, w)
			synctest.Wait()
			began := time.Now()
			testkit.Check(t, stop())
			d := time.Since(began)
			testkit.Holds(t, d >= 5*time.Second && d <= 7*time.Second, "66 jobs, 16 at once, took", d)
			ends := ev.ends()
			for id, end := range ends {
				testkit.Holds(t, errors.Is(end.Err, worker.ErrDraining), id, end.Err)
			}
			testkit.Equal(t, len(ends), 66, "ends")
		})
	})
	t.Run("a job that is lost is already in its queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var ev events
			f := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
				"/jobs/claim": clienttest.Once(clienttest.HandOut(1, time.Minute)), "/jobs/{id}/release": func(clienttest.Call) clienttest.Reply {
					return clienttest.Problem(http.StatusConflict, "claim_lost", "not_stored")
				},
			})
			w := &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", DrainTimeout: time.Second, OnEvent: ev.add, Handler: until(make(chan time.Time, 1))}
			stop := start(t, w)
			synctest.Wait()
			testkit.Check(t, stop())
			err := ev.ends()[clienttest.TestID(0)].Err
			testkit.Holds(t, errors.Is(err, worker.ErrDraining) && !errors.Is(err, client.ErrClaimLost), err)
		})
	})
	for _, c := range []struct{ down, timeout, took time.Duration }{{90 * time.Second, 0, 90 * time.Second}, {time.Hour, 0, 2 * time.Minute}, {time.Hour, 10 * time.Second, 10 * time.Second}} {
		t.Run(fmt.Sprintf("reports wait for a server that is down for %v when ReportTimeout is %v", c.down, c.timeout), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, answer := time.Now(), clienttest.Once(clienttest.HandOut(2, time.Minute))
				f := clienttest.Runner(t, nil)
				up := f.Answer
				f.Answer = func(call clienttest.Call) clienttest.Reply {
					if d := time.Since(began); d > time.Second && d < time.Second+c.down {
						return clienttest.RefusedConnection
					}
					if call.Route == "/jobs/claim" {
						return answer(call)
					}
					return up(call)
				}
				var ev events
				stop := start(t, &worker.Worker{Client: f.Client(client.Options{}), RunnerID: "r", Concurrency: 2, ReportTimeout: c.timeout, OnEvent: ev.add, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
					time.Sleep(2 * time.Second)
					return client.Outcome{}, nil
				}})
				time.Sleep(1500 * time.Millisecond)
				err := stop()
				d := time.Since(began)
				testkit.Holds(t, d >= c.took && d <= c.took+10*time.Second, "it took", d)
				back, ends := c.down <= c.took, ev.ends()
				testkit.Equal(t, err == nil, back, err)
				testkit.Holds(t, len(ends) == 2 && (ends[clienttest.TestID(1)].Err == nil) == back, ends)
			})
		})
	}
	t.Run("server and runner are deployed together", func(t *testing.T) {
		const jobs = 20
		s := daybooktest.Start(t)
		testkit.Must(s.Client.AddLines(t.Context(), []byte(strings.Repeat("x\n", jobs)), client.AddOptions{}))(t)
		received, begun, finish := make(chan struct{}, jobs), make(chan struct{}, jobs), make(chan struct{})
		w := &worker.Worker{
			Client: s.Client, Concurrency: jobs / 2, Prefetch: jobs, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Handler: func(context.Context, *client.Job) (client.Outcome, error) {
				begun <- struct{}{}
				<-finish
				return client.TextOutput("done"), nil
			},
			OnEvent: func(e worker.Event) {
				for range e.Jobs {
					received <- struct{}{}
				}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- tested(w).Run(ctx) }()
		for range jobs { // jobs that are still on their way when the server stops stay with the claim until its lease ends
			<-received
		}
		for range jobs / 2 {
			<-begun
		}
		s.Stop()
		cancel()
		close(finish)
		s.Restart()
		testkit.Check(t, <-ran)
		// Jobs that had begun are completed. All other jobs are back in their queue; those that were on their way to the worker
		// when the server stopped, when their lease has ended.
		testkit.Eventually(t, "ten jobs are completed and ten are pending", func() bool {
			got := counts(t, s)
			return got["completed"] == jobs/2 && got["pending"] == jobs/2
		})
	})
	t.Run("jobs return to their place in the queue", func(t *testing.T) {
		s := daybooktest.Start(t)
		testkit.Must(s.Client.AddLines(t.Context(), []byte("a\nb\nc\n"), client.AddOptions{}))(t)
		begun := make(chan string, 3)
		w := &worker.Worker{Client: s.Client, Batch: 3, DrainTimeout: time.Millisecond, Handler: func(ctx context.Context, j *client.Job) (client.Outcome, error) {
			begun <- string(j.Payload)
			<-ctx.Done()
			return client.Outcome{}, context.Cause(ctx)
		}}
		stop := start(t, w)
		testkit.Equal(t, <-begun, "a", "the first job")
		testkit.Check(t, stop())
		claim := testkit.Must(s.Client.Claim(t.Context(), client.ClaimRequest{RunnerID: "r", Max: 3}))(t)
		testkit.Holds(t, len(claim.Jobs) == 3 && claim.Jobs[0].RunAttempts == 1 && string(claim.Jobs[0].Payload) == "a", claim)
	})
}

// TestDrainStrandsNothing: whenever a worker is stopped, its outstanding claim leaves no job that must wait for the end
// of its lease.
func TestDrainStrandsNothing(t *testing.T) {
	s := daybooktest.Start(t)
	var lines strings.Builder
	for i := range 20_000 {
		fmt.Fprintln(&lines, i)
	}
	testkit.Must(s.Client.AddLines(t.Context(), []byte(lines.String()), client.AddOptions{}))(t)
	for round := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		var done atomic.Int32
		w := worker.Worker{Client: s.Client, Concurrency: 2, Batch: 10, Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			if done.Add(1) == int32(5+round*3) {
				cancel()
			}
			return client.Outcome{}, nil
		}}
		testkit.NoError(t, tested(&w).Run(ctx))
		q := testkit.Must(s.Client.Queue(t.Context(), "default", "default"))(t)
		testkit.MustEqual(t, q.Counts["active"], 0, "round", round, "jobs stay claimed by a worker that has ended")
	}
}

// TestErrorThatPanics: the Error method of an error may panic, as it does for a typed nil.
func TestErrorThatPanics(t *testing.T) {
	s := daybooktest.Start(t)
	added := testkit.Must(s.Client.AddLines(t.Context(), []byte("x\n"), client.AddOptions{Attributes: client.Attributes{MaxAttempts: 1}}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w := worker.Worker{Client: s.Client,
		Handler: func(context.Context, *client.Job) (client.Outcome, error) {
			var e *client.Error
			return client.Outcome{}, e
		},
		OnEvent: func(e worker.Event) {
			if e.Jobs == 0 {
				cancel()
			}
		}}
	testkit.NoError(t, w.Run(ctx))
	j := testkit.Must(s.Client.Job(t.Context(), added.JobIDs[0]))(t)
	testkit.Holds(t, j.Status == "failed" && strings.Contains(j.Error, "panic"), j)
}
