package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// claimState is what the worker knows about its claims. running.mu guards it.
//
// The worker claims ahead: while handlers run, requests bring the jobs that they begin next. How many depends on how
// fast the handlers are. It makes one claim at a time until one returns all that it requested, then two, then four;
// when one returns nothing it is one again. Of the claims under way one waits for jobs at the server, and the others
// return at once.
type claimState struct {
	underWay int  // claims
	waits    bool // one of them waits at the server
	asked    int  // jobs that they may return
	atOnce   int  // how many claims may be under way
	most     int  // jobs to request: Batch, unless an answer was too large
	failures int  // since the last success
	// noAheadUntil is when jobs may be claimed ahead again.
	noAheadUntil time.Time
	roundTrip    time.Duration // a moving average, of requests that do not wait
}

const (
	// maxClaims bounds the claims under way: a worker with many handlers and small batches would otherwise open a
	// connection per handler.
	maxClaims = 64
	// maxAheadBatches bounds what is claimed ahead without Prefetch.
	maxAheadBatches = 8
	// firstRoundTrip is assumed until one was measured, and minRoundTrip and maxRoundTrip bound what is measured.
	firstRoundTrip, minRoundTrip, maxRoundTrip = 5 * time.Millisecond, 2 * time.Millisecond, 250 * time.Millisecond
	// minUnreported is how many jobs may be unreported however few the worker may hold. It claims no more then: a
	// server that cannot take reports must not claim more.
	minUnreported = 16
)

// ahead returns how many jobs the worker holds beyond those that run. running.mu is held.
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
	// What the handlers begin within two round trips arrives in time if it is claimed now.
	soon := float64(r.Concurrency) * float64(2*r.claims.roundTrip) / float64(max(r.jobs.meanTook, 1))
	return max(r.Prefetch, int(min(soon, float64(maxAheadBatches*r.Batch))))
}

// claimMore begins the claims for which there is room. running.mu is held.
func (r *running) claimMore() {
	s := &r.claims
	for r.ctx.stopping.Err() == nil && s.underWay < s.atOnce {
		may := r.Concurrency + r.ahead()
		room := min(may-r.jobs.held, max(may, minUnreported)-r.jobs.unreported) - s.asked
		// A claim for a few jobs costs as much as one for many. It is worth it only when handlers wait for it.
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

// claim claims up to n jobs. After a failure it waits, longer each time, before its place is free for another.
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
		if errors.Is(err, errAnswerTooLarge) {
			// Histories and outputs do not count in what a claim may hand out. Half as many jobs have half of them; one
			// always fits.
			s.most = max(n/2, 1)
		}
		s.atOnce = 1
		pause = backoff(s.failures)
		s.failures++
		r.Logger.Warn("cannot claim; trying again", "after", pause, "error", err)
	}
	r.mu.Unlock()
	if pause > 0 {
		sleep(r.ctx.stopping, pause)
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

// claimOnce makes one claim. When the worker stops meanwhile it is broken off: soon, if it waits for jobs at the
// server.
func (r *running) claimOnce(n int, wait time.Duration) (got *Claim, sent time.Time, err error) {
	q := ClaimRequest{
		RunnerID: r.RunnerID, Max: n, Clients: r.Clients, Types: r.Types, LeaseMs: r.Lease.Milliseconds(), Wait: wait,
		Strategy: r.Strategy,
	}
	ctx, cancel := context.WithCancel(r.ctx.requests)
	defer cancel()
	defer context.AfterFunc(r.ctx.stopping, func() {
		last := lastAnswer
		if wait > 0 {
			last = r.patience(lastClaim)
		}
		sleep(ctx, last)
		cancel()
	})()
	sent = time.Now()
	if q.number, err = r.session.take(ctx, r.Client); err != nil {
		return nil, sent, err
	}
	defer r.session.give(q.number)
	sent = time.Now()
	got, err = r.Client.Claim(ctx, q)
	if err != nil && r.ctx.stopping.Err() != nil {
		// What it handed out all the same would wait for its lease to end. Repeated, it returns those jobs, to be given
		// back; if it handed out none it waits, and is broken off again.
		patience := r.patience(lastRepeat)
		once, cancel := context.WithTimeout(r.ctx.requests, patience)
		defer cancel()
		sent = time.Now()
		got, err = r.Client.single(patience).Claim(once, q)
	}
	if got != nil && len(got.Jobs) == 0 {
		got = nil
	}
	return got, sent, err
}

// patience returns how long a claim may take that should take least when nothing delays it: longer on a slow machine or
// network.
func (r *running) patience(least time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return least + 8*r.claims.roundTrip
}

// measured takes in how long a request took. running.mu is held.
func (r *running) measured(took time.Duration) {
	took = min(max(took, minRoundTrip), maxRoundTrip)
	r.claims.roundTrip += (took - r.claims.roundTrip) / 8
}

// refusedForGood reports whether a claim that ended with err would always end so.
func refusedForGood(err error) bool {
	var refused *Error
	if !errors.As(err, &refused) {
		return errors.Is(err, ErrBadRequest) // it cannot even be sent
	}
	return refused.Status >= 400 && refused.Status < 500 && refused.Status != http.StatusRequestTimeout && refused.Status != http.StatusTooManyRequests
}
