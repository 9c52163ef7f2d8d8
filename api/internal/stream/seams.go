package stream

import (
	"time"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// Tests of the server call the functions below, because leases and linger times are too long to wait for them.

// Age makes a claim look as if its stream had seen no tickle of it for the length of its lease.
func (l *Streams) Age(claim job.ID) {
	l.mu.Lock()
	held := l.holders[claim]
	l.mu.Unlock()
	h := &held.stream.holding
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.claims[claim]
	c.since = time.Now().Add(-c.lease)
}

// IsDueAt reports whether a lingering claim must go back before t.
func (l *Streams) IsDueAt(claim job.ID, t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holders[claim].lingerer.claims[claim].beforeLeaseEnds().Before(t)
}

// ExpireAll ends the time of all streams that linger.
func (l *Streams) ExpireAll() {
	l.mu.Lock()
	var all []*lingerer
	for _, kept := range l.lingering {
		all = append(all, kept)
	}
	l.mu.Unlock()
	for _, kept := range all {
		l.giveBack(l.expire(kept))
	}
}

// JobMemory is the budget of subscriptions and of the claims that streams hold.
func (l *Streams) JobMemory() *web.Lane { return l.room.jobs }
