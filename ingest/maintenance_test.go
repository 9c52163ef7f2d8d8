package ingest

import (
	"testing"
	"testing/synctest"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestFlushAfterWork: a flush is due after flushWork of the applier's time, however few commands and bytes that was.
func TestFlushAfterWork(t *testing.T) {
	h := history{worked: make(chan struct{}, 1)}
	flushes := func() (n int) {
		for range 10 {
			h.spent(flushWork / 4)
			select {
			case <-h.worked:
				n++
			default:
			}
		}
		return n
	}
	if n := flushes(); n != 2 {
		t.Errorf("%d flushes in %v of work", n, 10*flushWork/4)
	}
}

// TestMaintainFlushesWhenDue: a flush that is due takes place immediately, not with the next regular flush.
func TestMaintainFlushesWhenDue(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		_, receipt := testkit.Must2(e.Create(t.Context(), lines(1)))(t)
		synctest.Wait()
		seq := e.history.durable.Load()
		testkit.MustHold(t, seq < receipt.Seq, "the store is on disk up to", seq, "before a flush is due")
		signal(e.history.worked)
		synctest.Wait()
		seq = e.history.durable.Load()
		testkit.Holds(t, seq >= receipt.Seq, "the store is on disk up to", seq, "and not up to", receipt.Seq)
	})
}
