package ingest

import (
	"context"
	"sync/atomic"
	"time"
)

// stallWatch detects that the process was suspended for some time. It does not use the disk, so it can distinguish a
// suspended process from a slow disk, which only delays a tick.
type stallWatch struct {
	began time.Time    // set before run is called
	beat  atomic.Int64 // time of the last round of run, in ns after began by the monotonic clock
	found atomic.Int64 // number of times that run has detected a suspension
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

// since reports whether the process was suspended after the time at which found was n.
func (w *stallWatch) since(n int64) bool {
	return w.found.Load() != n || time.Since(w.began)-time.Duration(w.beat.Load()) > maxSleep+late
}
