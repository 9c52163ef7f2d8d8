package ingest

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// commitWait is the time after which a commit counts as blocked, and one command as stuck. On a full disk, Pebble returns
// no error and waits; a disk that does not answer holds up a command that reads. The same bound holds for each step of a
// stop: the last commit, the last flush, and closing Pebble.
const commitWait = 5 * time.Second

// commits is the progress of the applier: of its commands and of the store's commits, and the goroutines that wait for
// them.
type commits struct {
	wait    time.Duration // Options.CommitWait
	began   atomic.Int64  // when the running commit began, unix ns; 0: none runs
	command atomic.Int64  // when the running command began to be applied, likewise
	count   atomic.Uint64 // commits since the start
	applied broadcast     // sent after each commit
	blocked broadcast     // sent repeatedly while a commit is blocked
}

// commit commits the applied commands. While it runs, stalled reports for how long.
func (e *Engine) commit() error {
	e.commits.began.Store(time.Now().UnixNano())
	defer e.commits.began.Store(0)
	return e.store.Commit()
}

// stalled returns an ErrStale if the running commit or command takes too long; otherwise nil.
func (c *commits) stalled() error {
	if began := c.command.Load(); began != 0 && time.Since(time.Unix(0, began)) > c.wait {
		return fmt.Errorf("%w: one command has been applied since %v; does its disk answer?", ErrStale, time.Unix(0, began).Format(time.TimeOnly))
	}
	if began := c.began.Load(); began != 0 && time.Since(time.Unix(0, began)) > c.wait {
		return fmt.Errorf("%w: a commit of the store has been blocked since %v; is its disk full?", ErrStale, time.Unix(0, began).Format(time.TimeOnly))
	}
	return nil
}

// step is when the step of the applier began that runs now, a command or a commit; 0: none runs.
func (c *commits) step() int64 { return cmp.Or(c.command.Load(), c.began.Load()) }

// watch wakes waiting requests while the applier is stalled, until ctx is done.
func (c *commits) watch(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, c.wait/10)
		if c.stalled() != nil {
			c.blocked.send()
		}
	}
}
