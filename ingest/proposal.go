package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// Receipt is the position and time of a change. It is part of every answer to a change.
type Receipt struct {
	Seq uint64 // the position of its command in the log
	At  int64  // the time of the command, unix ms
}

// waiter is a request that waits for its command. It is the Tag of the command's record. One of its channels is nil.
type waiter struct {
	// cmd is the command as decoded from the text of its record; nil if the applier must decode the text.
	cmd job.Command
	by  *job.Actor // who sent it
	// synced is for creates that are answered when they are stored. The log's Done sends to it. Capacity 1.
	synced chan answer
	// applied is for all other commands. The applier sends to it, or the log's Done if there is an error. Capacity 1.
	applied chan answer
	// settled, if not nil, is called when the command is applied, before its commit, or when it is known to have failed.
	// It must not wait.
	settled func(applied bool)
	// release, if not nil, is called when the command is applied, or is known to have failed.
	release func()
	// left is set by the caller when it gives up, and by the applier or Done when it has answered. If both set it, the
	// second releases the jobs of the claim, because no caller has received them.
	left atomic.Bool
	// claims counts a claim whose caller has given up, until its jobs are released; nil for other commands.
	claims *runnerClaims
}

// maxDecodedBytes bounds the text of commands that wait for the applier in decoded form. The bounds of bytes in flight
// only count the text, and a large command takes several times as much memory when decoded.
const maxDecodedBytes = 4 << 10

type answer struct {
	receipt Receipt
	result  applied.Result
	err     error
}

// newProposal returns the proposal of a command, whose actor is the key of the context. It fails if the key is not for the
// command. w gets the answer.
func newProposal(ctx context.Context, lane journal.Lane, cmd job.Command, w *waiter) (*journal.Proposal, error) {
	key := job.KeyOf(ctx)
	if err := key.Permits(cmd); err != nil {
		return nil, err
	}
	w.by = key.By()
	fields, body := cmd.Encode()
	// If the decoder refused the record of a stored command, the applier would stop, and every later start would fail.
	decoded, err := job.Decode(cmd.Verb(), fields, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	fields = job.AppendActor(w.by, fields)
	if len(fields)+len(body) <= maxDecodedBytes {
		w.cmd = decoded
	}
	p := &journal.Proposal{Lane: lane, Verb: cmd.Verb(), Fields: fields, Body: body, Tag: w}
	p.Done = func(seq uint64, at int64, err error) {
		if err != nil {
			w.settle(false)
		}
		switch {
		case w.synced != nil:
			w.synced <- answer{receipt: Receipt{seq, at}, err: err}
		case err != nil:
			w.answer(answer{err: err})
			if w.left.Swap(true) && w.claims != nil { // it got no jobs
				w.claims.in.answer(w.claims)
			}
		}
	}
	return p, nil
}

// propose gives a proposal to the log.
func (e *Engine) propose(ctx context.Context, p *journal.Proposal) error {
	if err := e.log.Propose(ctx, p); err != nil {
		e.disk.Met(err)
		return fmt.Errorf("propose %s: %w", p.Verb, err)
	}
	return nil
}

// answerApplied sends the decision about a record to the caller that waits for it. It reports whether that caller has
// given up.
func answerApplied(r *journal.Record, result applied.Result, err error) (abandoned bool) {
	w, ok := r.Tag.(*waiter)
	if !ok || w.applied == nil {
		return false
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrApply, err)
	}
	w.answer(answer{Receipt{r.Seq, r.At}, result, err})
	return w.left.Swap(true)
}

func (w *waiter) settle(applied bool) {
	if w.settled != nil {
		w.settled(applied)
	}
}

// answer answers a command that waits for applied.
func (w *waiter) answer(a answer) {
	if w.release != nil {
		w.release()
	}
	w.applied <- a
}

// await returns the answer to a proposed command. It gives up with ErrUnknown when ctx ends or a commit of the store is
// blocked. A disk may stay full for hours, so the caller decides how long it waits.
func (e *Engine) await(ctx context.Context, answers <-chan answer) (a answer, err error) {
	for {
		blocked := e.commits.blocked.next()
		err := e.commits.stalled()
		if err == nil {
			select {
			case a = <-answers:
				e.disk.Met(a.err)
				return a, nil
			case <-blocked:
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		select { // an answer may have arrived by now
		case a = <-answers:
			e.disk.Met(a.err)
			return a, nil
		default:
			return a, errors.Join(ErrUnknown, err)
		}
	}
}

// laneOf returns the lane of a command. Large commands use the bulk lane, so that small commands need not wait for them.
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
func (e *Engine) decide(ctx context.Context, cmd job.Command) (applied.Result, Receipt, error) {
	w, err := e.proposeDecided(ctx, laneOf(cmd), cmd)
	if err != nil {
		return nil, Receipt{}, err
	}
	return e.decision(ctx, w)
}

// decideAsLeader is decide for a command that only the leader of the log may propose. Unless this process leads in the
// given term, it proposes nothing and returns ErrNotLeading.
//
// It checks this just before it proposes the command, but leadership may end in between. The command is then stored in a
// later term, or not at all. In a later term it does no harm: a tick sees no time after its AsOf, a grace only extends
// leases, the level never decreases, the loss of a runner covers only claims before it, Apply decides whether a queue is
// idle, and the leader compares the bounds of history again.
func (e *Engine) decideAsLeader(ctx context.Context, term uint64, cmd job.Command) (applied.Result, Receipt, error) {
	w := &waiter{applied: make(chan answer, 1)}
	p, err := newProposal(ctx, laneOf(cmd), cmd, w)
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

// proposeDecided proposes a command that Apply decides. The caller gets the answer from decision.
func (e *Engine) proposeDecided(ctx context.Context, lane journal.Lane, cmd job.Command) (*waiter, error) {
	return e.proposeSettled(ctx, lane, cmd, nil)
}

// proposeSettled is proposeDecided with a function for waiter.settled, which is also called if the proposal fails.
func (e *Engine) proposeSettled(ctx context.Context, lane journal.Lane, cmd job.Command, settled func(applied bool)) (*waiter, error) {
	w := &waiter{applied: make(chan answer, 1), settled: settled}
	p, err := newProposal(ctx, lane, cmd, w)
	if err == nil {
		err = e.propose(ctx, p)
	}
	if err != nil {
		w.settle(false)
	}
	return w, err
}

// decision waits for the answer to a command of proposeDecided.
func (e *Engine) decision(ctx context.Context, w *waiter) (applied.Result, Receipt, error) {
	a, err := e.await(ctx, w.applied)
	if err != nil {
		e.leave(w)
		return nil, Receipt{}, err
	}
	return a.result, a.receipt, a.err
}

// leave gives up a command of proposeDecided whose answer its caller has not received.
func (e *Engine) leave(w *waiter) {
	e.silences.hold(w.claims)
	if w.left.Swap(true) { // already answered, so nobody has released the jobs of the claim
		a := <-w.applied
		e.giveBackLeft(w, a.result)
	}
}

// decideAs is decide for a command whose result has type *T. It fails while the engine does not accept requests.
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
