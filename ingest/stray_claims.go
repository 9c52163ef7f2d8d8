package ingest

import (
	"context"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// strayClaims are the claims that were applied for callers who had hung up. Their jobs are to be returned.
type strayClaims struct {
	mu     sync.Mutex
	ids    []job.ID
	filled chan struct{} // capacity 1: there is something in ids
}

func newStrayClaims() *strayClaims { return &strayClaims{filled: make(chan struct{}, 1)} }

func (s *strayClaims) add(id job.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, id)
	signal(s.filled)
}

// take returns all that were added since the last call.
func (s *strayClaims) take() []job.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.ids
	s.ids = nil
	return ids
}

// giveBack has the jobs returned that were handed to a caller who had hung up.
func (e *Engine) giveBack(result store.Result) {
	c, ok := result.(*store.Claimed)
	if !ok || len(c.Runs) == 0 || c.Keyed { // a caller with a key may repeat the claim
		return
	}
	e.strays.add(c.Claim)
}

// ungetStrays proposes to return the jobs of stray claims, until ctx is done.
func (e *Engine) ungetStrays(ctx context.Context) {
	for {
		select {
		case <-e.strays.filled:
		case <-ctx.Done():
			return
		}
		for _, id := range e.strays.take() {
			e.unget(ctx, id)
		}
	}
}

// unget returns the jobs of a claim that nobody got.
func (e *Engine) unget(ctx context.Context, id job.ID) {
	cmd := job.Complete{Claim: id, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
	if _, _, err := e.decide(ctx, cmd); err != nil && ctx.Err() == nil {
		e.logger.Warn("cannot return the jobs of a claim that was not answered; they are free when its lease ends", "claim_id", id.String(), "error", err)
	}
}
