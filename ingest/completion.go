package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// maxOutcomesAhead bounds the outcomes of one request that are proposed but not applied yet. The applier applies commands
// in log order, so without a bound other claims would wait for all outcomes of a long request.
const maxOutcomesAhead = 1000

const (
	// largeCompletion is the size in bytes above which a completion takes a share of largeInFlight.
	largeCompletion = 64 << 10
	// largeInFlight bounds the bytes of large completions, over all requests, from before they are proposed until they
	// are applied. The log and the applier process commands in order, so other requests wait for at most this many bytes
	// of outputs, however many clients send outputs. A request has at most this many bytes. With twice the bound, claims
	// beside sixty such clients took ten times as long in the median (BenchmarkClaimsBesideOutputs).
	largeInFlight = 8 << 20
)

// textBytes returns the approximate length of the text of a completion.
func textBytes(c *job.Complete) int64 {
	const perOutcome = 128 // its id and code
	n := perOutcome + resultBytes(c.All)
	for i := range c.Outcomes {
		n += perOutcome + resultBytes(&c.Outcomes[i])
	}
	return int64(n)
}

// largeOutput is the size, of outputs and error texts together, at which a completion counts as bulk.
const largeOutput = 64 << 10

// bulky reports whether the outputs and error texts of a completion are large enough to refuse it while disk space is
// low.
func bulky(c *job.Complete) bool {
	n := resultBytes(c.All)
	for i := range c.Outcomes {
		n += resultBytes(&c.Outcomes[i])
	}
	return n >= largeOutput
}

func resultBytes(o *job.Outcome) int {
	if o == nil {
		return 0
	}
	n := len(o.Output) + len(o.Error)
	if o.Then != nil {
		n += len(o.Then.Payloads)
	}
	return n
}

// Complete ends runs of jobs; see job.Complete.
func (e *Engine) Complete(ctx context.Context, c job.Complete) (applied.Ended, Receipt, error) {
	ended, receipt, err := e.CompleteInOrder(ctx, []job.Complete{c})
	if err != nil {
		return applied.Ended{}, Receipt{}, err
	}
	return ended[0], receipt, nil
}

// CompleteInOrder carries out the completions of one request in order. A runner may report the jobs of many claims in one
// request, and each claim is a command. CompleteInOrder proposes later commands before earlier ones are applied, so that
// they share fsyncs.
//
// If a command fails, CompleteInOrder returns the results of the commands before it, and the receipt of the last of
// these. Later commands may or may not be carried out.
//
// If the commands have a key or number, it belongs to the whole request. A repeat of the request returns the first
// results. If the key or number is refused, CompleteInOrder returns the refusal as an error; see store.Made.
func (e *Engine) CompleteInOrder(ctx context.Context, commands []job.Complete) (ended []applied.Ended, last Receipt, err error) {
	if err := e.accepting(); err != nil {
		return nil, Receipt{}, err
	}
	if err := permitted(ctx, commands); err != nil {
		return nil, Receipt{}, err
	}
	if len(commands) > 0 && commands[0].Once.Given() {
		o := &commands[0].Once
		end, err := e.beginOnce(ctx, o)
		if err != nil {
			return nil, Receipt{}, err
		}
		defer end()
		refused := e.mayRemember(ctx, o)
		if !o.Numbered() || refused != nil { // Apply detects a repeated number; looking it up before each request would cost more
			if ended, last, err := e.completedBefore(ctx, commands); err != nil || ended != nil {
				return ended, last, err
			}
		}
		if refused != nil {
			return nil, Receipt{}, refused
		}
	}
	q := completions{e: e, ctx: ctx, lane: laneOfAll(commands)}
	for i := range commands {
		if err := q.propose(&commands[i]); err != nil {
			return q.ended, q.last, err
		}
	}
	for len(q.proposed) > 0 {
		if err := q.next(); err != nil {
			return q.ended, q.last, err
		}
	}
	return q.ended, q.last, nil
}

// permitted returns a job.ErrOutOfScope if the key of a context is not for one of the completions.
func permitted(ctx context.Context, commands []job.Complete) error {
	key := job.KeyOf(ctx)
	if key == nil {
		return nil
	}
	for i := range commands {
		if err := key.Permits(commands[i]); err != nil {
			return err
		}
	}
	return nil
}

// laneOfAll returns one lane for all commands of a request, because commands only keep their order within a lane.
func laneOfAll(commands []job.Complete) journal.Lane {
	for _, c := range commands {
		if laneOf(c) == journal.Bulk {
			return journal.Bulk
		}
	}
	return journal.Control
}

// completions is the state of one request that completes jobs.
type completions struct {
	e    *Engine
	ctx  context.Context
	lane journal.Lane

	proposed []proposedCompletion // commands whose results next has not received yet
	ahead    int                  // number of their outcomes

	ended []applied.Ended // results so far
	last  Receipt         // of the last result
}

type proposedCompletion struct {
	w        *waiter
	outcomes int
}

// propose proposes a command. If the commands before it have too many outcomes, it first waits for their results. If it
// cannot propose the command, it waits for the results of all earlier commands.
func (q *completions) propose(c *job.Complete) error {
	p := proposedCompletion{outcomes: max(len(c.Outcomes), 1)}
	for len(q.proposed) > 0 && q.ahead+p.outcomes > maxOutcomesAhead {
		if err := q.next(); err != nil {
			return err
		}
	}
	var made *newQueues
	err := error(ErrDiskFull)
	if !q.e.disk.Low() || !bulky(c) {
		made, err = q.e.mayChain(c)
	}
	if err == nil {
		p.w, err = q.e.proposeCompletion(q.ctx, q.lane, c, made.settled)
	}
	if err != nil {
		for len(q.proposed) > 0 {
			if failed := q.next(); failed != nil {
				return failed
			}
		}
		return err
	}
	q.proposed, q.ahead = append(q.proposed, p), q.ahead+p.outcomes
	return nil
}

// proposeCompletion is proposeDecided for a completion. If the completion is large, it first waits for a share of
// largeInFlight.
func (e *Engine) proposeCompletion(ctx context.Context, lane journal.Lane, c *job.Complete, settled func(bool)) (*waiter, error) {
	n := textBytes(c)
	if n <= largeCompletion {
		return e.proposeSettled(ctx, lane, *c, settled)
	}
	n = min(n, largeInFlight)
	if err := e.large.Acquire(ctx, n); err != nil {
		settled(false)
		return nil, fmt.Errorf("propose complete: %w", err)
	}
	w := &waiter{applied: make(chan answer, 1), settled: settled, release: func() { e.large.Release(n) }}
	p, err := newProposal(ctx, lane, *c, w)
	if err == nil {
		err = e.propose(ctx, p)
	}
	if err != nil {
		w.settle(false)
		w.release()
	}
	return w, err
}

// next waits for the result of the oldest proposed command.
func (q *completions) next() error {
	p := q.proposed[0]
	q.proposed, q.ahead = q.proposed[1:], q.ahead-p.outcomes
	result, receipt, err := q.e.decision(q.ctx, p.w)
	if err != nil {
		if len(q.proposed) > 0 {
			err = errors.Join(ErrUnknown, err) // later commands may still be carried out
		}
		return err
	}
	ended := result.(*applied.Ended)
	if ended.Denied != job.Granted {
		return ended.Denied
	}
	if ended.Replayed {
		receipt = Receipt{Seq: ended.Seq, At: ended.At}
	}
	q.ended, q.last = append(q.ended, *ended), receipt
	return nil
}
