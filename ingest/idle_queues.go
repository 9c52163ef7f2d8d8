package ingest

import (
	"context"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// idleEvery is the time between two commands that delete idle queues. Each deletes a bounded number, so that applying
// it is short.
const idleEvery = time.Second

// DeleteQueue deletes a queue that has no jobs. Its result says whether the queue exists and whether it has jobs.
func (e *Engine) DeleteQueue(ctx context.Context, d job.DeleteQueue) (store.QueueDeleted, Receipt, error) {
	return decideAs[store.QueueDeleted](ctx, e, d)
}

// untilIdle returns the time until a queue is deleted because it is idle. ok is false if no queue is idle, or if idle
// queues are never deleted.
func (e *Engine) untilIdle() (d time.Duration, ok bool) {
	since := e.store.IdleSince()
	if since == 0 || e.o.QueueIdle <= 0 {
		return 0, false
	}
	return time.Duration(max(0, since+e.o.QueueIdle.Milliseconds()-e.log.Now())) * time.Millisecond, true
}

// deleteIdle proposes to delete the queues that have been idle for long enough. The command contains how long that is,
// since Apply knows no configuration.
func (k *timekeeper) deleteIdle(ctx context.Context) {
	if wait, ok := k.e.untilIdle(); !ok || wait > 0 || time.Since(k.idled) < idleEvery {
		return
	}
	result, _, err := k.e.decideAsLeader(ctx, k.term, job.DeleteIdleQueues{IdleMs: k.e.o.QueueIdle.Milliseconds()})
	k.idled = time.Now()
	if err != nil {
		if ctx.Err() == nil {
			k.e.logger.Warn("cannot delete idle queues; trying again", "error", err)
		}
		return
	}
	k.e.logger.Info("deleted queues that had no jobs", "queues", result.(*store.IdleQueuesDeleted).Queues, "idle", k.e.o.QueueIdle)
}

// mayMakeQueues refuses a create that would make more queues than there may be.
func (e *Engine) mayMakeQueues(c *job.Create) error {
	for i := range c.Groups {
		exists, n, ever := e.store.QueueExists(c.Groups[i].Client, c.Groups[i].Type)
		if exists || n < e.o.maxQueues && ever < job.MaxQueueNumbers {
			continue
		}
		wait, ok := e.untilIdle()
		if !ok {
			wait = maxQueueWait
		}
		return &TooManyQueues{RetryAfter: min(max(wait, time.Second), maxQueueWait)}
	}
	return nil
}

// maxQueueWait bounds the time after which a refused create is to be repeated: a user may delete a queue earlier than
// the server does.
const maxQueueWait = time.Hour

// TooManyQueues is ErrTooManyQueues with the time after which a queue may have been deleted.
type TooManyQueues struct{ RetryAfter time.Duration }

func (t *TooManyQueues) Error() string { return ErrTooManyQueues.Error() }

// Is reports a TooManyQueues as ErrTooManyQueues.
func (t *TooManyQueues) Is(target error) bool { return target == ErrTooManyQueues }
