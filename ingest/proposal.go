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

// Receipt is part of the answer to each change: the position of its command in the log and its time, unix ms.
type Receipt struct {
	Seq uint64
	At  int64
}

// waiter is a request that waits for its command. It is the Tag of the command's record while it passes through memory.
type waiter struct {
	synced  chan answer // for creates: capacity 1, filled by the log's Done
	applied chan answer // for the rest: capacity 1, filled by the applier, or by the log's Done with an error
	// left is set by the caller when it gives up, and by the applier when it has answered. Whichever of the two comes
	// second sees to jobs that were handed out and that no caller has.
	left atomic.Bool
}

type answer struct {
	receipt Receipt
	result  store.Result
	err     error
}

// newProposal makes the proposal of a command. Its answers go to w.
func newProposal(lane journal.Lane, cmd job.Command, w *waiter) (*journal.Proposal, error) {
	fields, body := cmd.Encode()
	// A command that its own decoder refuses would stop the applier, and every later start.
	if _, err := job.Decode(cmd.Verb(), fields, body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
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
	return p, nil
}

// propose hands a proposal to the log.
func (e *Engine) propose(ctx context.Context, p *journal.Proposal) error {
	if err := e.log.Propose(ctx, p); err != nil {
		return fmt.Errorf("propose %s: %w", p.Verb, err)
	}
	return nil
}

// answerApplied sends the decision about a record to the caller that waits for it. It reports whether a caller waited
// once and has given up.
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

// await returns the answer to a command that was proposed. It gives up with ErrUnknown when ctx ends or the store takes
// no commit: a disk may stay full for hours, and the caller can decide better what to do meanwhile.
func (e *Engine) await(ctx context.Context, answers <-chan answer) (a answer, err error) {
	for {
		blocked := e.commits.blocked.next()
		err := e.commits.stalled()
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
		select { // an answer that is there counts
		case a = <-answers:
			return a, nil
		default:
			return a, errors.Join(ErrUnknown, err)
		}
	}
}

// laneOf returns the lane of a command: large commands wait for small ones.
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
	w, err := e.proposeDecided(ctx, laneOf(cmd), cmd)
	if err != nil {
		return nil, Receipt{}, err
	}
	return e.decision(ctx, w)
}

// decideAsLeader is decide for a command that only the leader of the log may propose. It returns ErrNotLeading, and
// proposes nothing, unless this process leads in the given term.
//
// The look comes last before the proposal, but leadership may end between the two. Such a command is stored in a later
// term, or not at all. It does no harm there: a tick sees no time after its AsOf, a grace only extends leases, a level
// is never lowered, and whether a queue is idle is decided when the command is applied.
func (e *Engine) decideAsLeader(ctx context.Context, term uint64, cmd job.Command) (store.Result, Receipt, error) {
	w := &waiter{applied: make(chan answer, 1)}
	p, err := newProposal(laneOf(cmd), cmd, w)
	if err != nil {
		return nil, Receipt{}, err
	}
	if current, leads := e.log.Leads(); !leads || current != term {
		return nil, Receipt{}, fmt.Errorf("propose %s: %w", p.Verb, ErrNotLeading)
	}
	if err := e.propose(ctx, p); err != nil {
		return nil, Receipt{}, err
	}
	return e.decision(ctx, w)
}

// proposeDecided proposes a command whose answer is what Apply decides; see decision.
func (e *Engine) proposeDecided(ctx context.Context, lane journal.Lane, cmd job.Command) (*waiter, error) {
	w := &waiter{applied: make(chan answer, 1)}
	p, err := newProposal(lane, cmd, w)
	if err != nil {
		return nil, err
	}
	return w, e.propose(ctx, p)
}

// decision waits for what Apply decided about a command that was proposed.
func (e *Engine) decision(ctx context.Context, w *waiter) (store.Result, Receipt, error) {
	a, err := e.await(ctx, w.applied)
	if err != nil {
		if w.left.Swap(true) { // the applier came first, and found that a caller waits
			if a := <-w.applied; a.err == nil {
				e.giveBack(a.result)
			}
		}
		return nil, Receipt{}, err
	}
	return a.result, a.receipt, a.err
}

// decideAs is decide for a command whose result has type *T, while requests are taken.
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
