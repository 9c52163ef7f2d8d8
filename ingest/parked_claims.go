package ingest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// parkedClaims is the line of claims that wait for jobs. It also counts the jobs that claims are about to take.
//
// A claim that is being proposed or applied has an offer: it may take a number of jobs of a queue. Other claims are woken
// only for the jobs of the queue that are not offered:
//
//	open = pending + coming - offered
//
// where coming are the jobs of creates that are proposed but not applied. The oldest claim that accepts the jobs is woken
// first. An offer ends when the claim is applied, fails, or its caller gives up. If jobs of the queue are open then, the
// next claim is woken: the first claim may have taken jobs of another queue, or fewer than it might have.
//
// Invariant: while jobs of a queue are open and a parked claim accepts them, the queue is in looks, or run is looking at
// it.
type parkedClaims struct {
	n       atomic.Int64  // number of parked claims
	tickets atomic.Uint64 // number of claims that have entered the line
	state   pendingJobs
	changed chan struct{} // capacity 1; has a value when looks may not be empty or lookAll may be set

	mu        sync.Mutex // guards the fields below, and all claims except their channels
	closed    bool
	places    job.Shares
	interests interests
	offered   map[queueName]int64    // jobs that claims in progress may take; no zeros
	coming    map[queueName]int64    // jobs of creates in progress; no zeros
	looks     map[queueName]struct{} // queues that may have open jobs
	lookAll   bool                   // all queues may have open jobs
}

// pendingJobs are the jobs that claims may take now. *store.Queries implements it.
type pendingJobs interface {
	// Pending returns the number of jobs of a queue that a claim would find. claimable is false if a claim would find
	// none in any case, because the queue is paused or the server hands out no jobs.
	Pending(client, typ string) (n int64, claimable bool)
	// Ready calls visit with the queues in which a claim for these clients and types would find jobs, until visit returns
	// false. visit must not wait.
	Ready(clients, types []string, visit func(client, typ string, pending int64) bool)
	// ReadyQueues pages through all queues with jobs that a claim would find.
	ReadyQueues(client, typ string) (ready []document.Readied, nextClient, nextType string)
}

// offer allows a claim to take up to n jobs of a queue. The zero value offers nothing.
type offer struct {
	queue queueName
	n     int64
	early bool // includes jobs of creates that are not applied; the claim must follow them in the log
}

// parkedClaim is one waiting claim.
type parkedClaim struct {
	ticket uint64 // the order of arrival
	max    int64  // largest number of jobs that it takes
	in     *interest
	client string     // whose place it has; see job.Owner
	woken  chan offer // capacity 1; gets the offer that wakes the claim; closed when the engine stops
}

// maxLooks bounds the queues that a claim checks when it arrives. If none of them has open jobs, run checks all queues.
const maxLooks = 100

func newParkedClaims(state pendingJobs) *parkedClaims {
	return &parkedClaims{
		state: state, interests: newInterests(), changed: make(chan struct{}, 1),
		offered: map[queueName]int64{}, coming: map[queueName]int64{}, looks: map[queueName]struct{}{},
	}
}

// enter returns the ticket of an arriving claim. Claims wait in the order of their tickets.
func (l *parkedClaims) enter() uint64 { return l.tickets.Add(1) }

// find makes an offer to a claim that is not parked, if there are open jobs for it that no parked claim accepts.
func (l *parkedClaims) find(c *job.Claim) (o offer, ok bool) {
	l.look(c.Clients, c.Types, func(q queueName, pending int64) bool {
		if l.open(q, pending) > 0 && l.interests.oldest(q) == nil {
			o, ok = l.book(q, pending, int64(c.Max)), true
		}
		return !ok
	})
	return o, ok
}

// park adds a claim to the line. The error is ErrClosed if the engine is stopping, or ErrTooManyParked if too many claims wait, in
// all or of the owner. The caller must later call leave for the claim.
func (l *parkedClaims) park(ticket uint64, owner job.Owner, c *job.Claim) (*parkedClaim, error) {
	p := &parkedClaim{ticket: ticket, max: int64(c.Max), client: owner.Client, woken: make(chan offer, 1)}
	if err := l.add(p, owner, c); err != nil {
		return nil, err
	}
	// Jobs may have arrived before the claim was parked.
	all := l.look(c.Clients, c.Types, func(q queueName, pending int64) bool {
		if l.open(q, pending) <= 0 {
			return true
		}
		l.note(q)
		signal(l.changed)
		return false
	})
	if !all {
		l.committed(nil, true)
	}
	return p, nil
}

func (l *parkedClaims) add(p *parkedClaim, owner job.Owner, c *job.Claim) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	err := l.places.Take(owner, 1, job.MaxParkedClaims)
	if err == nil {
		if err = l.interests.add(p, owner, c.Clients, c.Types); err != nil {
			l.places.Return(owner.Client, 1)
		}
	}
	if err != nil {
		return job.Limited(ErrTooManyParked, err)
	}
	l.n.Add(1)
	return nil
}

// leave removes a claim that no longer waits. If the claim was woken but has not received its offer, the offer ends.
func (l *parkedClaims) leave(p *parkedClaim) {
	l.mu.Lock()
	if p.in != nil {
		l.interests.remove(p)
	}
	l.places.Return(p.client, 1)
	if l.n.Add(-1) == 0 { // a claim that parks later looks for jobs after parking
		clear(l.looks)
		l.lookAll = false
	}
	l.mu.Unlock()
	select {
	case o := <-p.woken:
		l.end(o)
	default:
	}
}

// look calls visit with queues in which a claim for these clients and types may find jobs, until visit returns false:
// first queues with pending jobs, then queues with coming jobs. visit is called with l.mu held. look returns false if
// there are more queues and visit did not stop it.
func (l *parkedClaims) look(clients, types []string, visit func(q queueName, pending int64) bool) (all bool) {
	more, left := true, maxLooks
	l.state.Ready(clients, types, func(client, typ string, pending int64) bool {
		if left--; left < 0 {
			return false
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		more = visit(queueName{client, typ}, pending)
		return more
	})
	if left < 0 || !more {
		return left >= 0
	}
	for _, q := range l.comingTo(clients, types) {
		pending, claimable := l.state.Pending(q.client, q.typ)
		if !claimable {
			continue
		}
		l.mu.Lock()
		more = visit(q, pending)
		l.mu.Unlock()
		if !more {
			break
		}
	}
	return true
}

// comingTo returns up to maxLooks queues with coming jobs that a claim for these clients and types accepts. The commit of
// the jobs makes run check the remaining queues.
func (l *parkedClaims) comingTo(clients, types []string) (queues []queueName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := maxLooks
	for q := range l.coming {
		if left--; left < 0 {
			break
		}
		if (len(clients) == 0 || slices.Contains(clients, q.client)) && (len(types) == 0 || slices.Contains(types, q.typ)) {
			queues = append(queues, q)
		}
	}
	return queues
}

// open returns the number of jobs of a queue that are not offered. The caller holds l.mu.
func (l *parkedClaims) open(q queueName, pending int64) int64 {
	return pending + l.coming[q] - l.offered[q]
}

// book makes an offer of up to n jobs of a queue with open jobs. The caller holds l.mu.
func (l *parkedClaims) book(q queueName, pending, n int64) offer {
	o := offer{queue: q, n: n, early: pending <= l.offered[q]}
	count(l.offered, q, n)
	return o
}

// end ends an offer.
func (l *parkedClaims) end(o offer) {
	l.endApplied(o)
	signal(l.changed)
}

// endApplied ends the offer of an applied claim. The caller calls committed later, once for many claims.
func (l *parkedClaims) endApplied(o offer) {
	if o.n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	count(l.offered, o.queue, -o.n)
	l.note(o.queue)
}

// expect counts jobs of a proposed create, and wakes claims for them. The claims can follow the create in the same group
// of the log, instead of waiting for its commit.
func (l *parkedClaims) expect(q queueName, jobs int) {
	l.mu.Lock()
	count(l.coming, q, int64(jobs))
	waits := l.n.Load() > 0
	l.mu.Unlock()
	for waits && jobs > 0 && l.wake(q) {
		jobs--
	}
}

// arrived is called when the create was applied or has failed.
func (l *parkedClaims) arrived(q queueName, jobs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count(l.coming, q, -int64(jobs))
}

func count(m map[queueName]int64, q queueName, n int64) {
	if m[q] += n; m[q] == 0 {
		delete(m, q)
	}
}

// wake wakes the oldest claim that accepts the jobs of a queue, if some are open. It reports whether it woke a claim.
func (l *parkedClaims) wake(q queueName) bool {
	pending, claimable := l.state.Pending(q.client, q.typ)
	if !claimable {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open(q, pending) <= 0 {
		return false
	}
	p := l.interests.oldest(q)
	if p == nil {
		return false
	}
	l.interests.remove(p)
	p.woken <- l.book(q, pending, p.max)
	return true
}

// note makes run check a queue after the next signal of changed. If no claim is parked, it does nothing, because a claim
// that parks later looks for jobs after parking. The caller holds l.mu.
func (l *parkedClaims) note(q queueName) {
	if l.n.Load() > 0 {
		l.looks[q] = struct{}{}
	}
}

// committed is called after a commit with the queues that gained jobs; with all, any queue may have gained some. It
// leaves waking claims to run, because the applier must not wait until thousands of claims are woken.
func (l *parkedClaims) committed(gained []document.Readied, all bool) {
	if l.n.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range gained {
		l.note(queueName{q.Client, q.Type})
	}
	if l.lookAll = l.lookAll || all; l.lookAll || len(l.looks) > 0 {
		signal(l.changed)
	}
}

// run wakes claims for the queues with open jobs, until ctx is done.
func (l *parkedClaims) run(ctx context.Context) {
	for {
		select {
		case <-l.changed:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		looks, all := l.looks, l.lookAll
		l.looks, l.lookAll = map[queueName]struct{}{}, false
		l.mu.Unlock()
		for q := range looks {
			l.wakeFor(q)
		}
		if all {
			l.wakeAll()
		}
	}
}

// wakeFor wakes claims until no jobs of a queue are open, or no parked claim accepts them.
func (l *parkedClaims) wakeFor(q queueName) {
	for l.wake(q) {
	}
}

// wakeAll is wakeFor for all queues with jobs. It reads a page of queues at a time, and ends when no claim is parked.
func (l *parkedClaims) wakeAll() {
	client, typ := "", ""
	for more := true; more && l.n.Load() > 0; more = client != "" {
		var ready []document.Readied
		ready, client, typ = l.state.ReadyQueues(client, typ)
		for _, q := range ready {
			l.wakeFor(queueName{q.Client, q.Type})
		}
	}
}

// close ends all parked claims without a job, and refuses later claims.
func (l *parkedClaims) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.interests.all(func(p *parkedClaim) {
		p.in = nil
		close(p.woken)
	})
	l.interests = newInterests()
}
