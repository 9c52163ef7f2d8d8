package script

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/task"
)

// BenchmarkScript runs a handler that does nothing, in two contexts at a time, with batches of 1 and 100 jobs.
func BenchmarkScript(b *testing.B) {
	nothing := sources{
		handler.Node: `function handle() {}`, handler.Python: `def handle(payload, job): pass`, handler.PHP: `function handle() {}`, handler.Shell: `handle() { :; }`,
	}
	for _, lang := range handler.Langs {
		for _, size := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/batch=%d", lang, size), func(b *testing.B) {
				bed := newBed(b)
				x := bed.executor("1", handler.Document{Lang: lang, Source: nothing[lang]})
				const contexts = 2
				var begin sync.WaitGroup
				warm := func() { run(x, text("a")) }
				begin.Go(warm)
				begin.Go(warm)
				begin.Wait()
				var left, wrong atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var all sync.WaitGroup
				for range contexts {
					all.Go(func() {
						jobs := texts(make([]string, size)...)
						for _, j := range jobs {
							j.ID, j.Client, j.Type, j.Payload = "0Qx7Kp2Lm9VbNcRt-000001", "acme", "work", []byte("a payload of a few words")
						}
						ended := func(e task.End) {
							if e.Code != "ok" {
								wrong.Add(1)
							}
						}
						tasks := make([]*task.Task, size)
						for {
							n := min(int64(size), left.Add(-int64(size))+int64(size))
							if n <= 0 {
								return
							}
							for i := range n {
								tasks[i] = task.New(context.Background(), jobs[i], ended)
							}
							x.Run(tasks[:n])
						}
					})
				}
				all.Wait()
				b.StopTimer()
				testkit.Holds(b, wrong.Load() <= 0, wrong.Load(), "of", b.N, "jobs did not end well")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
