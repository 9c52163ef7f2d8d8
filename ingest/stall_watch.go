package ingest

import (
	"context"
	"sync/atomic"
	"time"
)

// stallWatch notices that the process was stopped, also while the timekeeper waits for a tick: a disk that stalls keeps
// a tick waiting, but not this.
type stallWatch struct {
	began time.Time    // set before run
	beat  atomic.Int64 // when run last went round, ns after began by the monotonic clock
	found atomic.Int64 // how often run found that the process had been stopped
}

// run watches until ctx is done.
func (w *stallWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, maxSleep)
		if now := time.Since(w.began); now-time.Duration(w.beat.Swap(int64(now))) > maxSleep+late {
			w.found.Add(1)
		}
	}
}

// since reports whether the process has been stopped since run had found that n times.
func (w *stallWatch) since(n int64) bool {
	return w.found.Load() != n || time.Since(w.began)-time.Duration(w.beat.Load()) > maxSleep+late
}
