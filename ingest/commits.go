package ingest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// commitWait is the time after which a commit counts as blocked: on a full disk Pebble returns no error and waits. It
// also bounds each thing that a stop waits for: a commit, the last flush, and Pebble's end.
const commitWait = 5 * time.Second

// commits are the commits of the store, and what waits for them.
type commits struct {
	wait    time.Duration // Options.CommitWait
	began   atomic.Int64  // when the running commit began, unix ns; 0: none runs
	count   atomic.Uint64 // since the start
	applied broadcast     // after each commit
	blocked broadcast     // repeatedly while a commit is blocked
}

// commit commits what was applied, and notes when that began, for those who wait.
func (e *Engine) commit() error {
	e.commits.began.Store(time.Now().UnixNano())
	defer e.commits.began.Store(0)
	return e.store.Commit()
}

// stalled returns an ErrStale while the running commit takes too long.
func (c *commits) stalled() error {
	if began := c.began.Load(); began != 0 && time.Since(time.Unix(0, began)) > c.wait {
		return fmt.Errorf("%w: the store has not taken a commit since %v; is its disk full?", ErrStale, time.Unix(0, began).Format(time.TimeOnly))
	}
	return nil
}

// watch wakes those who wait for a decision while a commit is blocked, until ctx is done.
func (c *commits) watch(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, c.wait/10)
		if c.stalled() != nil {
			c.blocked.send()
		}
	}
}
