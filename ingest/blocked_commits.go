package ingest

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// commitWait is the time after which a commit counts as blocked, or a command as stuck. On a full disk, Pebble waits
// instead of returning an error; a disk that does not answer delays a command that reads. The same bound applies to each
// step of a stop: the last commit, the last flush, and closing Pebble.
const commitWait = 5 * time.Second

// commits is the progress of the applier's commands and of the store's commits, with the goroutines that wait for them.
type commits struct {
	wait    time.Duration // Options.CommitWait
	began   atomic.Int64  // when the running commit began, unix ns; 0: no commit is running
	command atomic.Int64  // when the running command began to be applied, likewise
	count   atomic.Uint64 // commits since the start
	applied broadcast     // sent after each commit
	blocked broadcast     // sent repeatedly while a commit is blocked
}

// commit commits the applied commands. While it takes too long, stalled returns an error.
func (e *Engine) commit() error {
	e.commits.began.Store(time.Now().UnixNano())
	defer e.commits.began.Store(0)
	return e.store.Commit()
}

// stalled returns an ErrStale if the running commit or command is taking too long, and otherwise nil.
func (c *commits) stalled() error {
	if began := c.command.Load(); began != 0 && time.Since(time.Unix(0, began)) > c.wait {
		return fmt.Errorf("%w: one command has been applied since %v; does its disk answer?", ErrStale, time.Unix(0, began).Format(time.TimeOnly))
	}
	if began := c.began.Load(); began != 0 && time.Since(time.Unix(0, began)) > c.wait {
		return fmt.Errorf("%w: a commit of the store has been blocked since %v; is its disk full?", ErrStale, time.Unix(0, began).Format(time.TimeOnly))
	}
	return nil
}

// step returns the time at which the applier's current step, a command or a commit, began; 0: no step is running.
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
