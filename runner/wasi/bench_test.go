package wasi

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/runner/task"
)

// BenchmarkRun runs small guests, one in C and one built with Go's compiler, in warm processes. It runs several batches
// of jobs at a time, without a server.
func BenchmarkRun(b *testing.B) {
	small := guestFile(b, "tiny")
	large := testkit.Must(goGuest())(b)
	for _, c := range []struct {
		name   string
		binary []byte
		input  string
	}{{"c", small, "hello"}, {"go", large, "hello\n"}} {
		for _, atATime := range []int{1, 2, 4} {
			for _, batch := range []int{1, 100} {
				b.Run(fmt.Sprintf("%s/%d/batch=%d", c.name, atATime, batch), func(b *testing.B) {
					f := newFixture(b, nil)
					x := f.executor(Handler{Binary: f.blobs.add("", c.binary)})
					runMany(b, x, atATime, atATime, batch, c.input) // compiles the module and starts the processes
					b.ResetTimer()
					runMany(b, x, b.N, atATime, batch, c.input)
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
				})
			}
		}
	}
}

// runMany runs jobs in batches, atATime batches at a time.
func runMany(b *testing.B, x task.Executor, jobs, atATime, batch int, input string) {
	var left atomic.Int64
	left.Store(int64(jobs))
	var wg sync.WaitGroup
	for range atATime {
		wg.Go(func() {
			for {
				n := int(min(left.Add(-int64(batch))+int64(batch), int64(batch)))
				if n <= 0 {
					return
				}
				tasks := make([]*task.Task, n)
				for i := range tasks {
					tasks[i] = task.New(b.Context(), &client.Job{Client: "c", Payload: []byte(input)}, func(e task.End) {
						if e.Code != "ok" {
							b.Error(show(e))
						}
					})
				}
				x.Run(tasks)
			}
		})
	}
	wg.Wait()
}
