package ingest

import (
	"context"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// Exchange is one request that completes jobs and then claims jobs. The engine proposes the claim together with the
// completions, so that one group of the log can have both. The log keeps their order, and Apply decides about the claim
// after the completions.
//
// The caller calls Ended, then Claimed unless Ended returned an error, and finally Close.
type Exchange struct {
	inTurn *exchangeInTurn // if not nil, the claim is proposed after the completions are answered, and the fields below are unused

	claim    claimRequest
	end      func() // of underWay
	ends     completions
	failed   error   // why some completions were not proposed
	claiming *waiter // of the claim, if it was proposed with the completions
	refused  error   // why the claim could not be proposed
	closed   bool    // the claim is answered, or given up
}

// exchangeInTurn is an exchange whose claim is proposed after the completions are answered.
type exchangeInTurn struct {
	Exchanger
	commands []job.Complete
	claim    job.Claim
}

// Exchanger completes jobs and claims jobs, as *Engine does.
type Exchanger interface {
	CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, Receipt, error)
	ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, Receipt, error)
}

// InTurn returns an exchange whose claim is proposed after the completions are answered.
func InTurn(e Exchanger, commands []job.Complete, c job.Claim) *Exchange {
	return &Exchange{inTurn: &exchangeInTurn{e, commands, c}}
}

// Exchange proposes completions, like CompleteInOrder, and then a claim, like ClaimAdmitted. If they have a key or
// number, both have the same one.
func (e *Engine) Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*Exchange, error) {
	if err := e.accepting(); err != nil {
		return nil, err
	}
	// An earlier request with the same key must be looked up before anything is proposed. A number must be looked up if
	// there is no room to keep the results. Commands of different lanes are not ordered.
	if len(commands) == 0 || c.Once.Given() && (!c.Once.Numbered() || e.mayRemember(ctx, &c.Once) != nil) || laneOfAll(commands) == journal.Bulk {
		return InTurn(e, commands, c), nil
	}
	if err := narrow(ctx, &c); err != nil {
		return nil, err
	}
	if err := permitted(ctx, commands); err != nil {
		return nil, err
	}
	x := &Exchange{claim: claimRequest{e: e, cmd: c, lookedUp: !c.Once.Given()}, end: func() {}}
	if c.Once.Given() {
		end, err := e.beginOnce(ctx, &c.Once)
		if err != nil {
			return nil, err
		}
		x.end = end
	}
	x.claim.group = e.silences.begin(c.Runner)
	x.ends = completions{e: e, ctx: ctx, lane: journal.Control}
	// If no job can be claimed now, the completions may change that. The claim's proposal is made first, because
	// otherwise the log could write the completions before it is ready.
	var p *journal.Proposal
	var w *waiter
	o, found := e.parked.find(&c)
	if found && !o.early {
		w, p, x.refused = x.claim.proposal(ctx, o)
	}
	for i := range commands {
		if x.failed = x.ends.propose(&commands[i]); x.failed != nil {
			break
		}
	}
	if p != nil && x.failed == nil && x.refused == nil {
		if x.refused = e.propose(ctx, p); x.refused == nil {
			x.claiming = w
		}
	}
	if x.claiming == nil {
		e.parked.end(o)
	}
	return x, nil
}

// Ended returns the results of the completions; see CompleteInOrder. If it fails, the jobs that the claim got are
// released, unless a repeat of the request may get them.
func (x *Exchange) Ended(ctx context.Context) (ended []applied.Ended, last Receipt, err error) {
	if t := x.inTurn; t != nil {
		return t.CompleteInOrder(ctx, t.commands)
	}
	err = x.failed
	for err == nil && len(x.ends.proposed) > 0 {
		err = x.ends.next()
	}
	if err != nil {
		x.Close()
	}
	return x.ends.ended, x.ends.last, err
}

// Claimed returns the answer to the claim; see ClaimAdmitted.
func (x *Exchange) Claimed(ctx context.Context, wait time.Duration, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, Receipt, error) {
	if t := x.inTurn; t != nil {
		return t.ClaimAdmitted(ctx, t.claim, wait, admit)
	}
	defer x.answered()
	x.claim.admit = admit
	if x.refused != nil {
		return applied.Claimed{}, nil, Receipt{}, x.refused
	}
	a, err := x.claim.take(ctx, wait, x.claiming)
	return a.claimed, a.handed, a.receipt, err
}

// answered marks the claim as answered.
func (x *Exchange) answered() {
	x.closed = true
	x.claim.e.silences.answer(x.claim.group)
	x.end()
}

// Close gives up an unanswered claim, because the request failed in between. The claim's jobs are released, unless a
// repeat of the request may get them.
func (x *Exchange) Close() {
	if x.inTurn != nil || x.closed {
		return
	}
	if x.claiming != nil {
		x.ends.e.leave(x.claiming)
	}
	x.answered()
}
