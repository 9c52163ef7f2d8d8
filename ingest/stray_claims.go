package ingest

import (
	"context"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// strayClaims are the claims whose callers gave up before they were applied. The engine must release their jobs.
type strayClaims struct {
	filled chan struct{} // capacity 1; has a value when list may not be empty

	mu   sync.Mutex // guards list
	list []strayClaim
}

type strayClaim struct {
	id job.ID
	of *runnerClaims // counts the claim until its jobs are released
}

func newStrayClaims() *strayClaims { return &strayClaims{filled: make(chan struct{}, 1)} }

func (s *strayClaims) add(c strayClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, c)
	signal(s.filled)
}

// take returns the claims that were added since the last call.
func (s *strayClaims) take() []strayClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

// giveBack records a claim whose caller gave up, so that ungetStrays releases its jobs. The caller still counts it in of.
func (e *Engine) giveBack(result applied.Result, of *runnerClaims) {
	c, ok := result.(*applied.Claimed)
	if !ok || len(c.Runs) == 0 || c.Keyed { // with a key, the caller may repeat the claim and get these jobs
		return
	}
	e.silences.hold(of)
	e.strays.add(strayClaim{c.Claim, of})
}

// giveBackLeft is giveBack for a command that its caller has left. leave has counted it.
func (e *Engine) giveBackLeft(w *waiter, result applied.Result) {
	e.giveBack(result, w.claims)
	e.silences.answer(w.claims)
}

// ungetStrays releases the jobs of stray claims, until ctx is done.
func (e *Engine) ungetStrays(ctx context.Context) {
	for {
		select {
		case <-e.strays.filled:
		case <-ctx.Done():
			return
		}
		for _, c := range e.strays.take() {
			e.unget(ctx, c.id)
			e.silences.answer(c.of)
		}
	}
}

// unget releases the jobs of a claim.
func (e *Engine) unget(ctx context.Context, id job.ID) {
	cmd := job.Complete{Claim: id, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
	if _, _, err := e.decide(ctx, cmd); err != nil && ctx.Err() == nil {
		e.logger.Warn("cannot release the jobs of a claim whose caller has gone; they can be claimed again when its lease ends", "claim_id", id.String(), "error", err)
	}
}
