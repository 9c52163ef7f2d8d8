package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/daybookq/daybook/journal"
)

// flight bounds the bytes of the commands of this process that are not answered yet, per lane.
type flight struct {
	stopped atomic.Bool

	mu    sync.Mutex
	freed sync.Cond
	used  [2]int64
}

var flightLimits = [2]int64{journal.Control: journal.MaxControlInFlightBytes, journal.Bulk: journal.MaxInFlightBytes}

// take waits until the command has room.
func (f *flight) take(ctx context.Context, p *journal.Proposal) error {
	stop := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.freed.Broadcast()
	})
	defer stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.used[p.Lane] > 0 && f.used[p.Lane]+p.Cost() > flightLimits[p.Lane] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.stopped.Load() {
			break
		}
		f.freed.Wait()
	}
	if f.stopped.Load() {
		return journal.ErrClosed
	}
	f.used[p.Lane] += p.Cost()
	return nil
}

func (f *flight) release(p *journal.Proposal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[p.Lane] -= p.Cost()
	f.freed.Broadcast()
}

func (f *flight) stop() {
	f.stopped.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.freed.Broadcast()
}

func (f *flight) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used[0] + f.used[1]
}
