package bench

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/testkit"
)

// BenchmarkWorker drains a queue with worker.Worker, whose handlers do nothing, and in turns with a loop that claims and
// completes and decodes nothing. Both use the same server in the same minutes. So their ratio shows the cost of the
// Worker, whatever else the machine does.
func BenchmarkWorker(b *testing.B) {
	for _, c := range []struct {
		name         string
		callers, max int // of the loop
		batches      int // of 1000 jobs, in each turn
		worker       worker.Worker
	}{
		{"16Handlers/Batch100", 16, 100, 40, worker.Worker{Concurrency: 16, Batch: 100}},
		{"16Handlers/Batch1000", 16, 1000, 80, worker.Worker{Concurrency: 16, Batch: 1000}},
		{"16Handlers/Batch100/HTTP", 16, 100, 40, worker.Worker{Concurrency: 16, Batch: 100, NoStream: true}},
		{"64Handlers/Batch1", 64, 1, 4, worker.Worker{Concurrency: 64, Batch: 1}},
		{"64Handlers/Batch1/HTTP", 64, 1, 4, worker.Worker{Concurrency: 64, Batch: 1, NoStream: true}},
		{"64Handlers", 64, 64, 8, worker.Worker{Concurrency: 64}},
		{"64Handlers/HTTP", 64, 64, 8, worker.Worker{Concurrency: 64, NoStream: true}},
		{"Defaults", 1, 1, 1, worker.Worker{}},
		{"Defaults/HTTP", 1, 1, 1, worker.Worker{NoStream: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := serve(b)
			l := NewLoad(s.URL(), c.callers)
			defer l.Close()
			jobs := c.batches * 1000
			var loop, worker time.Duration
			// The first turn of each opens connections and warms up both sides.
			drainInLoop(b, l, c.callers, c.max, jobs)
			drainWithWorker(b, l, s.URL(), c.worker, jobs)
			before := testkit.Must(l.Stats(b.Context()))(b)
			var syncs uint64
			for b.Loop() {
				worker += drainWithWorker(b, l, s.URL(), c.worker, jobs)
				after := testkit.Must(l.Stats(b.Context()))(b)
				syncs += after.Journal.Syncs - before.Journal.Syncs
				loop += drainInLoop(b, l, c.callers, c.max, jobs)
				before = testkit.Must(l.Stats(b.Context()))(b)
			}
			drained := float64(b.N * jobs)
			b.ReportMetric(drained/worker.Seconds(), "jobs/s")
			b.ReportMetric(drained/loop.Seconds(), "loop-jobs/s")
			b.ReportMetric(loop.Seconds()/worker.Seconds(), "of-loop")
			b.ReportMetric(float64(syncs)/drained, "fsyncs/job")
		})
	}
}

// drainInLoop fills the queue, and drains it.
func drainInLoop(b *testing.B, l *Load, callers, size, jobs int) time.Duration {
	b.Helper()
	fill(b, l, jobs/1000)
	return drain(b, l, callers, size, jobs)
}

// drainWithWorker fills the queue, and runs a worker until all jobs are done and reported. It returns the time that this
// took.
func drainWithWorker(b *testing.B, l *Load, url string, w worker.Worker, jobs int) time.Duration {
	b.Helper()
	fill(b, l, jobs/1000)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var left atomic.Int64
	left.Store(int64(jobs))
	var ended time.Time
	w.Client = client.New(url, client.Options{})
	w.Handler = func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, nil }
	w.OnEvent = func(e worker.Event) {
		if e.Job == nil {
			return
		}
		testkit.Check(b, e.Err)
		if left.Add(-1) == 0 {
			ended = time.Now()
			stop()
		}
	}
	began := time.Now()
	testkit.Check(b, w.Run(ctx))
	testkit.Equal(b, left.Load(), 0)
	return ended.Sub(began)
}
