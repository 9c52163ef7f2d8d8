package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// Receipt is what a change is answered with: the position of its command in the journal and its time, unix ms.
type Receipt struct {
	Seq uint64
	At  int64
}

// waiter is a request that waits for its command. It is the Tag of the command's record while it passes through memory.
type waiter struct {
	synced  chan answer // of creates: capacity 1, filled by the committer
	applied chan answer // of the rest: capacity 1, filled by the applier, or by the committer with an error
	// left is set when the caller gave up waiting; whoever of caller and applier comes second sees to what was decided.
	left atomic.Bool
}

type answer struct {
	receipt Receipt
	result  store.Result
	err     error
}

// propose hands cmd to the journal.
func (e *Engine) propose(ctx context.Context, lane journal.Lane, cmd job.Command, w *waiter) error {
	fields, body := cmd.Encode()
	// What is journaled must be readable for ever: a command that its own decoder refuses would stop this start and every later one.
	if _, err := job.Decode(cmd.Verb(), fields, body); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	p := &journal.Proposal{Lane: lane, Verb: cmd.Verb(), Fields: fields, Body: body, Tag: w}
	p.Done = func(seq uint64, at int64, err error) {
		switch {
		case w.synced != nil:
			w.synced <- answer{receipt: Receipt{seq, at}, err: err}
		case err != nil:
			w.applied <- answer{err: err}
		}
	}
	if err := e.journal.Propose(ctx, p); err != nil {
		return fmt.Errorf("propose %s: %w", cmd.Verb(), err)
	}
	return nil
}

// answerApplied gives the one who waits for a record its decision, and reports whether it found nobody.
func answerApplied(r *journal.Record, result store.Result, err error) (nobody bool) {
	w, ok := r.Tag.(*waiter)
	if !ok || w.applied == nil {
		return false
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrApply, err)
	}
	w.applied <- answer{Receipt{r.Seq, r.At}, result, err}
	return w.left.Swap(true)
}

// Create journals a batch and returns when it is on disk. The ids of its jobs follow from the receipt. One with unique keys, or an
// idempotency key or a number of a session, is answered when it was applied, which decides about those. The command and its payloads belong to the engine from the
// call on.
//
// When ctx ends first the outcome is unknown, and the error says so. The refusal of a key or number is an error too; see store.Made.
func (e *Engine) Create(ctx context.Context, c *job.Create) (store.Made, Receipt, error) {
	if err := e.accepting(); err != nil {
		return store.Made{}, Receipt{}, err
	}
	// A create is acknowledged before it is applied. One whose payloads are not those that it announces would stop the applier, and every
	// later start as well.
	if err := c.CheckPayloads(); err != nil {
		return store.Made{}, Receipt{}, fmt.Errorf("%w: create: %w", ErrMalformed, err)
	}
	if c.Once.Given() {
		end, err := e.underWay.begin(ctx, &c.Once)
		if err != nil {
			return store.Made{}, Receipt{}, err
		}
		defer end()
		if err := e.catchUp(ctx, 0); err != nil {
			return store.Made{}, Receipt{}, errors.Join(ErrNotStored, err)
		}
		if made, err := e.store.MadeBefore(&c.Once, e.Now()); err != nil || made != nil {
			return answerMade(made, Receipt{}, err)
		}
		if err := e.mayRemember(&c.Once); err != nil {
			return store.Made{}, Receipt{}, err
		}
	}
	if err := e.mayCreate(c); err != nil {
		return store.Made{}, Receipt{}, err
	}
	if c.Once.Given() || len(c.Unique) > 0 {
		result, receipt, err := e.decide(ctx, c)
		if err != nil {
			return store.Made{}, Receipt{}, err
		}
		return answerMade(result.(*store.Made), receipt, nil)
	}
	w := &waiter{synced: make(chan answer, 1)}
	if err := e.propose(ctx, journal.Bulk, c, w); err != nil {
		return store.Made{}, Receipt{}, err
	}
	a, err := e.await(ctx, w.synced)
	if err != nil {
		return store.Made{}, Receipt{}, err
	}
	return store.Made{Batch: job.NewID(a.receipt.At, a.receipt.Seq, 0), Seq: a.receipt.Seq, Lines: c.Lines(), Group: c.Groups[0]}, a.receipt, a.err
}

// await returns the answer to a command that was proposed. It gives up, and says ErrUnknown, when ctx ends or the store takes no commit: a
// full disk may last for hours, and a caller can decide better than we can what to do meanwhile.
func (e *Engine) await(ctx context.Context, answers <-chan answer) (a answer, err error) {
	for {
		blocked := e.blocked.next()
		err := e.commitBlocked()
		if err == nil {
			select {
			case a = <-answers:
				return a, nil
			case <-blocked:
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		select { // what is there counts
		case a = <-answers:
			return a, nil
		default:
			return a, errors.Join(ErrUnknown, err)
		}
	}
}

// mayCreate refuses what Apply, which must accept it, could not.
func (e *Engine) mayCreate(c *job.Create) error {
	if e.diskLow.Load() {
		return ErrDiskFull
	}
	if e.over.lag() > maxLag {
		e.overloaded.Add(1)
		return ErrOverloaded
	}
	return e.mayMakeQueues(c)
}

// answerMade is the answer to a create that was decided, now or before.
func answerMade(made *store.Made, r Receipt, err error) (store.Made, Receipt, error) {
	switch {
	case err != nil:
		return store.Made{}, Receipt{}, err
	case made.Refusal != job.Granted:
		return store.Made{}, Receipt{}, made.Refusal
	case made.Replayed:
		r = Receipt{Seq: made.Seq, At: made.Batch.At()}
	}
	return *made, r, nil
}

// laneOf returns the lane of a command: what is large waits for its turn behind what is small.
func laneOf(cmd job.Command) journal.Lane {
	switch c := cmd.(type) {
	case *job.Create:
		return journal.Bulk
	case job.Complete:
		if bulky(&c) {
			return journal.Bulk
		}
	}
	return journal.Control
}

// decide journals a command and returns what Apply decided.
func (e *Engine) decide(ctx context.Context, cmd job.Command) (store.Result, Receipt, error) {
	w := &waiter{applied: make(chan answer, 1)}
	if err := e.propose(ctx, laneOf(cmd), cmd, w); err != nil {
		return nil, Receipt{}, err
	}
	return e.decision(ctx, w)
}

// decision waits for what Apply decided about a command that was proposed.
func (e *Engine) decision(ctx context.Context, w *waiter) (store.Result, Receipt, error) {
	a, err := e.await(ctx, w.applied)
	if err != nil {
		if w.left.Swap(true) { // the applier came first, and thinks that we have its answer
			if a := <-w.applied; a.err == nil {
				e.giveBack(a.result)
			}
		}
		return nil, Receipt{}, err
	}
	return a.result, a.receipt, a.err
}

// giveBack has jobs ungot that were handed to a caller who had hung up.
func (e *Engine) giveBack(result store.Result) {
	c, ok := result.(*store.Claimed)
	if !ok || len(c.Runs) == 0 || c.Keyed { // who has a key may come back with it
		return
	}
	e.strayMu.Lock()
	e.strays = append(e.strays, c.Claim)
	e.strayMu.Unlock()
	signal(e.stray)
}

// ungetStrays proposes to give back what giveBack is told of, until ctx is done.
func (e *Engine) ungetStrays(ctx context.Context) {
	for {
		select {
		case <-e.stray:
		case <-ctx.Done():
			return
		}
		e.strayMu.Lock()
		strays := e.strays
		e.strays = nil
		e.strayMu.Unlock()
		for _, id := range strays {
			e.unget(ctx, id)
		}
	}
}

// unget gives back the jobs of a claim that nobody got.
func (e *Engine) unget(ctx context.Context, id job.ID) {
	cmd := job.Complete{Claim: id, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
	if _, _, err := e.decide(ctx, cmd); err != nil && ctx.Err() == nil {
		e.log.Warn("cannot give back the jobs of a claim that was not answered; they are free when its lease ends", "claim_id", id.String(), "error", err)
	}
}

// Tickle extends leases; see job.Tickle.
func (e *Engine) Tickle(ctx context.Context, t job.Tickle) (store.Tickled, Receipt, error) {
	return decideAs[store.Tickled](ctx, e, t)
}

// Pause stops or resumes handing out the jobs of a queue.
func (e *Engine) Pause(ctx context.Context, p job.Pause) (store.Paused, Receipt, error) {
	return decideAs[store.Paused](ctx, e, p)
}

func decideAs[T any](ctx context.Context, e *Engine, cmd job.Command) (result T, _ Receipt, err error) {
	if err := e.accepting(); err != nil {
		return result, Receipt{}, err
	}
	r, receipt, err := e.decide(ctx, cmd)
	if err != nil {
		return result, Receipt{}, err
	}
	return *r.(*T), receipt, nil
}
