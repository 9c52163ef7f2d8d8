package ingest

import (
	"context"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// idleEvery is the least time between two commands that delete idle queues. Each command deletes a bounded number of
// queues, so that it does not occupy the applier for long.
const idleEvery = time.Second

// DeleteQueue deletes a queue without jobs. The result says whether the queue existed, and whether it has jobs.
func (e *Engine) DeleteQueue(ctx context.Context, d job.DeleteQueue) (applied.QueueDeleted, Receipt, error) {
	return decideAs[applied.QueueDeleted](ctx, e, d)
}

// untilIdle returns the time until the next idle queue is due for deletion. ok is false if no queue is idle, or if idle
// queues are never deleted.
func (e *Engine) untilIdle() (d time.Duration, ok bool) {
	since := e.store.IdleSince()
	if since == 0 || e.o.QueueIdle <= 0 {
		return 0, false
	}
	return time.Duration(max(0, since+e.o.QueueIdle.Milliseconds()-e.log.Now())) * time.Millisecond, true
}

// deleteIdle proposes to delete the queues that have been idle for Options.QueueIdle. The command contains that time,
// because Apply does not know the options.
func (k *timekeeper) deleteIdle(ctx context.Context) {
	if wait, ok := k.e.untilIdle(); !ok || wait > 0 || time.Since(k.idleTried) < idleEvery {
		return
	}
	result, _, err := k.e.decideAsLeader(ctx, k.term, job.DeleteIdleQueues{IdleMs: k.e.o.QueueIdle.Milliseconds()})
	k.idleTried = time.Now()
	if err != nil {
		if ctx.Err() == nil {
			k.e.logger.Warn("cannot delete idle queues; trying again", "error", err)
		}
		return
	}
	k.e.logger.Info("deleted queues that had no jobs", "queues", result.(*applied.IdleQueuesDeleted).Queues, "idle", k.e.o.QueueIdle)
}
