package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/backoff"
)

// streamState is the state of the worker's stream. running.mu guards it.
//
// While the server offers a stream, the worker gets its jobs, tickles and reports in it. Otherwise, and while the
// stream is interrupted, it uses HTTP requests. If the server offers none, the worker tries again every minute.
type streamState struct {
	opening bool                 // the first stream is being opened; until then no claims are sent
	sub     *client.Subscription // nil: the worker is without a stream
	credit  int                  // the credit that the server should know
	changed chan struct{}        // capacity 1; signals that credit has changed; needs no lock
}

const (
	// streamLinger is how long the server keeps the worker's jobs when their connection breaks, unless the worker uses
	// them before. It is long enough for a restart of the server. The jobs of a worker that was killed wait as long, or
	// until shortly before their leases end.
	streamLinger = 30 * time.Second
	// maxLeaseMargin is how long before the end of a lease the server returns lingering jobs; for a short lease it is a
	// quarter.
	maxLeaseMargin = 2 * time.Second
	// shortStream is how long a stream must have been open for the next one to be opened at once.
	shortStream = time.Second
	// withoutStreams is how long the worker sends HTTP requests until it tries to open a stream again.
	withoutStreams = time.Minute
	// maxCredit is the server's bound.
	maxCredit = 10_000
)

// keepStream keeps a stream open until the worker stops.
func (r *running) keepStream() {
	resume := ""
	for attempt := 0; r.ctx.stopping.Err() == nil; attempt++ {
		s, err := r.openStream(resume)
		if err == nil {
			began := time.Now()
			resume = s.ID
			r.serveStream(s)
			if time.Since(began) >= shortStream {
				attempt = 0
				continue
			}
			if err = s.Err(); attempt == 0 || r.ctx.stopping.Err() != nil {
				continue
			}
		}
		r.noStream()
		wait := backoff.Wait(attempt)
		if errors.Is(err, client.ErrNoStreams) {
			wait = withoutStreams
		}
		r.Logger.Debug("the worker has no stream and sends requests", "for", wait, "error", err)
		backoff.Sleep(r.ctx.stopping, wait)
	}
}

// openStream opens a stream that continues an earlier one, and subscribes to the worker's jobs.
func (r *running) openStream(resume string) (*client.Stream, error) {
	// When the worker stops before the answers, they will arrive soon, unless the server is down. Jobs may follow them,
	// which the worker must return to their queues.
	ctx, cancel := context.WithCancel(r.ctx.requests)
	defer cancel()
	defer context.AfterFunc(r.ctx.stopping, func() {
		backoff.Sleep(ctx, lastAnswer)
		cancel()
	})()
	s, err := r.Client.OpenStream(ctx, client.StreamOptions{RunnerID: r.RunnerID, Linger: streamLinger, Resume: resume, Claims: r.openClaims()})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.tickleAll() // claims that the stream has not taken over may be lost; all others need a tickle to keep their lease
	credit := r.credit()
	r.mu.Unlock()
	r.begins.Store(s) // the first jobs may begin before Subscribe returns
	r.announceAgain(s)
	sub, err := s.Subscribe(ctx, client.SubscribeOptions{
		Clients: r.Clients, Types: r.Types, Strategy: r.Strategy, LeaseMs: r.Lease.Milliseconds(), Credit: credit,
		Take: r.takePushed, Failed: func(err error) { r.Logger.Warn("the server cannot claim; it will retry", "error", err) },
	})
	if err != nil {
		s.Abort() // the stream has taken over the jobs that run
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	r.mu.Lock()
	r.stream.opening, r.stream.sub, r.stream.credit = false, sub, credit
	r.mu.Unlock()
	r.current.Store(s)
	return s, nil
}

// openClaims returns the claims with jobs that are not reported.
func (r *running) openClaims() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.leases.claims {
		if len(ids) < maxCredit {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// serveStream keeps the credit of the stream equal to the number of jobs that the worker can hold, until the stream
// ends or the worker stops. When the worker stops, the stream stays open for reports.
func (r *running) serveStream(s *client.Stream) {
	defer func() {
		r.mu.Lock()
		sub := r.stream.sub
		r.stream.sub, r.stream.opening = nil, true // until the next attempt has failed
		r.mu.Unlock()
		if r.ctx.stopping.Err() == nil {
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx.requests, lastAnswer)
		defer cancel()
		if err := sub.End(ctx); err != nil {
			s.Abort() // so that no jobs arrive; some may still run
		}
	}()
	for {
		select {
		case <-s.Done():
			r.current.CompareAndSwap(s, nil)
			r.streamLost(s)
			r.Logger.Debug("the worker's stream has ended", "error", s.Err())
			return
		case <-r.ctx.stopping.Done():
			return
		case <-r.stream.changed:
		}
		r.mu.Lock()
		sub, credit := r.stream.sub, r.stream.credit
		r.mu.Unlock()
		sub.SetCredit(credit)
	}
}

// streamLost bounds the leases of the worker's claims: the server returns their jobs when they have lingered, or
// shortly before their leases end, unless it gets a tickle before. So the worker tickles at once. The server counts
// from the moment at which it notices the end of the connection, which is later than the last message that the worker
// received.
func (r *running) streamLost(s *client.Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := s.Heard().Add(streamLinger)
	for c := range r.leases.claims {
		for _, at := range []time.Time{last, c.leaseEnd.Add(-min(c.lease/4, maxLeaseMargin))} {
			if at.Before(c.endsAt) {
				c.endsAt = at
			}
		}
	}
	r.tickleAll()
}

// tickleAll makes all claims be tickled now. running.mu is held.
func (r *running) tickleAll() {
	now := time.Now()
	for c := range r.leases.claims {
		c.tickleAt = now
		r.lookAt(now)
	}
}

// noStream makes the worker claim by HTTP requests.
func (r *running) noStream() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream.opening = false
	r.claimMore()
}

// calls returns the client for tickles and reports: they use the stream while there is one.
func (r *running) calls() *client.Client {
	if s := r.current.Load(); s != nil {
		return s.Client()
	}
	return r.Client
}

// takePushed adds jobs that the stream has sent.
func (r *running) takePushed(got *client.Claim) {
	// The user's OnEvent must not delay the stream.
	r.underWay.claims.Go(func() { r.OnEvent(Event{Claim: got.ID, Jobs: len(got.Jobs)}) })
	// The server has stamped the claim at some earlier time. So its lease is counted from its arrival, less a tenth.
	unknown := got.Received.Add(-time.Duration(got.LeaseMs) * time.Millisecond)
	r.giveBackAll(r.take(got, unknown))
}

// credit returns how many jobs the server may count as held by the worker: jobs that run, jobs in advance, and jobs
// whose reports are outstanding, minus the jobs that outstanding HTTP claims may return. running.mu is held.
func (r *running) credit() int {
	may := r.atOnce() + r.ahead()
	return max(0, min(may+min(r.jobs.unreported, may)-r.claims.asked, maxCredit))
}

// setCredit sets the credit again if it has changed by a notable amount. running.mu is held.
func (r *running) setCredit() {
	s := &r.stream
	want := r.credit()
	if d := want - s.credit; want == s.credit || max(d, -d) < s.credit/8 && want > r.atOnce() {
		return
	}
	s.credit = want
	signal(s.changed)
}
