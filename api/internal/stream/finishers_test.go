package stream

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestFinishersAreKept: the goroutine that has finished a request finishes the next request, too. At most
// maxIdleFinishers waiting goroutines are kept, and none after the stop.
func TestFinishersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l finishers
		stopped := make(chan struct{})
		l.init(stopped)
		idle := func(want int32) {
			t.Helper()
			synctest.Wait()
			testkit.MustEqual(t, l.idle.Load(), want, "goroutines wait")
		}
		l.run(func() {})
		idle(1)
		release := make(chan struct{})
		l.run(func() { <-release })
		idle(0)
		for range 2 * maxIdleFinishers {
			l.run(func() { <-release })
		}
		idle(0)
		close(release)
		idle(maxIdleFinishers)
		close(stopped)
		idle(0)
		l.run(func() {})
		idle(0)
	})
}

// BenchmarkFinishers measures a request of a stream whose answer is a short document, finished in a reused goroutine
// and in a new one.
func BenchmarkFinishers(b *testing.B) {
	for name, most := range map[string]int32{"kept": maxIdleFinishers, "new": 0} {
		b.Run(name, func(b *testing.B) {
			var l finishers
			stopped := make(chan struct{})
			defer close(stopped)
			l.init(stopped)
			l.most = most
			var all sync.WaitGroup
			f := func() {
				defer all.Done()
				_, _, err := appendDocument(nil, answer.HeldDocument{Held: 1}, 0)
				testkit.Check(b, err)
				refusal.Of(web.ErrShuttingDown)
			}
			const together = 22 // requests whose answers one commit makes ready
			b.ReportAllocs()
			for b.Loop() {
				all.Add(together)
				for range together {
					l.run(f)
				}
				all.Wait()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(time.Nanosecond)/float64(b.N*together), "ns/request")
		})
	}
}

// TestRequestsInStreamsAreBounded: a stream with many requests waits while other streams hold the memory for requests.
func TestRequestsInStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := web.NewLane("", 4*requestBlock*requestBytes)
		windows := make([]requestWindow, 3)
		begun := make([]int, len(windows))
		for i := range windows {
			w := &windows[i]
			w.init(t.Context(), web.Share{Lane: of})
			go func() {
				for w.begin() {
					begun[i]++
				}
			}()
		}
		synctest.Wait()
		most := len(windows)*freeRequests + 6*requestBlock // the oldest share always gets its bytes
		testkit.Holds(t, begun[0]+begun[1]+begun[2] <= most+maxStreamRequests, begun, "requests are under way")
		for i := range begun {
			testkit.Holds(t, begun[i] >= freeRequests, "stream", i, "has", begun[i], "requests")
		}
		for i := range windows {
			w := &windows[i]
			go w.drain()
			synctest.Wait()
			w.end(begun[i])
		}
		time.Sleep(2 * web.MaxBudgetWait)
		synctest.Wait()
		testkit.Equal(t, of.Used(), 0, "bytes are taken after the end")
	})
}
