package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

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
			if begun[i] < freeRequests {
				t.Errorf("stream %d has %d requests", i, begun[i])
			}
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
