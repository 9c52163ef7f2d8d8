package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/backoff"
)

var (
	// errByClock ends handlers by the worker's clock. The server has not said that the job is lost.
	errByClock    = fmt.Errorf("%w by the worker's clock", ErrLeaseLost)
	errLeaseEnded = fmt.Errorf("%w: no tickle succeeded before the end of the lease", errByClock)
	errTimedOut   = fmt.Errorf("%w: the job ran longer than its timeout_ms", errByClock)
)

// leaseTimes are the times of a claim's next tickle and of its lease's end.
type leaseTimes struct {
	received time.Time // when the claim's answer arrived
	tickleAt time.Time
	endsAt   time.Time
	leaseEnd time.Time // endsAt, unless the stream of the claim was lost since the last tickle
	tickling bool      // a tickle is outstanding
	failures int       // failed tickles since the last success
	released bool      // the claim is no longer tickled
}

// startLease returns when a new claim is tickled, and when its lease ends.
//
// A lease begins when the server stamps the claim, which is between sending and receiving. Counted from sending, the
// lease ends too early in the worker's view, which is safe. But a claim that waited for jobs at the server may have
// been sent long before. Its lease is counted from receiving, less a tenth for the time that the answer took. If the
// answer took longer, a handler may continue for the difference after the lease has ended, until the first tickle.
//
// The answer to a repeat does not say when the first answer was lost. Then the claim is tickled at once, and counts as
// lost after a third of the lease if no tickle succeeds.
func startLease(lease time.Duration, sent time.Time, got *client.Claim) (l leaseTimes) {
	l.received, l.endsAt = got.Received, sent.Add(lease)
	l.tickleAt = got.Received.Add(tickleAfter(lease))
	late := got.Received.Add(lease - lease/10)
	if got.Replayed {
		l.tickleAt = got.Received
		late = got.Received.Add(lease / 3)
	}
	if late.After(l.endsAt) {
		l.endsAt = late
	}
	l.leaseEnd = l.endsAt
	return l
}

// tickleAfter returns about a third of a lease, so that two tickles in a row may fail.
func tickleAfter(lease time.Duration) time.Duration {
	return lease/3 - lease/30 + jitter(lease/15)
}

// maxTickles bounds the outstanding tickles.
const maxTickles = 64

// leases are the claims that are tickled. One goroutine, keepLeases, does it for all of them. running.mu guards it.
type leases struct {
	claims   map[*heldClaim]struct{}
	tickling int           // outstanding tickles
	changed  chan struct{} // capacity 1; signals keepLeases to look again; needs no lock
	lookAt   time.Time     // when keepLeases looks next; zero means at the next change
}

// hold adds a claim, whose lease keepLeases keeps from now on. running.mu is held.
func (r *running) hold(c *heldClaim) {
	r.leases.claims[c] = struct{}{}
	r.lookAt(c.nextLook())
}

// release removes a claim. running.mu is held.
func (r *running) release(c *heldClaim) {
	c.released = true
	delete(r.leases.claims, c)
}

func (l *leaseTimes) nextLook() time.Time {
	if l.tickling || l.endsAt.Before(l.tickleAt) {
		return l.endsAt
	}
	return l.tickleAt
}

// lookAt makes keepLeases look at this time or earlier. running.mu is held.
func (r *running) lookAt(at time.Time) {
	if next := &r.leases.lookAt; next.IsZero() || at.Before(*next) {
		*next = at
		signal(r.leases.changed)
	}
}

// keepLeases tickles claims after about a third of their leases, ends the handlers of claims whose lease has ended, and
// returns jobs that have waited too long for a handler to their queues. It ends when done is closed.
//
// If no tickle of a claim succeeds for the length of its lease, the claim counts as lost, whatever the reason: another
// runner may have its jobs. A server that cannot be reached may still be running. Only the answer that the server is
// starting (not_ready) extends a lease, since a starting server gives every lease its full length before it hands out
// jobs.
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

// lookOver handles all claims and jobs that are due, and sets the time of the next look. The caller must pass back to
// giveBackAll. running.mu is held.
func (r *running) lookOver(now time.Time) (back []*task) {
	r.leases.lookAt = time.Time{}
	for c := range r.leases.claims {
		switch {
		case c.released:
			continue
		case !now.Before(c.endsAt):
			// The claim is not tickled again, so that its jobs return to their queues when the server's lease ends.
			c.released = true
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
	sent := time.Now()
	held, err := once(r.calls(), c.lease/2).TickleClaim(r.ctx.requests, c.id, client.TickleOptions{})
	var refused *client.Error
	errors.As(err, &refused)

	r.mu.Lock()
	defer r.mu.Unlock()
	c.tickling = false
	r.leases.tickling--
	if c.released {
		return
	}
	switch {
	case err == nil:
		c.failures = 0
		c.endsAt = sent.Add(c.lease)
		c.leaseEnd = c.endsAt
		c.tickleAt = sent.Add(tickleAfter(c.lease))
		r.lose(c, held.Lost)
	case errors.Is(err, client.ErrClaimLost), errors.Is(err, client.ErrCancelled):
		// The claim holds nothing: reported jobs have ended, and all other jobs are lost.
		if refused != nil {
			r.lose(c, refused.Lost)
		}
		c.released = true
		r.loseAll(c, ErrLeaseLost)
		return
	default:
		if refused != nil && refused.Code == "not_ready" {
			c.endsAt = sent.Add(c.lease)
			c.leaseEnd = c.endsAt
		}
		c.tickleAt = time.Now().Add(min(tickleAfter(c.lease), backoff.Wait(c.failures)))
		c.failures++
		if r.ctx.requests.Err() == nil {
			r.Logger.Warn("cannot tickle a claim", "claim_id", c.id, "error", err)
		}
	}
	r.lookAt(c.nextLook())
}

// lose ends the handlers of the jobs that the server has reported as lost. running.mu is held.
func (r *running) lose(c *heldClaim, lost []client.Lost) {
	for _, l := range lost {
		for i := range c.tasks {
			if t := &c.tasks[i]; t.run.Job.ID != l.JobID {
				continue
			} else if l.Code == "cancelled" {
				t.run.lose(errCancelledRun)
			} else {
				t.run.lose(ErrLeaseLost)
			}
			break
		}
	}
}

// loseAll ends the handlers of all jobs of a claim. Handlers that have returned are not affected. A job that waits
// for a handler ends without one when its turn arrives. running.mu is held.
func (r *running) loseAll(c *heldClaim, cause error) {
	for i := range c.tasks {
		c.tasks[i].run.lose(cause)
	}
}
