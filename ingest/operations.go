package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
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
	if err := e.maySweep(ctx, &m); err != nil {
		return applied.Swept{}, Receipt{}, err
	}
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

// OpenSession opens a session; see job.Once. The error is job.TooManySessions if the limit of open sessions is reached.
func (e *Engine) OpenSession(ctx context.Context, o job.OpenSession) (document.Session, Receipt, error) {
	if err := e.mayOpenSession(ctx); err != nil {
		return document.Session{}, Receipt{}, err
	}
	opened, receipt, err := decideAs[applied.SessionOpened](ctx, e, o)
	if err == nil && opened.Refusal != job.Granted {
		err = opened.Refusal
	}
	return opened.Session, receipt, err
}

// EndSession ends a session. Its claims keep their jobs. The error is job.SessionNotFound if the session does not exist.
func (e *Engine) EndSession(ctx context.Context, s job.EndSession) (Receipt, error) {
	ended, receipt, err := decideAs[applied.SessionEnded](ctx, e, s)
	if err == nil && ended.Refusal != job.Granted {
		err = ended.Refusal
	}
	return receipt, err
}

// PutDocument stores a version of a named document. If the documents of the kind are blobs, the caller must have stored
// the blob before. The error is job.VersionDiffers if the condition does not hold, or the kind's TooMany if there is no
// room, or the clients of the key have their share.
func (e *Engine) PutDocument(ctx context.Context, p job.PutDocument) (applied.DocumentChanged, Receipt, error) {
	if err := e.mayPutDocument(ctx, &p); err != nil {
		return applied.DocumentChanged{}, Receipt{}, err
	}
	return e.changeDocument(ctx, p)
}

// DeleteDocument deletes a named document. The error is job.VersionDiffers if the condition does not hold, or the kind's
// NotFound if there is no such document.
func (e *Engine) DeleteDocument(ctx context.Context, d job.DeleteDocument) (applied.DocumentChanged, Receipt, error) {
	return e.changeDocument(ctx, d)
}

func (e *Engine) changeDocument(ctx context.Context, cmd job.Command) (applied.DocumentChanged, Receipt, error) {
	changed, receipt, err := decideAs[applied.DocumentChanged](ctx, e, cmd)
	if err == nil && changed.Refusal != job.Granted {
		err = changed.Refusal
	}
	return changed, receipt, err
}
