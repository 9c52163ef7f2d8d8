package store

import (
	"cmp"
	"slices"
	"sync"

	"github.com/daybookq/daybook/job"
)

// tallies count the events of the jobs of queues, for metrics. A bounded number of queues have a row each. All other
// queues share one row. Apply writes the rows but never reads them. They cost nothing while no observer is set.
//
// A queue gets a row when an event happens to its jobs and a row is free. A row is given to a different queue only if
// that queue is much busier, by the moves of the last hour or two: then the old row ends, and the new row begins with
// 0. So a client that creates very many queues takes the rows of others only if each of its queues is busier than
// theirs. The counts of an ended row are not added to the shared row, whose counters would jump.
type tallies struct {
	observed bool // belongs to the applying goroutine

	mu       sync.Mutex // guards all below. No goroutine waits for a disk while it holds mu
	limit    int        // of rows
	rows     []*tally
	byName   map[queueName]*tally
	others   tally
	counts   job.Counts // of all queues, as of the last commit
	nextDrop int64      // no row of a deleted queue ends earlier; 0: none will end
	// least is a lower bound of the moves that any row had by the end of the hour leastHour.
	least     uint32
	leastHour int32
}

// keepGoneMs is how long the row of a deleted queue stays, so that its last counts are read.
const keepGoneMs = hourMs

// count counts a move of n jobs of a queue.
func (t *tallies) count(q *queue, n int64, old, next *job.State, why reason, at int64) {
	if !why.counts() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rowOf(q, at).add(uint64(n), old, next, why, at)
}

// rowOf returns the row that counts a move of a queue.
func (t *tallies) rowOf(q *queue, at int64) *tally {
	hour := hourOf(at)
	if r := q.tally; r != nil && r.queue == q.id {
		r.moves.add(hour)
		return r
	}
	q.unrowed.add(hour)
	r := t.give(q, at)
	if r == nil {
		return &t.others
	}
	r.moves, q.unrowed = q.unrowed, activity{}
	return r
}

// give gives a row to a queue that just had a move, if a row can be had.
func (t *tallies) give(q *queue, at int64) *tally {
	if r := t.byName[q.queueName]; r != nil { // a queue of that name was deleted before
		r.queue, r.goneAt, q.tally = q.id, 0, r
		return r
	}
	if len(t.rows) == t.limit {
		t.dropGone(at)
	}
	if len(t.rows) < t.limit {
		return t.begin(q, at)
	}
	hour := hourOf(at)
	mine := uint64(q.unrowed.recent(hour))
	if mine&(mine-1) != 0 {
		return nil // looking at all rows at powers of two is often enough
	}
	if t.leastHour == hour && mine <= 2*uint64(t.least) {
		return nil
	}
	victim := slices.MinFunc(t.rows, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(a.moves.recent(hour), b.moves.recent(hour)), -cmp.Compare(a.goneAt, b.goneAt))
	})
	t.least, t.leastHour = victim.moves.recent(hour), hour
	if mine <= 2*uint64(t.least) {
		return nil
	}
	t.end(victim)
	t.least = 0 // the row with the fewest moves is not known now
	return t.begin(q, at)
}

// begin adds a row for a queue.
func (t *tallies) begin(q *queue, at int64) *tally {
	r := &tally{queueName: q.queueName, queue: q.id, since: at}
	t.rows = append(t.rows, r)
	t.byName[r.queueName] = r
	q.tally = r
	if s := q.committed(); s.there {
		r.shows(s.counts, s.paused, q.floors)
	}
	return r
}

// end ends a row.
func (t *tallies) end(r *tally) {
	r.queue = 0
	delete(t.byName, r.queueName)
	t.rows = slices.DeleteFunc(t.rows, func(x *tally) bool { return x == r })
}

// dropGone ends the rows of queues that were deleted long ago.
func (t *tallies) dropGone(at int64) {
	if t.nextDrop == 0 || at < t.nextDrop {
		return
	}
	t.nextDrop = 0
	for _, r := range slices.Clone(t.rows) {
		switch drop := r.goneAt + keepGoneMs; {
		case r.goneAt == 0:
		case drop <= at:
			t.end(r)
		case t.nextDrop == 0 || drop < t.nextDrop:
			t.nextDrop = drop
		}
	}
}

// observe begins to count at a time, with a row for each existing queue. If there are more than limit, the queues with
// the most unfinished jobs get a row.
func (t *tallies) observe(limit int, at int64, all map[uint32]*queue, counts job.Counts) {
	t.observed = true
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		r.queue = 0
	}
	t.limit, t.counts, t.rows, t.byName, t.nextDrop, t.least = limit, counts, nil, map[queueName]*tally{}, 0, 0
	t.others = tally{since: at}
	var most []*queue
	better := func(a, b *queue) int {
		return cmp.Or(cmp.Compare(b.unfinished(), a.unfinished()), cmp.Compare(a.client, b.client), cmp.Compare(a.typ, b.typ))
	}
	for _, q := range all {
		if n := len(most); n == limit && better(q, most[n-1]) > 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(most, q, better)
		most = slices.Insert(most, i, q)
		most = most[:min(len(most), limit)]
	}
	for _, q := range most {
		t.begin(q, at)
	}
}

// committed updates the figures of the queues that a commit wrote, and the counts of all queues.
func (t *tallies) committed(changed []*queue, counts job.Counts, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = counts
	for _, q := range changed {
		r := q.tally
		if r == nil || r.queue != q.id {
			continue
		}
		s := q.state()
		if r.shows(s.counts, s.paused, q.floors); q.gone {
			r.goneAt, r.paused = at, false
			if t.nextDrop == 0 {
				t.nextDrop = at + keepGoneMs
			}
		}
	}
}

// figures returns the figures of each queue with a row, and then the shared figures of all other queues.
func (t *tallies) figures(now int64) []QueueFigures {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName == nil {
		return nil
	}
	t.dropGone(now)
	others := t.others.figures()
	others.PendingSince = -1
	others.Deferred, others.Pending, others.Active = t.counts[job.Deferred], t.counts[job.Pending], t.counts[job.Active]
	all := make([]QueueFigures, 0, len(t.rows)+1)
	for _, r := range t.rows {
		f := r.figures()
		others.Deferred -= f.Deferred
		others.Pending -= f.Pending
		others.Active -= f.Active
		all = append(all, f)
	}
	return append(all, others)
}
