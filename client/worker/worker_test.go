package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// events collects the events of a worker.
type events struct {
	mu   sync.Mutex
	list []worker.Event
}

func (e *events) add(ev worker.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

// ends returns the events of the ends of runs, by job.
func (e *events) ends() map[string]worker.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	ends := map[string]worker.Event{}
	for _, ev := range e.list {
		if ev.Job != nil {
			ends[ev.Job.ID] = ev
		}
	}
	return ends
}

// start runs a worker in the background. stop drains it, and returns the result of Run.
func start(t *testing.T, w *worker.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tested(w).Run(ctx) }()
	return func() error { cancel(); return <-done }
}

func well(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, nil }

// until is a handler that waits until its context ends, and signals that.
func until(ended chan<- time.Time) worker.Handler {
	return func(ctx context.Context, j *client.Job) (client.Outcome, error) {
		<-ctx.Done()
		ended <- time.Now()
		return client.Outcome{}, context.Cause(ctx)
	}
}

// together is a handler that ends n runs at the same time, so that they are reported together.
func together(n int, end worker.Handler) worker.Handler {
	var gate sync.WaitGroup
	gate.Add(n)
	return func(ctx context.Context, j *client.Job) (client.Outcome, error) {
		gate.Done()
		gate.Wait()
		return end(ctx, j)
	}
}

// work runs n jobs of a real server by a worker. It returns the events of the worker and the result of Run.
func work(t *testing.T, n int, handler worker.Handler) (s *daybooktest.Server, ends map[string]worker.Event, err error) {
	s = daybooktest.Start(t)
	testkit.Must(s.Client.AddLines(t.Context(), []byte(strings.Repeat("x\n", n)), client.AddOptions{}))(t)
	var ev events
	all := make(chan struct{})
	var left atomic.Int32
	left.Store(int32(n))
	w := &worker.Worker{Client: s.Client, Concurrency: n, Prefetch: -1, Handler: handler, OnEvent: func(e worker.Event) {
		ev.add(e)
		if e.Job != nil && left.Add(-1) == 0 {
			close(all)
		}
	}}
	stop := start(t, w)
	<-all
	err = stop()
	return s, ev.ends(), err
}

func counts(t *testing.T, s *daybooktest.Server) map[string]int64 {
	t.Helper()
	q := testkit.Must(s.Client.Queue(t.Context(), "default", "default"))(t)
	return q.Counts
}

// jobTexts returns the payloads of the jobs that HandOut hands out.
func jobTexts(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf(`{"job_id":%q,"status":"active"}`, clienttest.TestID(i)))
	}
	return list
}

func TestWorkerOutlivesARestart(t *testing.T) {
	s := daybooktest.Start(t)
	testkit.Must(s.Client.AddLines(t.Context(), []byte("a\nb\n"), client.AddOptions{}))(t)
	begun, restarted, ended := make(chan struct{}, 2), make(chan struct{}), make(chan error, 2)
	w := &worker.Worker{
		Client: s.Client, Prefetch: -1,
		Handler: func(ctx context.Context, _ *client.Job) (client.Outcome, error) {
			begun <- struct{}{}
			<-restarted
			return client.Outcome{}, context.Cause(ctx)
		},
		OnEvent: func(e worker.Event) {
			if e.Job != nil {
				ended <- e.Err
			}
		},
	}
	stop := start(t, w)
	<-begun
	s.Restart()
	close(restarted)
	for range 2 { // the job that was running, and one that is claimed from the new server
		testkit.Check(t, <-ended)
	}
	testkit.Check(t, stop())
	got := counts(t, s)
	testkit.Equal(t, got["completed"], 2, got)
}
