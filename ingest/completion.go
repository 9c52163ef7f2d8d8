package ingest

import (
	"context"
	"errors"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// maxOutcomesAhead bounds the outcomes of one request that are proposed and not applied yet. The applier takes commands
// in the order of the log: without a bound the claims of others would wait for all of a long request.
const maxOutcomesAhead = 1000

// Complete ends runs; see job.Complete.
func (e *Engine) Complete(ctx context.Context, c job.Complete) (store.Ended, Receipt, error) {
	ended, receipt, err := e.CompleteInOrder(ctx, []job.Complete{c})
	if err != nil {
		return store.Ended{}, Receipt{}, err
	}
	return ended[0], receipt, nil
}

// CompleteInOrder carries out several completions: a runner reports the jobs of many claims in one request, and each
// claim is a command. Later ones are proposed before earlier ones are applied, so that they share fsyncs. It returns
// the results of those before the first failure, and the receipt of the last of these. It is then unknown whether later
// ones were carried out.
//
// Completions with a key or number are all of one request, which has that key or number. A repeat of the request
// returns the first results. The refusal of a key or number is an error; see store.Made.
func (e *Engine) CompleteInOrder(ctx context.Context, commands []job.Complete) (ended []store.Ended, last Receipt, err error) {
	if err := e.accepting(); err != nil {
		return nil, Receipt{}, err
	}
	if len(commands) > 0 && commands[0].Once.Given() {
		o := &commands[0].Once
		end, err := e.underWay.begin(ctx, o)
		if err != nil {
			return nil, Receipt{}, err
		}
		defer end()
		if !o.Numbered() { // a repeated number costs a record; to look for it before each request would cost more
			if ended, last, err := e.completedBefore(ctx, commands); err != nil || ended != nil {
				return ended, last, err
			}
		}
		if err := e.mayRemember(o); err != nil {
			return nil, Receipt{}, err
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

// laneOfAll returns the lane for the commands of a request: they keep their order only in one lane.
func laneOfAll(commands []job.Complete) journal.Lane {
	for _, c := range commands {
		if laneOf(c) == journal.Bulk {
			return journal.Bulk
		}
	}
	return journal.Control
}

// completions are the commands of a request on their way through the log.
type completions struct {
	e    *Engine
	ctx  context.Context
	lane journal.Lane

	proposed []proposedCompletion // and not applied yet, as far as is known here
	ahead    int                  // outcomes of these

	ended []store.Ended
	last  Receipt
}

type proposedCompletion struct {
	w        *waiter
	outcomes int
}

// propose proposes a command. It first waits for earlier ones while these have too many outcomes. If it cannot propose
// the command, it waits for all earlier ones.
func (q *completions) propose(c *job.Complete) error {
	p := proposedCompletion{outcomes: max(len(c.Outcomes), 1)}
	for len(q.proposed) > 0 && q.ahead+p.outcomes > maxOutcomesAhead {
		if err := q.next(); err != nil {
			return err
		}
	}
	err := error(ErrDiskFull)
	if !q.e.disk.low.Load() || !bulky(c) {
		p.w, err = q.e.proposeDecided(q.ctx, q.lane, *c)
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

// next waits for the result of the first command that was proposed.
func (q *completions) next() error {
	p := q.proposed[0]
	q.proposed, q.ahead = q.proposed[1:], q.ahead-p.outcomes
	result, receipt, err := q.e.decision(q.ctx, p.w)
	if err != nil {
		if len(q.proposed) > 0 {
			err = errors.Join(ErrUnknown, err) // those after it may be carried out
		}
		return err
	}
	ended := result.(*store.Ended)
	if ended.Denied != job.Granted {
		return ended.Denied
	}
	if ended.Replayed {
		receipt = Receipt{Seq: ended.Seq, At: ended.At}
	}
	q.ended, q.last = append(q.ended, *ended), receipt
	return nil
}
