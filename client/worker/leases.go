package worker

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/backoff"
)

const (
	// maxTickles bounds the outstanding tickles.
	maxTickles = 64
	// streamLinger is how long the server keeps the worker's jobs when their connection breaks, unless the worker uses
	// them before. It is long enough for a restart of the server. The jobs of a worker that was killed wait as long, or
	// until shortly before their leases end.
	streamLinger = 30 * time.Second
	// maxLeaseMargin is how long before the end of a lease the server returns lingering jobs; for a short lease it is a
	// quarter.
	maxLeaseMargin = 2 * time.Second
)

// leases are the claims that are tickled. One goroutine, keep, does it for all of them.
type leases struct {
	*transport
	logger  *slog.Logger
	changed chan struct{} // capacity 1; signals keep to look again

	mu       sync.Mutex // guards the fields below, and the leaseTimes of all claims
	claims   map[*heldClaim]struct{}
	tickling int       // outstanding tickles
	lookAt   time.Time // when keep looks next; zero means at the next change
}

func newLeases(t *transport, logger *slog.Logger) *leases {
	return &leases{transport: t, logger: logger, changed: make(chan struct{}, 1), claims: map[*heldClaim]struct{}{}}
}

// hold adds a claim, whose lease keep keeps from now on.
func (l *leases) hold(c *heldClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims[c] = struct{}{}
	l.look(c.nextLook())
}

// release removes claims. They are no longer tickled.
func (l *leases) release(claims []*heldClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		c.released = true
		delete(l.claims, c)
	}
}

// held returns the ids of some claims with jobs that are not reported, up to most.
func (l *leases) held(most int) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.claims {
		if len(ids) < most {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// tickleAll makes all claims be tickled now. lost, if not nil, is a stream whose end bounds their leases: the server
// returns their jobs when they have lingered, or shortly before their leases end, unless it gets a tickle before. It
// counts from the moment at which it notices the end of the connection, which is later than the last message that the
// worker received.
func (l *leases) tickleAll(lost *client.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for c := range l.claims {
		if lost != nil {
			for _, at := range []time.Time{lost.Heard().Add(streamLinger), c.leaseEnd.Add(-min(c.lease/4, maxLeaseMargin))} {
				if at.Before(c.endsAt) {
					c.endsAt = at
				}
			}
		}
		c.tickleAt = now
		l.look(now)
	}
}

// look makes keep look at this time or earlier. mu is held.
func (l *leases) look(at time.Time) {
	if l.lookAt.IsZero() || at.Before(l.lookAt) {
		l.lookAt = at
		signal(l.changed)
	}
}

// keep tickles claims after about a third of their leases, and ends the handlers of claims whose lease has ended. It
// returns when done is closed.
//
// If no tickle of a claim succeeds for the length of its lease, the claim counts as lost, whatever the reason: another
// runner may have its jobs. A server that cannot be reached may still be running. Only the answer that the server is
// starting (not_ready) extends a lease, since a starting server gives every lease its full length before it hands out
// jobs.
func (l *leases) keep(done <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-l.changed:
		case <-timer.C:
		}
		l.mu.Lock()
		if now := time.Now(); !l.lookAt.IsZero() && !now.Before(l.lookAt) {
			l.lookOver(now)
		}
		next := l.lookAt
		l.mu.Unlock()
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// lookOver handles all claims that are due, and sets the time of the next look. mu is held.
func (l *leases) lookOver(now time.Time) {
	l.lookAt = time.Time{}
	for c := range l.claims {
		switch {
		case c.released:
			continue
		case !now.Before(c.endsAt):
			// The claim is not tickled again, so that its jobs return to their queues when the server's lease ends.
			c.released = true
			c.loseAll(errLeaseEnded)
			continue
		case !c.tickling && !now.Before(c.tickleAt):
			if l.tickling == maxTickles {
				c.tickleAt = now.Add(c.lease / 100)
				break
			}
			c.tickling = true
			l.tickling++
			l.underWay.Go(func() { l.tickle(c) })
		}
		l.look(c.nextLook())
	}
}

// tickle extends the lease of a claim.
func (l *leases) tickle(c *heldClaim) {
	sent := time.Now()
	held, err := once(l.calls(), c.lease/2).TickleClaim(l.ctx, c.id, client.TickleOptions{})
	var refused *client.Error
	errors.As(err, &refused)

	l.mu.Lock()
	defer l.mu.Unlock()
	c.tickling = false
	l.tickling--
	if c.released {
		return
	}
	switch {
	case err == nil:
		c.failures = 0
		c.endsAt = sent.Add(c.lease)
		c.leaseEnd = c.endsAt
		c.tickleAt = sent.Add(tickleAfter(c.lease))
		c.lose(held.Lost)
	case errors.Is(err, client.ErrClaimLost), errors.Is(err, client.ErrCancelled):
		// The claim holds nothing: reported jobs have ended, and all other jobs are lost.
		if refused != nil {
			c.lose(refused.Lost)
		}
		c.released = true
		c.loseAll(ErrLeaseLost)
		return
	default:
		if refused != nil && refused.Code == "not_ready" {
			c.endsAt = sent.Add(c.lease)
			c.leaseEnd = c.endsAt
		}
		c.tickleAt = time.Now().Add(min(tickleAfter(c.lease), backoff.Wait(c.failures)))
		c.failures++
		if l.ctx.Err() == nil {
			l.logger.Warn("cannot tickle a claim", "claim_id", c.id, "error", err)
		}
	}
	l.look(c.nextLook())
}
