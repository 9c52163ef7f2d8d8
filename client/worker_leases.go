package client

import (
	"errors"
	"fmt"
	"time"
)

var (
	// errByClock ends handlers by the worker's own clock, when nobody has said that the job is lost.
	errByClock    = fmt.Errorf("%w: the worker's clock says so", ErrLeaseLost)
	errLeaseEnded = fmt.Errorf("%w: no tickle succeeded for the length of the lease", errByClock)
	errTimedOut   = fmt.Errorf("%w: it ran longer than its timeout_ms", errByClock)
)

// leaseTimes say when a claim is tickled next, and when its lease ends.
type leaseTimes struct {
	received  time.Time // the claim's answer
	tickleAt  time.Time
	endsAt    time.Time
	tickling  bool // a tickle is under way
	failures  int  // of tickles, since the last success
	forgotten bool // it is not tickled any more
}

// startLease returns when a new claim is tickled, and when its lease ends.
//
// A lease runs from when the server stamps the claim, which is between sending and receiving. Counted from sending it
// ends early, which is safe. A claim that waited for jobs at the server may have been sent long before. Then it is
// counted from receiving, less a tenth of the lease for the time that the answer took; an answer that took longer lets
// a handler go on for the difference, until the first tickle.
//
// The answer to a repeat says nothing about when the first answer was lost. The claim is tickled at once then, and
// counts as lost after a third of the lease if no tickle succeeds.
func startLease(lease time.Duration, sent time.Time, got *Claim) (l leaseTimes) {
	l.received, l.endsAt = got.received, sent.Add(lease)
	l.tickleAt = got.received.Add(tickleAfter(lease))
	late := got.received.Add(lease - lease/10)
	if got.replayed {
		l.tickleAt = got.received
		late = got.received.Add(lease / 3)
	}
	if late.After(l.endsAt) {
		l.endsAt = late
	}
	return l
}

// tickleAfter is about a third of a lease, so that two tickles in a row may fail.
func tickleAfter(lease time.Duration) time.Duration {
	return lease/3 - lease/30 + jitter(lease/15)
}

// maxTickles bounds the tickles under way.
const maxTickles = 64

// leases are the claims that are kept alive. One goroutine, keepLeases, looks after all of them. running.mu guards it.
type leases struct {
	claims   map[*heldClaim]struct{}
	tickling int           // tickles under way
	changed  chan struct{} // capacity 1: keepLeases must look again; needs no lock
	lookAt   time.Time     // when keepLeases looks next; zero: when something changes
}

// hold has the lease of a claim kept. running.mu is held.
func (r *running) hold(c *heldClaim) {
	r.leases.claims[c] = struct{}{}
	r.lookAt(c.nextLook())
}

// release ends that. running.mu is held.
func (r *running) release(c *heldClaim) {
	c.forgotten = true
	delete(r.leases.claims, c)
}

func (l *leaseTimes) nextLook() time.Time {
	if l.tickling || l.endsAt.Before(l.tickleAt) {
		return l.endsAt
	}
	return l.tickleAt
}

// lookAt has keepLeases look at a time, or before. running.mu is held.
func (r *running) lookAt(at time.Time) {
	if next := &r.leases.lookAt; next.IsZero() || at.Before(*next) {
		*next = at
		signal(r.leases.changed)
	}
}

// keepLeases tickles claims at about a third of their leases, ends the handlers of those whose lease has ended, and
// gives back jobs that have waited too long for a handler. It returns when done is closed.
//
// A claim without a successful tickle for the length of its lease counts as lost, whatever the reason: the server may
// have given its jobs to others. That the server cannot be reached does not prove that it is down. Only an answer that
// it starts (not_ready) extends a lease, since a server that starts gives every lease its full length before it hands
// out anything.
func (r *running) keepLeases(done <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-r.leases.changed:
		case <-timer.C:
		}
		r.mu.Lock()
		now := time.Now()
		next := r.leases.lookAt
		var back []*task
		if !next.IsZero() && !now.Before(next) {
			back = r.lookOver(now)
			next = r.leases.lookAt
		}
		r.mu.Unlock()
		r.giveBackAll(back)
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// lookOver does what is due, and sets when to look next. running.mu is held.
func (r *running) lookOver(now time.Time) (back []*task) {
	r.leases.lookAt = time.Time{}
	for c := range r.leases.claims {
		switch {
		case c.forgotten:
			continue
		case !now.Before(c.endsAt):
			// It is not tickled again: what nobody works on returns to its queue when the server's lease ends.
			c.forgotten = true
			r.loseAll(c, errLeaseEnded)
			continue
		case !c.tickling && !now.Before(c.tickleAt):
			if r.leases.tickling == maxTickles {
				c.tickleAt = now.Add(c.lease / 100)
				break
			}
			c.tickling = true
			r.leases.tickling++
			r.underWay.requests.Go(func() { r.tickle(c) })
		}
		r.lookAt(c.nextLook())
	}
	back = r.removeWaiting(func(t *task) bool {
		late := !t.giveUp.IsZero() && !now.Before(t.giveUp)
		if !late && !t.giveUp.IsZero() {
			r.lookAt(t.giveUp)
		}
		return late
	})
	if len(back) > 0 {
		r.claims.noAheadUntil = now.Add(noAheadFor)
	}
	return back
}

// tickle extends the lease of a claim.
func (r *running) tickle(c *heldClaim) {
	asked := time.Now()
	held, err := r.Client.single(c.lease/2).TickleClaim(r.ctx.requests, c.id, TickleOptions{})
	var refused *Error
	errors.As(err, &refused)

	r.mu.Lock()
	defer r.mu.Unlock()
	c.tickling = false
	r.leases.tickling--
	if c.forgotten {
		return
	}
	switch {
	case err == nil:
		c.failures = 0
		c.endsAt = asked.Add(c.lease)
		c.tickleAt = asked.Add(tickleAfter(c.lease))
		r.lose(c, held.Lost)
	case errors.Is(err, ErrClaimLost), errors.Is(err, ErrCancelled):
		// It holds nothing: what was reported meanwhile has ended, and the rest is lost.
		if refused != nil {
			r.lose(c, refused.Lost)
		}
		c.forgotten = true
		r.loseAll(c, ErrLeaseLost)
		return
	default:
		if refused != nil && refused.Code == "not_ready" {
			c.endsAt = asked.Add(c.lease)
		}
		c.tickleAt = time.Now().Add(min(tickleAfter(c.lease), backoff(c.failures)))
		c.failures++
		if r.ctx.requests.Err() == nil {
			r.Logger.Warn("cannot tickle a claim", "claim_id", c.id, "error", err)
		}
	}
	r.lookAt(c.nextLook())
}

// lose ends the handlers of jobs that the server says are no longer held. running.mu is held.
func (r *running) lose(c *heldClaim, lost []Lost) {
	for _, l := range lost {
		for i := range c.tasks {
			if t := &c.tasks[i]; t.job.ID != l.JobID {
				continue
			} else if l.Code == "cancelled" {
				t.lose(errCancelledRun)
			} else {
				t.lose(ErrLeaseLost)
			}
			break
		}
	}
}

// loseAll ends the handlers of a claim. Those that have returned do not notice. running.mu is held.
func (r *running) loseAll(c *heldClaim, cause error) {
	for i := range c.tasks {
		c.tasks[i].lose(cause)
	}
}

// lose ends the handler of a job. One that waits is handed to a handler all the same, which finds its context ended.
// running.mu is held.
func (t *task) lose(cause error) {
	if t.lost == nil {
		t.lost = cause
	}
	if t.cancel != nil {
		t.cancel(cause)
	}
}
