package journal

import (
	"context"
	"fmt"
	"slices"
)

// Lane says whether a command waits for its turn.
type Lane int

const (
	// Control commands (claim, tickle, complete, release, tick) always join the next group.
	Control Lane = iota
	// Bulk commands (creates, outputs) fill what is left of a group, and wait while too many bytes are in flight.
	Bulk
)

// Proposal is a command on its way to the journal. It belongs to the journal from Propose until Done; what Fields, Body
// and Tag point to belongs to the receiver of Deliver from then on, so none of it may ever be used again by the
// proposer: a recycled body once made a record of one command and an answer to another.
type Proposal struct {
	Lane   Lane
	Verb   string // [a-z]+, not MarkVerb
	Fields []byte
	Body   []byte
	Tag    any
	// Done is called exactly once, from the committer's goroutine: after the group's fsync with err nil, or when the
	// fate is known otherwise, with seq 0 and an err that is ErrNotStored or ErrUnknown. Synced() is at or above seq by
	// then. It must not block: all answers of all groups pass through here.
	Done func(seq uint64, at int64, err error)
}

// proposalOverhead is what a proposal without fields and body is counted as: its own size, its record's, its closure's.
const proposalOverhead = 256

func (p *Proposal) cost() int64 { return int64(proposalOverhead + len(p.Fields) + len(p.Body)) }

// lane is a queue of proposals, bounded in bytes. Guarded by Journal.mu.
type lane struct {
	limit   int64
	used    int64       // bytes of all that was taken and not yet given back
	queue   []*Proposal // taken, not in a group yet
	waiters []*waiter   // not taken yet, for lack of room; in the order of arrival
}

// waiter is a Propose that waits for room.
type waiter struct {
	p    *Proposal
	err  error         // why it was not taken, if it was not
	done chan struct{} // closed when its fate is known
}

// fits reports whether p may join now. One that is larger than the whole limit may when it is alone.
func (l *lane) fits(cost int64) bool { return l.used == 0 || l.used+cost <= l.limit }

func (l *lane) take(p *Proposal) {
	l.used += p.cost()
	l.queue = append(l.queue, p)
}

// Propose puts p into its lane. It blocks while the lane's bytes in flight are at their cap: for control commands that
// means a disk that has stopped answering. An error means that p was not taken and Done will not be called: ErrClosed,
// ErrFailed with the reason, ErrInvalid, ErrTooLarge, or ctx's error.
func (j *Journal) Propose(ctx context.Context, p *Proposal) error {
	if p.Verb == MarkVerb || p.Done == nil || p.Lane != Control && p.Lane != Bulk {
		return fmt.Errorf("%w: verb %q, lane %d, Done given: %t", ErrInvalid, p.Verb, p.Lane, p.Done != nil)
	}
	if err := validate(p.Verb, p.Fields, p.Body); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l := &j.lanes[p.Lane]
	j.mu.Lock()
	if err := j.refusal(); err != nil {
		failed := !j.closed
		j.mu.Unlock()
		if failed {
			j.poke() // a command waits: worth another attempt at the repair
		}
		return err
	}
	if len(l.waiters) == 0 && l.fits(p.cost()) {
		first := len(l.queue) == 0
		l.take(p)
		j.mu.Unlock()
		if first {
			j.poke()
		}
		return nil
	}
	w := &waiter{p: p, done: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	j.mu.Unlock()
	j.stats.waits.Add(1)
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.Index(l.waiters, w); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
		l.admit() // the next one may fit where this one did not
		j.poke()
		return ctx.Err()
	}
	return w.err // its fate was decided first
}

// refusal says why nothing is taken now. j.mu is held.
func (j *Journal) refusal() error {
	if j.closed {
		return ErrClosed
	}
	return j.failed
}

// poke wakes the committer if it sleeps.
func (j *Journal) poke() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// admit takes as many waiters as fit. j.mu is held.
func (l *lane) admit() {
	n := 0
	for n < len(l.waiters) && l.fits(l.waiters[n].p.cost()) {
		l.take(l.waiters[n].p)
		close(l.waiters[n].done)
		n++
	}
	l.waiters = slices.Delete(l.waiters, 0, n)
}

// refuse ends the wait of all waiters with err. j.mu is held.
func (l *lane) refuse(err error) {
	for _, w := range l.waiters {
		w.err = err
		close(w.done)
	}
	l.waiters = nil
}

// takeGroup moves what the next group is made of into group: all control, then bulk until it has maxGroupBytes or one.
func (j *Journal) takeGroup(group []*Proposal) []*Proposal {
	j.mu.Lock()
	defer j.mu.Unlock()
	c, b := &j.lanes[Control], &j.lanes[Bulk]
	group = append(group, c.queue...)
	clear(c.queue)
	c.queue = c.queue[:0]
	var bytes int64
	n := 0
	for n < len(b.queue) && bytes < maxGroupBytes {
		bytes += b.queue[n].cost()
		n++
	}
	if n > 1 && bytes > maxGroupBytes {
		n-- // the last one exceeds the bound and is not the only one
	}
	group = append(group, b.queue[:n]...)
	b.queue = slices.Delete(b.queue, 0, n)
	return group
}

// release gives back the bytes of a group whose Deliver has returned, and takes waiters in their place.
func (j *Journal) release(group []*Proposal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range group {
		j.lanes[p.Lane].used -= p.cost()
	}
	for i := range j.lanes {
		j.lanes[i].admit()
	}
}
