package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// idleEvery is the least time between two commands that delete idle queues. Each command deletes a bounded number of
// queues, so that the applier is not occupied for long.
const idleEvery = time.Second

// DeleteQueue deletes a queue that has no jobs. The result says whether the queue existed and whether it has jobs.
func (e *Engine) DeleteQueue(ctx context.Context, d job.DeleteQueue) (store.QueueDeleted, Receipt, error) {
	return decideAs[store.QueueDeleted](ctx, e, d)
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
// because Apply knows no options.
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
	k.e.logger.Info("deleted queues that had no jobs", "queues", result.(*store.IdleQueuesDeleted).Queues, "idle", k.e.o.QueueIdle)
}

// mayMakeQueues refuses jobs that would exceed the limit of queues, at once or when they complete. A job that inherits
// its client counts as one of a new queue.
func (e *Engine) mayMakeQueues(groups []job.Group) error {
	for i := range groups {
		g := &groups[i]
		if g.OnComplete != "" {
			next, _, err := g.OnComplete.Parse()
			if err != nil {
				return fmt.Errorf("%w: %w", ErrMalformed, err)
			}
			if next.Client == "" {
				next.Client = g.Client
			}
			if err := e.mayMakeQueues([]job.Group{next}); err != nil {
				return err
			}
		}
		exists, n, ever := e.store.QueueExists(g.Client, g.Type)
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

// maxQueueWait bounds TooManyQueues.RetryAfter, because a user may delete a queue earlier than the server does.
const maxQueueWait = time.Hour

// TooManyQueues is an ErrTooManyQueues with the time after which the caller may try again, because the server may have
// deleted an idle queue by then.
type TooManyQueues struct{ RetryAfter time.Duration }

func (t *TooManyQueues) Error() string { return ErrTooManyQueues.Error() }

// Is makes a TooManyQueues an ErrTooManyQueues for errors.Is.
func (t *TooManyQueues) Is(target error) bool { return target == ErrTooManyQueues }
