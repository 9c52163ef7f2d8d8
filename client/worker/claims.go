package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/backoff"
)

// claimState is the state of the worker's claims. running.mu guards it.
//
// The worker claims in advance: while handlers run, requests fetch the jobs that they begin next. The faster the
// handlers are, the more jobs it claims. At first it sends one claim at a time. When a claim returns as many jobs as
// requested, it sends up to two at a time, then four, and so on. When a claim returns no job, it falls back to one. One
// of the outstanding claims waits for jobs at the server; all others return at once.
type claimState struct {
	underWay int  // outstanding claims
	waits    bool // one of them waits for jobs at the server
	asked    int  // the most jobs that they may return
	atOnce   int  // the limit of underWay
	most     int  // how many jobs to request: Batch, unless an answer was too large
	failures int  // failed claims since the last success
	// noAheadUntil is when jobs may be claimed in advance again.
	noAheadUntil time.Time
	roundTrip    time.Duration // moving average of requests that do not wait at the server
}

const (
	// maxClaims bounds the outstanding claims. Otherwise a worker with many handlers and small batches would open one
	// connection per handler.
	maxClaims = 64
	// maxAheadBatches bounds how many batches are claimed in advance without Prefetch.
	maxAheadBatches = 8
	// maxAheadStreamed bounds the jobs in advance for each handler of a worker with a stream, whose claims cost it
	// nothing.
	maxAheadStreamed = 32
	// firstRoundTrip is assumed until a round trip has been measured. minRoundTrip and maxRoundTrip bound the measured
	// values.
	firstRoundTrip, minRoundTrip, maxRoundTrip = 5 * time.Millisecond, 2 * time.Millisecond, 250 * time.Millisecond
	// minUnreported is how many ended jobs may wait for their reports, even if the worker may hold fewer jobs than
	// that. At the limit the worker claims no more: while the server accepts no reports, more claims make no sense.
	minUnreported = 16
)

// ahead returns how many jobs the worker may hold beyond those that run. running.mu is held.
func (r *running) ahead() int {
	if !r.claims.noAheadUntil.IsZero() {
		if time.Now().Before(r.claims.noAheadUntil) {
			return 0
		}
		r.claims.noAheadUntil = time.Time{}
	}
	if r.Prefetch < 0 || r.jobs.meanTook < 0 {
		return max(r.Prefetch, 0)
	}
	// Jobs that the handlers will begin within two round trips are claimed now, so that they arrive in time.
	soon := float64(r.atOnce()) * float64(2*r.claims.roundTrip) / float64(max(r.jobs.meanTook, 1))
	most := maxAheadBatches * r.Batch
	if r.stream.sub != nil { // the size of the batches is up to the server
		most = max(most, maxAheadStreamed*r.Concurrency)
	}
	return max(r.Prefetch, int(min(soon, float64(most))))
}

// atOnce returns how many handlers may have a job now.
func (r *running) atOnce() int {
	if r.Room == nil {
		return r.Concurrency
	}
	return min(r.Concurrency, max(r.Room(), 1))
}

// claimMore sends claims as far as there is room for jobs. running.mu is held.
func (r *running) claimMore() {
	switch {
	case r.stream.opening:
		return
	case r.stream.sub != nil:
		r.setCredit()
		return
	}
	s := &r.claims
	for r.ctx.stopping.Err() == nil && s.underWay < s.atOnce {
		may := r.atOnce() + r.ahead()
		room := min(may-r.jobs.held, max(may, minUnreported)-r.jobs.unreported) - s.asked
		// A claim for a few jobs costs as much as one for many. It is sent only if handlers have nothing else to begin.
		useful := max(min(r.Batch, may/2), 1)
		if room <= 0 || room < useful && (s.asked > 0 || len(r.jobs.queue) > 0) {
			return
		}
		n := min(room, s.most)
		wait := time.Duration(0)
		if !s.waits {
			s.waits, wait = true, r.Wait
		}
		s.underWay++
		s.asked += n
		r.underWay.claims.Go(func() { r.claim(n, wait) })
	}
}

// claim claims up to n jobs. After a failure it delays the next claim, longer each time.
func (r *running) claim(n int, wait time.Duration) {
	got, sent, err := r.claimOnce(n, wait)
	took := time.Since(sent)
	var back []*task
	if err == nil && got != nil {
		r.OnEvent(Event{Claim: got.ID, Jobs: len(got.Jobs), Took: took})
		back = r.take(got, sent)
	}

	r.mu.Lock()
	s := &r.claims
	pause := time.Duration(0)
	switch {
	case err == nil:
		s.failures = 0
		s.most = min(2*s.most, r.Batch)
		switch {
		case got == nil:
			s.atOnce = 1
		case len(got.Jobs) >= n:
			s.atOnce = min(2*s.atOnce, maxClaims)
		}
		if wait == 0 {
			r.measured(took)
		}
	case r.ctx.stopping.Err() != nil:
	case refusedForGood(err):
		r.problems.refuse(fmt.Errorf("claim: %w", err))
		r.stop()
	default:
		if errors.Is(err, client.ErrAnswerTooLarge) {
			// The limit on payload bytes of a claim does not count histories and outputs. Half as many jobs have about
			// half of them. One job always fits.
			s.most = max(n/2, 1)
		}
		s.atOnce = 1
		pause = backoff.Wait(s.failures)
		s.failures++
		r.Logger.Warn("cannot claim; will retry", "after", pause, "error", err)
	}
	r.mu.Unlock()
	if pause > 0 {
		backoff.Sleep(r.ctx.stopping, pause)
	}

	r.mu.Lock()
	s.underWay--
	s.asked -= n
	if wait > 0 {
		s.waits = false
	}
	r.claimMore()
	r.mu.Unlock()
	r.giveBackAll(back)
}

// claimOnce sends one claim for up to jobs jobs. If the worker stops before the answer, the claim is aborted after lastAnswer, or after
// lastClaim if it waits for jobs at the server.
func (r *running) claimOnce(jobs int, wait time.Duration) (got *client.Claim, sent time.Time, err error) {
	q := client.ClaimRequest{
		RunnerID: r.RunnerID, Max: jobs, Clients: r.Clients, Types: r.Types, LeaseMs: r.Lease.Milliseconds(), Wait: wait,
		Strategy: r.Strategy,
	}
	if r.BeginLater {
		q.Begins = new(int)
	}
	ctx, cancel := context.WithCancel(r.ctx.requests)
	defer cancel()
	defer context.AfterFunc(r.ctx.stopping, func() {
		last := lastAnswer
		if wait > 0 {
			last = r.patience(lastClaim)
		}
		backoff.Sleep(ctx, last)
		cancel()
	})()
	sent = time.Now()
	n, err := r.session.begin(ctx, r.Client)
	if err != nil {
		return nil, sent, err
	}
	defer n.end()
	sent = time.Now()
	claim := func(ctx context.Context, c *client.Client) error {
		return n.send(ctx, c, func(c *client.Client) (err error) {
			got, err = c.Claim(ctx, q)
			return err
		})
	}
	err = claim(ctx, r.Client)
	if err != nil && r.ctx.stopping.Err() != nil {
		// The claim may have got jobs, which would be idle until the end of their lease. A repeat returns them, so that
		// the worker can return them to their queues. If the claim got none, the repeat waits and is aborted as well.
		patience := r.patience(lastRepeat)
		last, cancel := context.WithTimeout(r.ctx.requests, patience)
		defer cancel()
		sent = time.Now()
		err = claim(last, once(r.Client, patience))
	}
	if got != nil && len(got.Jobs) == 0 {
		got = nil
	}
	return got, sent, err
}

// patience returns how long to wait for a claim: least, or longer on a slow machine or network.
func (r *running) patience(least time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return least + 8*r.claims.roundTrip
}

// measured adds the duration of a request to the average. running.mu is held.
func (r *running) measured(took time.Duration) {
	took = min(max(took, minRoundTrip), maxRoundTrip)
	r.claims.roundTrip += (took - r.claims.roundTrip) / 8
}

// refusedForGood reports whether a claim that failed with err would always fail.
func refusedForGood(err error) bool {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return errors.Is(err, client.ErrBadRequest) // the claim cannot be sent at all
	}
	return refused.Status >= 400 && refused.Status < 500 && refused.Status != http.StatusRequestTimeout && refused.Status != http.StatusTooManyRequests
}
