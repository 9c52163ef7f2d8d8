package ingest

import "testing"

// TestFlushAfterWork: a flush is due after so much work of the applier, however few commands and bytes that was.
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
