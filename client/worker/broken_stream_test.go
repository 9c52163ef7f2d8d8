package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// TestBrokenStream: the connections of a worker break again and again. Each job runs once, because the worker
// connects again and names the claims that it has, and all outcomes are reported.
func TestBrokenStream(t *testing.T) {
	const jobs = 3000
	s := daybooktest.Start(t)
	c := clienttest.NewCutter(t, s.URL)
	var lines strings.Builder
	for i := range jobs {
		fmt.Fprintln(&lines, i)
	}
	testkit.Must(s.Client.AddLines(t.Context(), []byte(lines.String()), client.AddOptions{}))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	runs := map[string]int{}
	var left atomic.Int32
	left.Store(jobs)
	var cuts atomic.Int32
	w := &worker.Worker{Client: client.New(c.Url, client.Options{}), RunnerID: "r", Concurrency: 8, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
		mu.Lock()
		runs[j.ID]++
		n := len(runs)
		mu.Unlock()
		if n%500 == 250 {
			c.Cut()
			cuts.Add(1)
		}
		time.Sleep(time.Millisecond) // real time: jobs run while the worker connects again
		return client.Outcome{}, nil
	}, OnEvent: func(e worker.Event) {
		if e.Job == nil {
			return
		}
		testkit.Holds(t, e.Err == nil, "job", e.Job.ID, e.Err)
		if left.Add(-1) == 0 {
			stop()
		}
	}}
	testkit.Check(t, w.Run(ctx))
	got := counts(t, s)
	testkit.Equal(t, got["completed"], jobs, got)
	testkit.Holds(t, cuts.Load() >= 5, cuts.Load(), "cuts")
	for id, n := range runs {
		testkit.Equal(t, n, 1, "job", id, "ran times")
	}
}

// TestWorkerKeepsJobsWithoutSubscription: a worker whose subscription is refused, by a server that is not ready, does
// not close its stream cleanly. Otherwise the server would hand out the jobs that the worker still runs. The next stream continues
// this one, to which a server may have sent jobs.
func TestWorkerKeepsJobsWithoutSubscription(t *testing.T) {
	end, again := make(chan websocket.StatusCode, 1), make(chan string, 1)
	var streams atomic.Int32
	c := clienttest.SilentServer(t, time.Hour, func(conn *websocket.Conn, hello string) {
		n := streams.Add(1)
		if n == 2 {
			again <- hello
		}
		_, _, err := conn.Read(context.Background())
		if n > 1 {
			return // the worker tries again until it is stopped
		}
		testkit.Check(t, err)
		refusal := `{"n":2,"problem":{"status":503,"code":"not_ready","outcome":"not_stored"}}`
		testkit.Check(t, conn.Write(context.Background(), websocket.MessageText, []byte(refusal)))
		_, _, err = conn.Read(context.Background())
		end <- websocket.CloseStatus(err)
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- (&worker.Worker{Client: c, Handler: func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, nil }}).Run(ctx)
	}()
	testkit.Equal(t, <-end, -1, "the stream was closed with status")
	testkit.Contains(t, <-again, `"resume":"s"`)
	stop()
	<-ended // with the refusal of claims by HTTP
}

// TestHearsOfCancel: the context of a handler ends when its job is cancelled, with the reason as its cause.
func TestHearsOfCancel(t *testing.T) {
	c := daybooktest.Start(t).Client
	j := testkit.Must(c.Create(t.Context(), client.TextJob("x", "p")))(t)
	began, cause, stopped := make(chan bool), make(chan error, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := worker.Worker{Client: c, Lease: 6 * time.Second, Strategy: "fair", Handler: func(ctx context.Context, j *client.Job) (client.Outcome, error) {
		close(began)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return client.Outcome{}, nil
	}}
	go func() { stopped <- w.Run(ctx) }()
	<-began
	testkit.Must(c.Cancel(t.Context(), j.ID))(t)
	testkit.Failed(t, <-cause, worker.ErrLeaseLost, client.ErrCancelled)
	stop()
	testkit.Check(t, <-stopped)
	got := testkit.Must(c.Job(t.Context(), j.ID))(t)
	testkit.Equal(t, got.Status, "cancelled", got)
}
