package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// Tickle extends leases; see job.Tickle.
func (e *Engine) Tickle(ctx context.Context, t job.Tickle) (applied.Tickled, Receipt, error) {
	return decideAs[applied.Tickled](ctx, e, t)
}

// Pause pauses or resumes a queue. The engine does not hand out jobs of a paused queue.
func (e *Engine) Pause(ctx context.Context, p job.Pause) (applied.Paused, Receipt, error) {
	return decideAs[applied.Paused](ctx, e, p)
}

// Move applies an operation to one job.
func (e *Engine) Move(ctx context.Context, m job.Move) (applied.Moved, Receipt, error) {
	return decideAs[applied.Moved](ctx, e, m)
}

// MoveAll applies an operation to the jobs of a batch or queue. If they are too many for one command, a sweep applies it
// to the rest.
func (e *Engine) MoveAll(ctx context.Context, m job.Move) (applied.Swept, Receipt, error) {
	return decideAs[applied.Swept](ctx, e, m)
}

// ChangeBatch closes or resumes a batch.
func (e *Engine) ChangeBatch(ctx context.Context, c job.ChangeBatch) (applied.BatchChanged, Receipt, error) {
	return decideAs[applied.BatchChanged](ctx, e, c)
}

// Patch changes attributes of a waiting job. It returns ErrTooManyQueues if there is no queue memory for the new
// priority.
func (e *Engine) Patch(ctx context.Context, p job.Patch) (applied.Moved, Receipt, error) {
	if err := e.accepting(); err != nil {
		return applied.Moved{}, Receipt{}, err
	}
	made, err := e.mayPatch(&p)
	if err != nil {
		return applied.Moved{}, Receipt{}, err
	}
	w, err := e.proposeSettled(ctx, laneOf(p), p, made.settled)
	if err != nil {
		return applied.Moved{}, Receipt{}, err
	}
	r, receipt, err := e.decision(ctx, w)
	if err != nil {
		return applied.Moved{}, Receipt{}, err
	}
	return *r.(*applied.Moved), receipt, nil
}

// Switch stops or starts handing out the jobs of all queues.
func (e *Engine) Switch(ctx context.Context, s job.Switch) (applied.Switched, Receipt, error) {
	return decideAs[applied.Switched](ctx, e, s)
}
