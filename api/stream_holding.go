package api

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// holding are the claims that a stream holds, with their jobs that have not ended. It says how much credit is left, and
// what goes back when the stream ends. It may list a job that the runner has lost, because leases are in the store.
// checkLeases finds these.
type holding struct {
	all *streams
	t   *stream

	mu     sync.Mutex
	claims map[job.ID]*heldClaim
}

func (h *holding) init(all *streams, t *stream) {
	h.all, h.t, h.claims = all, t, map[job.ID]*heldClaim{}
}

// heldClaim is a claim that a stream holds.
type heldClaim struct {
	id    job.ID
	sub   *subscription // whose credit it counts against; nil: none
	runs  []heldRun
	left  int       // jobs that have not ended
	since time.Time // when it was made, or the last tickle
	lease time.Duration
}

// heldRun is a range of jobs with consecutive ids.
type heldRun struct {
	first job.ID
	n     int
	ended []uint64 // a bit for each job; nil: none has ended
}

// add notes a claim that the stream will send.
func (h *holding) add(u *subscription, call *claimCall) {
	c := &heldClaim{id: call.claimed.Claim, sub: u, runs: make([]heldRun, 0, len(call.handed)), since: time.Now(), lease: time.Duration(call.claimed.LeaseMs) * time.Millisecond}
	for i := range call.handed {
		c.hold(call.handed[i].First.ID, call.handed[i].N)
	}
	u.hold(c.left)
	h.mu.Lock()
	h.claims[c.id] = c
	h.mu.Unlock()
	h.all.holds(c.id, h.t)
}

// hold adds n jobs with consecutive ids.
func (c *heldClaim) hold(first job.ID, n int) {
	c.left += n
	if last := len(c.runs) - 1; last >= 0 && c.runs[last].first.WithLine(c.runs[last].first.Line()+c.runs[last].n) == first {
		c.runs[last].n += n
		return
	}
	c.runs = append(c.runs, heldRun{first: first, n: n})
}

// end notes that a job has ended, and reports whether that was not known.
func (c *heldClaim) end(id job.ID) bool {
	for i := range c.runs {
		r := &c.runs[i]
		line := id.Line() - r.first.Line()
		if line < 0 || line >= r.n || r.first.WithLine(id.Line()) != id {
			continue
		}
		if r.ended == nil {
			r.ended = make([]uint64, (r.n+63)/64)
		}
		bit := uint64(1) << (line % 64)
		if r.ended[line/64]&bit != 0 {
			return false
		}
		r.ended[line/64] |= bit
		c.left--
		return true
	}
	return false
}

// completed notes the results of a completion. A job that its claim no longer holds is a job that has ended, too.
func (h *holding) completed(cmd *job.Complete, result *store.Ended) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(cmd.Claim, result.Results)
	if cmd.All != nil {
		h.drop(cmd.Claim)
	}
}

// end notes jobs of a claim that have ended. The caller holds h.mu.
func (h *holding) end(claim job.ID, results []store.JobResult) {
	c := h.claims[claim]
	if c == nil {
		return
	}
	freed := 0
	for i := range results {
		if c.end(results[i].ID) {
			freed++
		}
	}
	if c.left == 0 {
		h.forget(c.id)
	}
	if c.sub != nil && freed > 0 {
		c.sub.hold(-freed)
	}
}

// drop notes that a claim holds nothing. The caller holds h.mu.
func (h *holding) drop(claim job.ID) {
	if c := h.claims[claim]; c != nil {
		h.forget(claim)
		if c.sub != nil {
			c.sub.hold(-c.left)
		}
	}
}

// forget removes a claim. The caller holds h.mu.
func (h *holding) forget(claim job.ID) {
	delete(h.claims, claim)
	h.all.holds(claim, nil)
}

// tickled notes the result of a tickle of a claim.
func (h *holding) tickled(cmd *job.Tickle, t *store.Tickled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(t.Lost) > 0 {
		h.end(cmd.Claim, t.Lost)
	}
	c := h.claims[cmd.Claim]
	switch {
	case c == nil:
	case t.Held == 0 && len(cmd.IDs) == 0:
		h.drop(cmd.Claim)
	case len(cmd.IDs) == 0:
		c.since = time.Now()
	}
}

// takeAll removes all claims and returns them.
func (h *holding) takeAll() []*heldClaim {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*heldClaim, 0, len(h.claims))
	for _, c := range h.claims {
		all = append(all, c)
		h.forget(c.id)
	}
	slices.SortFunc(all, func(a, b *heldClaim) int { return slices.Compare(a.id[:], b.id[:]) })
	return all
}

// countFor counts the claims that count against no credit against that of a subscription.
func (h *holding) countFor(u *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.claims {
		if c.sub == nil {
			c.sub = u
			u.hold(c.left)
		}
	}
}

const (
	// leaseSlack is how long after the end of a lease a claim is looked up. The server abandons jobs a little late.
	leaseSlack = time.Second
	// maxLookups bounds the claims that one heartbeat looks up.
	maxLookups = 100
)

// checkLeases looks up the claims whose leases seem to have ended, and those of subscriptions without credit. It frees
// the credit of those that hold nothing.
func (t *stream) checkLeases() {
	for _, id := range t.holding.overdue() {
		doc, _, err := t.s.engine.ClaimDocument(id, 0)
		switch {
		case errors.Is(err, job.ClaimNotFound), err == nil && doc.Held == 0:
			t.holding.mu.Lock()
			t.holding.drop(id)
			t.holding.mu.Unlock()
		}
	}
}

func (h *holding) overdue() (ids []job.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, c := range h.claims {
		if age := now.Sub(c.since); (age > c.lease+leaseSlack || age > leaseSlack && c.sub != nil && c.sub.exhausted()) && len(ids) < maxLookups {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// adopt makes the stream hold claims that its runner has from an earlier connection. Of the stream that it resumes, the
// claims that the runner does not list go back: it never received them.
func (t *stream) adopt(resume string, ids []job.ID) (opened []openedClaim, err error) {
	if resume != "" {
		if before := t.s.streams.takeOver(resume); before != nil {
			lost := slices.DeleteFunc(before.claims, func(c *heldClaim) bool { return slices.Contains(ids, c.id) })
			t.s.giveBack(lost)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	if err := t.s.engine.CatchUp(context.Background(), 0); err != nil {
		return nil, err
	}
	for _, id := range ids {
		doc, jobs, err := t.s.engine.ClaimDocument(id, 0)
		if errors.Is(err, job.ClaimNotFound) || err == nil && (doc.Held == 0 || doc.Runner != t.hello.runner) {
			continue
		}
		if err != nil {
			return nil, err
		}
		opened = append(opened, openedClaim{id, doc.Held})
		c := &heldClaim{id: id, since: time.Now(), lease: time.Duration(doc.LeaseMs) * time.Millisecond}
		for i := range jobs {
			c.hold(jobs[i].ID, 1)
		}
		t.holding.adopt(c, &t.subscriptions)
	}
	return opened, nil
}

func (h *holding) adopt(c *heldClaim, l *subscriptions) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.mu.Lock()
	c.sub = l.first
	l.mu.Unlock()
	h.claims[c.id] = c
	h.all.holds(c.id, h.t)
	if c.sub != nil {
		c.sub.hold(c.left)
	}
}
