package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// Tickle extends leases; see job.Tickle.
func (e *Engine) Tickle(ctx context.Context, t job.Tickle) (store.Tickled, Receipt, error) {
	return decideAs[store.Tickled](ctx, e, t)
}

// Pause pauses or resumes a queue. The engine does not hand out jobs of a paused queue.
func (e *Engine) Pause(ctx context.Context, p job.Pause) (store.Paused, Receipt, error) {
	return decideAs[store.Paused](ctx, e, p)
}

// Move applies an operation to one job.
func (e *Engine) Move(ctx context.Context, m job.Move) (store.Moved, Receipt, error) {
	return decideAs[store.Moved](ctx, e, m)
}

// MoveAll applies an operation to the jobs of a batch or queue. If they are too many for one command, a sweep applies it
// to the rest.
func (e *Engine) MoveAll(ctx context.Context, m job.Move) (store.Swept, Receipt, error) {
	return decideAs[store.Swept](ctx, e, m)
}

// ChangeBatch closes or resumes a batch.
func (e *Engine) ChangeBatch(ctx context.Context, c job.ChangeBatch) (store.BatchChanged, Receipt, error) {
	return decideAs[store.BatchChanged](ctx, e, c)
}

// Patch changes attributes of a waiting job. It returns ErrTooManyQueues if there is no queue memory for the new
// priority.
func (e *Engine) Patch(ctx context.Context, p job.Patch) (store.Moved, Receipt, error) {
	if err := e.accepting(); err != nil {
		return store.Moved{}, Receipt{}, err
	}
	made, err := e.mayPatch(&p)
	if err != nil {
		return store.Moved{}, Receipt{}, err
	}
	w, err := e.proposeSettled(ctx, laneOf(p), p, made.settled)
	if err != nil {
		return store.Moved{}, Receipt{}, err
	}
	r, receipt, err := e.decision(ctx, w)
	if err != nil {
		return store.Moved{}, Receipt{}, err
	}
	return *r.(*store.Moved), receipt, nil
}

// Switch stops or starts handing out the jobs of all queues.
func (e *Engine) Switch(ctx context.Context, s job.Switch) (store.Switched, Receipt, error) {
	return decideAs[store.Switched](ctx, e, s)
}
