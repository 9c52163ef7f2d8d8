package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// Create journals a batch and returns when it is on disk. The ids of its jobs follow from the receipt. The command and
// its payloads belong to the engine from the call on.
//
// Some creates return only when they are applied, because Apply decides about them: creates with unique keys, with an
// idempotency key or with a session number, and creates that add jobs to a batch.
//
// The jobs of a create with Joined belong to no batch and have no keys. The create may share a record of the log with
// other joined creates that wait at the same time. The ids of its jobs count up.
//
// If ctx ends first, the error is an ErrUnknown. If a key or number is refused, Create returns the refusal as an error;
// see store.Made.
func (e *Engine) Create(ctx context.Context, c *job.Create) (applied.Made, Receipt, error) {
	return e.StartCreate(ctx, c)()
}

// StartCreate is Create in two steps, for a caller that sends several creates without waiting for each. It begins the
// create, and the returned function waits for the result; the caller must call it once. Creates without keys and numbers
// are stored in the order in which one goroutine started them.
func (e *Engine) StartCreate(ctx context.Context, c *job.Create) (wait func() (applied.Made, Receipt, error)) {
	fail := func(err error) func() (applied.Made, Receipt, error) {
		return func() (applied.Made, Receipt, error) { return applied.Made{}, Receipt{}, err }
	}
	if err := e.accepting(); err != nil {
		return fail(err)
	}
	key := job.KeyOf(ctx)
	if err := key.Permits(c); err != nil {
		return fail(err)
	}
	// A create is acknowledged before it is applied. If its payloads contradicted its fields, Apply would fail then, and
	// at every later start.
	err := c.CheckPayloads()
	if err == nil && c.Joined && (c.Once.Given() || len(c.Unique) > 0) {
		err = fmt.Errorf("joined with a key")
	}
	if err != nil {
		return fail(fmt.Errorf("%w: create: %w", ErrMalformed, err))
	}
	if c.Once.Given() || len(c.Unique) > 0 || !c.Into.IsZero() {
		return func() (applied.Made, Receipt, error) { return e.createDecided(ctx, c) }
	}
	made, err := e.mayCreate(c)
	if err != nil {
		return fail(err)
	}
	if joins(c) {
		for i := range c.Groups {
			c.Groups[i].By = key.By().Name
		}
		return e.startJoined(ctx, c, made)
	}
	w := &waiter{synced: make(chan answer, 1), settled: made.settled}
	p, err := newProposal(ctx, journal.Bulk, c, w)
	if err == nil {
		err = e.proposeAlone(ctx, p)
	}
	if err != nil {
		w.settle(false)
		return fail(err)
	}
	return func() (applied.Made, Receipt, error) {
		a, err := e.await(ctx, w.synced)
		if err != nil {
			return applied.Made{}, Receipt{}, err
		}
		made := applied.Made{Batch: job.NewID(a.receipt.At, a.receipt.Seq, 0), Seq: a.receipt.Seq, Lines: c.Lines(), Group: c.Groups[0]}
		if c.Joined {
			made.Batch, made.First = job.ID{}, made.Batch
		}
		return made, a.receipt, a.err
	}
}

// createDecided carries out a create whose result Apply decides.
func (e *Engine) createDecided(ctx context.Context, c *job.Create) (applied.Made, Receipt, error) {
	if c.Once.Given() {
		end, err := e.beginOnce(ctx, &c.Once)
		if err != nil {
			return applied.Made{}, Receipt{}, err
		}
		defer end()
		if err := e.CatchUp(ctx, 0); err != nil {
			return applied.Made{}, Receipt{}, errors.Join(ErrNotStored, err)
		}
		if made, err := e.store.MadeBefore(&c.Once, e.Now()); err != nil || made != nil {
			return answerMade(made, Receipt{}, err)
		}
		if err := e.mayAddKey(ctx, &c.Once); err != nil {
			return applied.Made{}, Receipt{}, err
		}
	}
	queues, err := e.mayCreate(c)
	if err != nil {
		return applied.Made{}, Receipt{}, err
	}
	w, err := e.proposeSettled(ctx, laneOf(c), c, queues.settled)
	if err != nil {
		return applied.Made{}, Receipt{}, err
	}
	result, receipt, err := e.decision(ctx, w)
	if err != nil {
		return applied.Made{}, Receipt{}, err
	}
	return answerMade(result.(*applied.Made), receipt, nil)
}

// mayCreate refuses creates that cannot be carried out now. It must do so before they are journaled, because Apply must
// accept every acknowledged command. The caller has to settle the queues that the create makes.
func (e *Engine) mayCreate(c *job.Create) (*newQueues, error) {
	if e.disk.Low() {
		return nil, ErrDiskFull
	}
	if e.applyQueue.lag() > maxLag {
		e.counters.overloaded.Add(1)
		return nil, ErrOverloaded
	}
	if c.Lines() == 0 {
		return nil, nil
	}
	return e.mayMakeQueues(c)
}

// answerMade returns the answer to a create that Apply has decided, now or in an earlier request.
func answerMade(made *applied.Made, r Receipt, err error) (applied.Made, Receipt, error) {
	switch {
	case err != nil:
		return applied.Made{}, Receipt{}, err
	case made.Refusal != job.Granted:
		return applied.Made{}, Receipt{}, made.Refusal
	case made.Replayed:
		r = Receipt{Seq: made.Seq, At: made.Job(0).At()}
	}
	return *made, r, nil
}
