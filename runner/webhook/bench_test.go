package webhook

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// BenchmarkJobs runs jobs with a server in node: 10 callers each run one batch after another.
func BenchmarkJobs(b *testing.B) {
	for _, c := range []struct {
		batch bool
		size  int
	}{{false, 10}, {true, 10}, {true, 100}, {true, 1000}} {
		b.Run(fmt.Sprintf("batch=%v/size=%d", c.batch, c.size), func(b *testing.B) { benchmark(b, testkit.NodeServer(b), c.batch, c.size) })
	}
}

// BenchmarkOverhead does the same with a server in this process, which takes about half of the time.
func BenchmarkOverhead(b *testing.B) {
	answer := strings.Repeat("200\n", 100)
	to := web(b, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); io.WriteString(w, answer) })
	b.Run("single", func(b *testing.B) { benchmark(b, to, false, 10) })
	b.Run("batch", func(b *testing.B) { benchmark(b, to, true, 100) })
}

func benchmark(b *testing.B, to string, batch bool, size int) {
	e := executor(b, to, handler.Options{Batch: batch})
	batches := make(chan struct{})
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			jobs := make([]*client.Job, size)
			for i := range jobs {
				jobs[i] = newJob(i, "a payload of 25 bytes, or")
			}
			tasks := make([]*task.Task, size)
			var failed atomic.Int64
			for range batches {
				for i, j := range jobs {
					tasks[i] = task.New(b.Context(), j, func(end task.End) {
						if end.Code != "ok" {
							failed.Add(1)
						}
					})
				}
				e.Run(tasks)
			}
			n := failed.Load()
			testkit.Holds(b, n <= 0, n, "runs failed")
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		batches <- struct{}{}
	}
	close(batches)
	callers.Wait()
	b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
