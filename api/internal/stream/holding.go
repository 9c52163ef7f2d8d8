package stream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

const (
	// A held claim takes heldClaimBytes, and heldRunBytes for each range of consecutive jobs. A stream changes its
	// share for them in steps of heldStep.
	heldClaimBytes = 256
	heldRunBytes   = 64
	heldStep       = 8 << 10
)

// holding are the claims that a stream holds, with their unfinished jobs. It determines how much credit is left, and
// which jobs go back when the stream ends. Leases are in the store, so holding may list a job that the runner has lost.
// checkLeases finds these jobs.
type holding struct {
	all *Streams
	t   *stream

	mu     sync.Mutex
	claims map[job.ID]*heldClaim
	bytes  int64      // memory for the claims
	held   *web.Share // share of this memory; it changes only in steps of heldStep
}

func (h *holding) init(all *Streams, t *stream) {
	h.all, h.t, h.claims = all, t, map[job.ID]*heldClaim{}
	held := t.share(all.room.jobs)
	h.held = &held
}

// put adds a claim, and remove removes one. The caller holds h.mu.
func (h *holding) put(c *heldClaim) {
	h.claims[c.id] = c
	h.count(c.bytes())
}

func (h *holding) remove(c *heldClaim) {
	delete(h.claims, c.id)
	h.count(-c.bytes())
}

// count records that the claims take more or less memory. The jobs are already handed out, so it takes memory even if
// none is free. The streams then claim no more.
func (h *holding) count(bytes int64) {
	h.bytes += bytes
	switch over := h.bytes - h.held.Held; {
	case over > heldStep:
		h.held.Force(over)
	case over < -heldStep || len(h.claims) == 0:
		h.held.Shrink(-over)
	}
}

// heldClaim is a claim that a stream holds.
type heldClaim struct {
	id   job.ID
	sub  *subscription // the subscription whose credit it counts against; nil: none
	runs []heldRun
	left int // jobs that have not ended
	// After since, the claim's leases last for lease or longer. since is the time of the claim or of its last tickle as
	// a whole. Tickles that the stream does not see make the leases longer.
	since time.Time
	lease time.Duration
	seen  int64 // the time of the claim, or of the last tickle as a whole that this server saw, in the log
}

// seenAt notes the time of a tickle, if it is one of the claim as a whole.
func (c *heldClaim) seenAt(cmd *job.Tickle, at int64) {
	if c != nil && len(cmd.IDs) == 0 {
		c.seen = max(c.seen, at)
	}
}

// beforeLeaseEnds returns the time at which the claim must go back so that its unbegun jobs lose no attempt: the end of
// a lease costs every job of the claim an attempt.
func (c *heldClaim) beforeLeaseEnds() time.Time {
	return c.since.Add(c.lease - min(c.lease/4, maxLeaseMargin))
}

// isDue reports whether beforeLeaseEnds has passed or is less than dueTogether away. Claims that are due at about the
// same time go back together.
func (c *heldClaim) isDue(now time.Time) bool {
	return c.beforeLeaseEnds().Before(now.Add(dueTogether))
}

// bytes is about the memory for the claim.
func (c *heldClaim) bytes() int64 {
	return heldClaimBytes + int64(cap(c.runs))*heldRunBytes
}

// heldRun is a range of jobs with consecutive ids.
type heldRun struct {
	first job.ID
	n     int
	ended []uint64 // a bit for each job; nil: none has ended
	begun []uint64 // a bit for each job whose run has begun
}

// add records a claim that the stream will send.
func (h *holding) add(u *subscription, call *answer.ClaimCall) {
	c := &heldClaim{id: call.Claimed.Claim, sub: u, runs: make([]heldRun, 0, len(call.Handed)), since: time.Now(), lease: time.Duration(call.Claimed.LeaseMs) * time.Millisecond, seen: call.Claimed.Claim.At()}
	for i := range call.Handed {
		c.hold(call.Handed[i].First.ID, call.Handed[i].N)
	}
	u.hold(c.left)
	h.mu.Lock()
	h.put(c)
	h.mu.Unlock()
	h.all.hold(c.id, h.t)
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

// end records that a job has ended, and reports whether this was news.
func (c *heldClaim) end(id job.ID) bool {
	for i := range c.runs {
		r := &c.runs[i]
		line := id.Line() - r.first.Line()
		if line < 0 || line >= r.n || r.first.WithLine(id.Line()) != id {
			continue
		}
		if !setBit(&r.ended, line, r.n) {
			return false
		}
		c.left--
		return true
	}
	return false
}

// setBit sets a bit of n, and reports whether it was not set.
func setBit(bits *[]uint64, i, n int) bool {
	if *bits == nil {
		*bits = make([]uint64, (n+63)/64)
	}
	bit := uint64(1) << (i % 64)
	if (*bits)[i/64]&bit != 0 {
		return false
	}
	(*bits)[i/64] |= bit
	return true
}

func hasBit(bits []uint64, i int) bool { return bits != nil && bits[i/64]&(1<<(i%64)) != 0 }

// begin records that the run of a job has begun, and reports whether the job belongs to the claim.
func (c *heldClaim) begin(id job.ID) bool {
	for i := range c.runs {
		r := &c.runs[i]
		line := id.Line() - r.first.Line()
		if line >= 0 && line < r.n && r.first.WithLine(id.Line()) == id {
			setBit(&r.begun, line, r.n)
			return true
		}
	}
	return false
}

// beginAs copies the begun runs that another stream has recorded of the same claim.
func (c *heldClaim) beginAs(before *heldClaim) {
	if before == nil {
		return
	}
	for i := range before.runs {
		r := &before.runs[i]
		for line := range r.n {
			if hasBit(r.begun, line) {
				c.begin(r.first.WithLine(r.first.Line() + line))
			}
		}
	}
}

// given is the command that takes the jobs of the claim from a runner that has vanished. Begun runs are lost and count
// as attempts. The remaining jobs return to their queues as if they had never been claimed.
func (c *heldClaim) given() job.Complete {
	cmd := job.Complete{Claim: c.id, All: &job.Outcome{Code: job.Unget, DelayMs: -1}}
	for i := range c.runs {
		r := &c.runs[i]
		for line := range r.n {
			if hasBit(r.begun, line) && !hasBit(r.ended, line) {
				cmd.Outcomes = append(cmd.Outcomes, job.Outcome{ID: r.first.WithLine(r.first.Line() + line), Code: job.Lost, DelayMs: -1})
			}
		}
	}
	return cmd
}

// begin records that runs of a claim have begun: the runs of these jobs, or of all jobs if ids is empty.
func (h *holding) begin(claim job.ID, ids []job.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.claims[claim]
	if c == nil {
		return
	}
	for _, id := range ids {
		c.begin(id)
	}
	if len(ids) == 0 {
		for i := range c.runs {
			for line := range c.runs[i].n {
				setBit(&c.runs[i].begun, line, c.runs[i].n)
			}
		}
	}
}

// completed records the results of a completion. It treats a job that its claim no longer holds as ended.
func (h *holding) completed(cmd *job.Complete, result *applied.Ended) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(h.claims[cmd.Claim], result.Results)
	if cmd.All != nil && (result.Refusal == job.Granted || result.Refusal == job.ClaimLost) {
		h.drop(cmd.Claim)
	}
}

// endAny records results of a request of this stream that does not name the claims.
func (h *holding) endAny(results []applied.JobResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.claims {
		h.end(c, results)
	}
}

// end records that jobs of a claim have ended. The caller holds h.mu.
func (h *holding) end(c *heldClaim, results []applied.JobResult) {
	if c == nil {
		return
	}
	freed := 0
	for i := range results {
		// A refusal with RunnerDiffers means that another runner made the request, so the job is still held.
		if results[i].Refusal != job.RunnerDiffers && c.end(results[i].ID) {
			freed++
		}
	}
	h.free(c, freed)
}

// free frees the credit of jobs of a claim that have ended. The caller holds h.mu.
func (h *holding) free(c *heldClaim, n int) {
	if c.left == 0 {
		h.forget(c)
	}
	if c.sub != nil && n > 0 {
		c.sub.hold(-n)
	}
}

// drop records that a claim holds no more jobs. The caller holds h.mu.
func (h *holding) drop(claim job.ID) {
	if c := h.claims[claim]; c != nil {
		n := c.left
		c.left = 0
		h.free(c, n)
	}
}

// forget removes a claim. The caller holds h.mu.
func (h *holding) forget(c *heldClaim) {
	h.remove(c)
	h.all.forget(c.id, h.t)
}

// lose removes a claim that another stream has taken over.
func (h *holding) lose(claim job.ID) *heldClaim {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.claims[claim]
	h.drop(claim)
	return c
}

// tickled records the result of a tickle. A tickle for all jobs of this stream's runner names no claim.
func (h *holding) tickled(cmd *job.Tickle, t *applied.Tickled, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, id := range cmd.IDs { // a tickle that names jobs reports that they run
		if c := h.claims[cmd.Claim]; c != nil {
			c.begin(id)
			c.shorten(cmd.LeaseMs)
			continue
		}
		for _, c := range h.claims {
			if c.begin(id) {
				c.shorten(cmd.LeaseMs)
			}
		}
	}
	if cmd.Claim.IsZero() {
		for _, c := range h.claims {
			c.seenAt(cmd, at)
			if h.end(c, t.Lost); t.Held > 0 && len(cmd.IDs) == 0 && cmd.LeaseMs == 0 {
				c.since = now
			}
		}
		return
	}
	c := h.claims[cmd.Claim]
	c.seenAt(cmd, at)
	h.end(c, t.Lost)
	switch {
	case c == nil || len(cmd.IDs) > 0:
	case t.Held > 0:
		c.since = now
		if cmd.LeaseMs > 0 {
			c.lease = time.Duration(cmd.LeaseMs) * time.Millisecond
		}
	case t.Refusal == job.Granted || t.Refusal == job.ClaimLost:
		h.drop(cmd.Claim)
	}
}

// shorten records that a job of the claim has a lease of leaseMs. 0 means that its length did not change.
func (c *heldClaim) shorten(leaseMs int64) {
	if leaseMs > 0 {
		c.lease = min(c.lease, time.Duration(leaseMs)*time.Millisecond)
	}
}

// takeAll removes all claims and returns them, with the share of their memory.
func (h *holding) takeAll() ([]*heldClaim, *web.Share) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*heldClaim, 0, len(h.claims))
	for _, c := range h.claims {
		all = append(all, c)
	}
	clear(h.claims) // the caller decides which stream holds them next
	held := h.held
	none := h.t.share(held.Lane)
	h.bytes, h.held = 0, &none
	slices.SortFunc(all, func(a, b *heldClaim) int { return slices.Compare(a.id[:], b.id[:]) })
	return all, held
}

// countFor counts the claims that no subscription's credit covers against u's credit.
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
	// maxLeaseMargin is how long before the end of its lease a lingering claim goes back. It is enough for a busy
	// server.
	maxLeaseMargin = 2 * time.Second
	dueTogether    = 100 * time.Millisecond
	// leaseSlack is how long after the end of a lease a claim is looked up. The server abandons jobs a little late.
	leaseSlack = time.Second
	// maxLookups bounds the claims that one heartbeat looks up.
	maxLookups = 100
)

// checkLeases looks up the claims whose leases seem to have ended, and the claims of subscriptions without credit. It
// frees the credit of jobs that they no longer hold.
func (t *stream) checkLeases() {
	for _, id := range t.holding.overdue() {
		_, jobs, err := t.claimDocument(t.pushing, id)
		if err == nil || errors.Is(err, job.ClaimNotFound) {
			t.holding.reconcile(id, jobs)
		}
	}
}

// claimDocument reads a claim with its jobs, without their payloads. A stream may request thousands, so claimDocument
// waits for a turn, as pages of lists do.
func (t *stream) claimDocument(ctx context.Context, id job.ID) (doc document.Claim, jobs []job.Job, err error) {
	err = t.s.Pages.Do(ctx, func() error {
		doc, jobs, err = t.s.Engine.ClaimDocument(id, 0)
		return err
	})
	return doc, jobs, err
}

// reconcile records that a claim holds only these jobs.
func (h *holding) reconcile(claim job.ID, jobs []job.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.claims[claim]
	if c == nil {
		return
	}
	still := make(map[job.ID]bool, len(jobs))
	for i := range jobs {
		still[jobs[i].ID] = true
	}
	freed := 0
	for _, r := range c.runs {
		for i := range r.n {
			if id := r.first.WithLine(r.first.Line() + i); !still[id] && c.end(id) {
				freed++
			}
		}
	}
	h.free(c, freed)
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

// adopt makes the stream hold claims that its runner has from an earlier connection. Claims of the resumed stream that
// the runner does not list go back to their queues, because the runner never received them.
func (t *stream) adopt(resume string, ids []job.ID) (opened []openedClaim, err error) {
	all := t.s
	if len(ids) > 0 {
		if err := all.room.full(); err != nil {
			return nil, err
		}
		if err := t.s.Engine.CatchUp(context.Background(), 0); err != nil {
			return nil, err
		}
	}
	var kept *lingerer
	if resume != "" {
		kept = all.takeOver(resume, t.hello.runner)
	}
	for _, id := range ids {
		if t.pushing.Err() != nil { // the stream ends, and must not wait for thousands of claims
			break
		}
		if doc, jobs, err := t.claimDocument(t.pushing, id); err != nil || doc.Runner != t.hello.runner || !t.sees(jobs) {
			continue
		}
		before, old, ok := all.adopt(id, t)
		if !ok {
			continue
		}
		if old != nil {
			before = old.holding.lose(id)
		}
		doc, jobs, err := t.claimDocument(context.Background(), id) // from now on no other stream gives it back
		if err != nil || doc.Held == 0 {
			all.forget(id, t)
			if err != nil && !errors.Is(err, job.ClaimNotFound) {
				t.s.Log.Warn().AnErr("error", err).Stringer("claim_id", id).Msg("cannot read a claim that a stream takes over; its lease bounds it")
			}
			continue
		}
		opened = append(opened, openedClaim{id, doc.Held})
		c := &heldClaim{id: id, lease: time.Duration(doc.LeaseMs) * time.Millisecond, seen: doc.TickledAt}
		c.since = t.s.firstLeaseEnd(jobs).Add(-c.lease)
		for i := range jobs {
			c.hold(jobs[i].ID, 1)
		}
		c.beginAs(before)
		t.holding.adopt(c, &t.subscriptions)
		if before == nil {
			t.takeUp(c)
		}
	}
	if kept != nil && t.s.Draining.Err() == nil {
		t.s.giveBack(all.expire(kept)) // the claims that were not adopted
	}
	if t.pushing.Err() != nil {
		return nil, web.ErrShuttingDown
	}
	return opened, nil
}

// sees reports whether the key of the stream is for all of some jobs.
func (t *stream) sees(jobs []job.Job) bool {
	by := job.KeyOf(t.ctx).By()
	return !slices.ContainsFunc(jobs, func(j job.Job) bool { return !by.Has(j.Client, j.Type) })
}

func (h *holding) adopt(c *heldClaim, l *subscriptions) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.mu.Lock()
	c.sub = l.first
	l.mu.Unlock()
	h.put(c)
	if c.sub != nil {
		c.sub.hold(c.left)
	}
}

// size returns the number of claims that the stream holds.
func (h *holding) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.claims)
}

// openedClaim is a claim that a stream continues to hold.
type openedClaim struct {
	ClaimID job.ID `json:"claim_id"`
	Held    int    `json:"held"`
}
