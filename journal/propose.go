package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Lane decides when a command joins a group.
type Lane int

const (
	// Control commands (claim, tickle, complete, release, tick) always join the next group.
	Control Lane = iota
	// Bulk commands (creates, outputs) join a group until it is full. Propose waits while too many of their bytes are in
	// flight.
	Bulk
)

// Proposal is a command for the journal. It belongs to the journal until Done is called. The data of Fields, Body and Tag
// belongs to the receiver of Deliver from Propose on: the proposer must never reuse it. A reused body once led to a
// record of one command and an answer to another.
type Proposal struct {
	Lane   Lane
	Verb   string // [a-z]+, not MarkVerb
	Fields []byte
	Body   []byte
	Tag    any
	// Fill, if it is not nil, returns Fields and Body, which together have at most Reserve bytes. The committer calls it
	// once, just before it writes the command. Until then the proposer may add to the command, so that small commands
	// that wait for the same group can share one record. If Fill returns an error, the command is not written, and Done
	// is called with ErrNotStored.
	Fill    func() (fields, body []byte, err error)
	Reserve int
	// Done is called exactly once, by the committer's goroutine. If the command is durable, err is nil, and Synced()
	// has reached seq. Otherwise seq and at are 0, and err is ErrNotStored or ErrUnknown. Done must not block, because
	// all other answers wait for it.
	Done func(seq uint64, at int64, err error)
}

// proposalOverhead is added to the bytes of each proposal's fields and body: the memory of the proposal, its record and
// its closure.
const proposalOverhead = 256

// Cost returns about the bytes of memory that p takes.
func (p *Proposal) Cost() int64 {
	if p.Fill != nil {
		return int64(proposalOverhead + p.Reserve)
	}
	return int64(proposalOverhead + len(p.Fields) + len(p.Body))
}

// Validate returns ErrInvalid or ErrTooLarge with the reason if the format cannot express p.
func (p *Proposal) Validate() error {
	if p.Verb == MarkVerb || p.Done == nil || p.Lane != Control && p.Lane != Bulk {
		return fmt.Errorf("%w: verb %q, lane %d, Done given: %t", ErrInvalid, p.Verb, p.Lane, p.Done != nil)
	}
	if p.Fill != nil && (len(p.Fields)+len(p.Body) > 0 || p.Reserve < 0 || envelopeBytes+p.Reserve > MaxRecordBytes) {
		return fmt.Errorf("%w: a command with Fill has %d bytes and reserves %d", ErrInvalid, len(p.Fields)+len(p.Body), p.Reserve)
	}
	return validate(p.Verb, p.Fields, p.Body)
}

// Complete sets Fields and Body of a command with a Fill. Whoever stores the command calls it, once. The error wraps
// ErrNotStored: the command must not be stored then.
func (p *Proposal) Complete() error {
	if p.Fill == nil {
		return nil
	}
	fields, body, err := p.Fill()
	if err == nil {
		err = validate(p.Verb, fields, body)
	}
	if n := len(fields) + len(body); err == nil && n > p.Reserve {
		err = fmt.Errorf("%w: it has %d bytes, and %d were reserved", ErrInvalid, n, p.Reserve)
	}
	if err != nil {
		return fmt.Errorf("%w: fill %s: %w", ErrNotStored, p.Verb, err)
	}
	p.Fields, p.Body = fields, body
	return nil
}

// proposals are the commands that Propose has taken and that are not in a group yet, and the calls of Propose that wait
// for room.
type proposals struct {
	// wake has a value when the committer should look for work: a command is waiting, or a repair should be tried again.
	// Its capacity is 1.
	wake  chan struct{}
	waits atomic.Uint64 // calls of Propose that had to wait for room, since Open

	mu     sync.Mutex // guards the fields below
	lanes  [2]lane
	closed bool  // no more commands are accepted
	failed error // why writes are down; nil when they are up
}

// lane is a queue of proposals with a bound on their bytes.
type lane struct {
	limit   int64
	used    int64       // bytes of all proposals that were taken but not released
	queue   []*Proposal // taken, but not in a group yet
	waiters []*waiter   // not taken yet for lack of room; in the order of arrival
}

// waiter is a call of Propose that waits for room.
type waiter struct {
	p    *Proposal
	err  error         // why the proposal was refused; nil if it was taken
	done chan struct{} // closed when the proposal was taken or refused
}

// fits reports whether a proposal of this cost may join the lane now. A proposal that is larger than the limit may join
// an empty lane.
func (l *lane) fits(cost int64) bool { return l.used == 0 || l.used+cost <= l.limit }

func (l *lane) take(p *Proposal) {
	l.used += p.Cost()
	l.queue = append(l.queue, p)
}

// admit takes waiters, in order, as long as they fit.
func (l *lane) admit() {
	n := 0
	for n < len(l.waiters) && l.fits(l.waiters[n].p.Cost()) {
		l.take(l.waiters[n].p)
		close(l.waiters[n].done)
		n++
	}
	l.waiters = slices.Delete(l.waiters, 0, n)
}

// refuse makes all waiters return err.
func (l *lane) refuse(err error) {
	for _, w := range l.waiters {
		w.err = err
		close(w.done)
	}
	l.waiters = nil
}

// Propose adds p to its lane. It waits while too many bytes of the lane are in flight; control commands wait only if
// the disk no longer answers. An error means that p was not taken and that Done will not be called: ErrClosed,
// ErrFailed with the reason, ErrInvalid, ErrTooLarge, or the error of ctx.
func (j *Journal) Propose(ctx context.Context, p *Proposal) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return j.proposals.add(ctx, p)
}

// Health is nil while Propose takes commands; otherwise ErrFailed with the reason, or ErrClosed.
func (j *Journal) Health() error {
	j.proposals.mu.Lock()
	defer j.proposals.mu.Unlock()
	return j.proposals.refusal()
}

// add takes p, or waits until the lane has room for it.
func (q *proposals) add(ctx context.Context, p *Proposal) error {
	l := &q.lanes[p.Lane]
	q.mu.Lock()
	if err := q.refusal(); err != nil {
		failed := !q.closed
		q.mu.Unlock()
		if failed {
			q.poke() // a caller needs the journal, so try the repair again
		}
		return err
	}
	if len(l.waiters) == 0 && l.fits(p.Cost()) {
		first := len(l.queue) == 0
		l.take(p)
		q.mu.Unlock()
		if first {
			q.poke()
		}
		return nil
	}
	w := &waiter{p: p, done: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	q.mu.Unlock()
	q.waits.Add(1)
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(l.waiters, w); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
		l.admit() // later waiters may be smaller and fit
		q.poke()
		return ctx.Err()
	}
	return w.err // p was taken or refused before ctx ended
}

// refusal returns the reason why no command is taken now, or nil. The caller holds q.mu.
func (q *proposals) refusal() error {
	if q.closed {
		return ErrClosed
	}
	return q.failed
}

// poke wakes the committer if it sleeps.
func (q *proposals) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// waiting returns the number of commands that wait for a group, and whether the bulk commands alone fill a group.
func (q *proposals) waiting() (commands int, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lanes[Control].queue) + len(q.lanes[Bulk].queue), q.lanes[Bulk].used >= maxGroupBytes
}

// maxYields bounds how often gather lets other goroutines run.
const maxYields = 10

// gather lets other goroutines run, by yield, until that brings no more commands, a group is full, or it has yielded
// maxYields times. It returns the number of commands that are waiting then.
func (q *proposals) gather(yield func()) (commands int) {
	commands, _ = q.waiting()
	for n := 0; n < maxYields && commands > 0; n++ {
		yield()
		now, full := q.waiting()
		if now == commands || full {
			return now
		}
		commands = now
	}
	return commands
}

// takeGroup moves the commands of the next group to group: all control commands, then bulk commands up to maxGroupBytes,
// but at least one.
func (q *proposals) takeGroup(group []*Proposal) []*Proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, b := &q.lanes[Control], &q.lanes[Bulk]
	group = append(group, c.queue...)
	clear(c.queue)
	c.queue = c.queue[:0]
	var bytes int64
	n := 0
	for n < len(b.queue) && bytes < maxGroupBytes {
		bytes += b.queue[n].Cost()
		n++
	}
	if n > 1 && bytes > maxGroupBytes {
		n-- // the last one exceeds the bound
	}
	group = append(group, b.queue[:n]...)
	b.queue = slices.Delete(b.queue, 0, n)
	return group
}

// release frees the room of a group after its Deliver has returned, and gives it to waiters.
func (q *proposals) release(group []*Proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range group {
		q.lanes[p.Lane].used -= p.Cost()
	}
	for i := range q.lanes {
		q.lanes[i].admit()
	}
}

// fail makes proposals refuse all commands with err until resume is called. It returns the commands that were taken but
// are not in a group yet.
func (q *proposals) fail(err error) (taken []*Proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed = err
	for i := range q.lanes {
		l := &q.lanes[i]
		l.refuse(err)
		taken = append(taken, l.queue...)
		l.queue = nil
	}
	return taken
}

// resume accepts commands again after fail, and returns the error that fail was called with.
func (q *proposals) resume() (cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	cause, q.failed = q.failed, nil
	return cause
}

// failure returns the reason why writes are down, or nil.
func (q *proposals) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// close refuses all commands that have not been taken yet, and all later commands.
func (q *proposals) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for i := range q.lanes {
		q.lanes[i].refuse(ErrClosed)
	}
}

// inFlight returns the bytes of all commands from Propose to the end of their Deliver, and the bound on them.
func (q *proposals) inFlight() (used, limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.lanes {
		used += q.lanes[i].used
		limit += q.lanes[i].limit
	}
	return used, limit
}
