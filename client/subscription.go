package client

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
)

// SubscribeOptions select the jobs that a stream gets. Credit and Take are required.
type SubscribeOptions struct {
	Clients, Types []string // empty means all
	Strategy       Strategy // which jobs to claim first; "" means Oldest
	LeaseMs        int64    // 0 means the lease that the jobs were created with
	Max            int      // how many jobs one claim has at most; 0 means 1000
	// Credit is how many jobs the runner can hold, up to 10,000. A job counts until an answer in the stream says that
	// it has ended or is lost.
	Credit int
	// Take gets the jobs. The stream reads nothing until Take returns, so Take must not wait for the stream.
	Take func(*Claim)
	// Failed, if not nil, is called when the server cannot claim. The server will try again.
	Failed func(error)
}

// Subscription lets a stream get jobs.
type Subscription struct {
	s *Stream
	n uint64
	o SubscribeOptions
}

// Subscribe starts the delivery of jobs.
func (s *Stream) Subscribe(ctx context.Context, o SubscribeOptions) (*Subscription, error) {
	if o.Take == nil || o.Credit <= 0 {
		return nil, fmt.Errorf("%w: a subscription requires Take and a Credit of at least 1", problem.ErrBadRequest)
	}
	body, err := json.Marshal(struct {
		Clients  []string `json:"clients,omitempty"`
		Types    []string `json:"types,omitempty"`
		Strategy Strategy `json:"strategy,omitzero"`
		LeaseMs  int64    `json:"lease_ms,omitzero"`
		Max      int      `json:"max,omitzero"`
		MaxBytes int64    `json:"max_bytes"`
		Credit   int      `json:"credit"`
	}{o.Clients, o.Types, o.Strategy, o.LeaseMs, o.Max, transport.MaxClaimBytes, o.Credit})
	if err != nil {
		return nil, fmt.Errorf("%w: encode the request: %w", problem.ErrBadRequest, err)
	}
	answers := make(chan streamAnswer, 1)
	u := &Subscription{s: s, o: o}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return nil, transport.ErrNotSent
	}
	u.n = s.add("subscribe", body, nil)
	s.waiting[u.n], s.takers[u.n] = answers, u
	s.write()
	select {
	case a := <-answers:
		if a.problem != nil {
			s.forget(u)
			return nil, a.problem
		}
		return u, nil
	case <-s.done:
		return nil, transport.ErrNotSent
	case <-ctx.Done():
		go s.Abort() // jobs may have been sent already
		return nil, context.Cause(ctx)
	}
}

func (s *Stream) forget(u *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.takers, u.n)
}

// SetCredit changes how many jobs the runner can hold. It does not wait for the server.
func (u *Subscription) SetCredit(n int) {
	u.s.send("credit", fmt.Appendf(nil, `{"subscription":%d,"credit":%d}`, u.n, n))
}

// End ends the subscription. When it returns without an error, no more jobs arrive. The runner still holds the jobs
// that have arrived.
func (u *Subscription) End(ctx context.Context) error {
	err := u.s.ask(ctx, "unsubscribe", struct {
		Subscription uint64 `json:"subscription"`
	}{u.n}, nil)
	if err == nil {
		u.s.forget(u)
	}
	return err
}
