package ingest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// Queries returns the reads of the state as of the last commit. They never wait for the log; call CatchUp before them to
// see all that was stored.
func (e *Engine) Queries() *store.Queries { return e.store.Queries }

// maxReadWait bounds how long a read waits for the state to include a record of the log.
const maxReadWait = 5 * time.Second

// catchUp waits until the state includes all that was stored on arrival, and at least minSeq.
func (e *Engine) catchUp(ctx context.Context, minSeq uint64) error {
	target, err := e.log.Barrier(ctx)
	if err != nil {
		return cmp.Or(ctx.Err(), fmt.Errorf("%w: %w", ErrStale, err))
	}
	target = max(minSeq, target)
	if e.store.Applied() >= target {
		return nil
	}
	timer := time.NewTimer(maxReadWait)
	defer timer.Stop()
	for {
		next, blocked := e.commits.applied.next(), e.commits.blocked.next()
		if e.store.Applied() >= target {
			return nil
		}
		if err := e.commits.stalled(); err != nil {
			return err
		}
		select {
		case <-next:
		case <-blocked:
		case <-timer.C:
			return ErrStale
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CatchUp waits as every read does, for a caller that takes something for the read which it must not hold while it waits. The read that follows waits for a
// moment at most.
func (e *Engine) CatchUp(ctx context.Context, minSeq uint64) error { return e.catchUp(ctx, minSeq) }

// Job returns the document of a job as of all that was synced on arrival, and at least of minSeq; job.NotFound when there is none.
func (e *Engine) Job(ctx context.Context, minSeq uint64, id job.ID) (job.Job, error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return job.Job{}, err
	}
	return e.store.Job(id)
}

// JobWithin is Job for a caller with a bound on its memory; see store.Store.JobWithin.
func (e *Engine) JobWithin(ctx context.Context, minSeq uint64, id job.ID, room int64) (doc job.Job, fits bool, err error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return job.Job{}, false, err
	}
	return e.store.JobWithin(id, room)
}

// Batch returns the document of a batch, like Job.
func (e *Engine) Batch(ctx context.Context, minSeq uint64, id job.ID) (store.Batch, error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return store.Batch{}, err
	}
	return e.store.Batch(id)
}

// Queue returns the document of a queue, like Job; job.QueueNotFound when there is none.
func (e *Engine) Queue(ctx context.Context, minSeq uint64, client, typ string) (store.Queue, error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return store.Queue{}, err
	}
	return e.store.Queue(client, typ)
}

// Queues returns a page of queues after the pair (afterClient, afterType) in the order of client and type, of one client or,
// with "", of all, and whether more follow.
func (e *Engine) Queues(ctx context.Context, minSeq uint64, client, afterClient, afterType string, limit int) ([]store.Queue, bool, error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return nil, false, err
	}
	return e.store.Queues(client, afterClient, afterType, limit)
}

// List returns a page of jobs and the id that the next page begins after, like Job; see store.Store.List.
func (e *Engine) List(ctx context.Context, minSeq uint64, f store.Filter) ([]job.Job, job.ID, error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return nil, job.ID{}, err
	}
	return e.store.List(f)
}

// ClaimDocument returns the document of a claim and those of the jobs it holds, like Job; job.ClaimNotFound when no job names it.
func (e *Engine) ClaimDocument(ctx context.Context, minSeq uint64, id job.ID, parts store.Parts) (store.Claim, []job.Job, error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return store.Claim{}, nil, err
	}
	return e.store.ClaimDocument(id, parts)
}

// Runners returns a page of the runners that hold something, and whether more follow, like Job; see store.Store.Runners.
func (e *Engine) Runners(ctx context.Context, minSeq uint64, after string, limit int) ([]store.Runner, bool, error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return nil, false, err
	}
	return e.store.Runners(after, limit)
}

// WaitingTypes returns a page of the types that have jobs to hand out, and whether more follow, like Job; see store.Store.WaitingTypes.
func (e *Engine) WaitingTypes(ctx context.Context, minSeq uint64, client, after string, limit int) ([]store.WaitingType, bool, error) {
	if err := e.catchUp(ctx, minSeq); err != nil {
		return nil, false, err
	}
	types, more := e.store.WaitingTypes(client, after, limit)
	return types, more, nil
}

// Now returns the log's time, unix ms, by which leases and ages are measured.
func (e *Engine) Now() int64 { return e.log.Now() }
