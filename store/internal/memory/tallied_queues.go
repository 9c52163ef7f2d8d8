package memory

import (
	"cmp"
	"slices"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// tallies count the events of the jobs of queues, for metrics. A bounded number of queues have a row each. All other
// queues share one row. Apply writes the rows but never reads them. They cost nothing while no observer is set.
//
// A queue gets a row when an event happens to its jobs and a row is free. A row is given to a different queue only if
// that queue is much busier, by the moves of the last hour or two: then the old row ends, and the new row begins with
// 0. So a client that creates very many queues takes the rows of others only if each of its queues is busier than
// theirs. The counts of an ended row are not added to the shared row, whose counters would jump.
type tallies struct {
	Observed bool // belongs to the applying goroutine

	Mu       sync.Mutex // guards all below. No goroutine waits for a disk while it holds mu
	limit    int        // of rows
	Rows     []*tally
	ByName   map[row.QueueName]*tally
	others   tally
	counts   job.Counts // of all queues, as of the last commit
	nextDrop int64      // no row of a deleted queue ends earlier; 0: none will end
	// least is a lower bound of the moves that any row had by the end of the hour leastHour.
	least     uint32
	leastHour int32
}

// keepGoneMs is how long the row of a deleted queue stays, so that its last counts are read.
const keepGoneMs = row.HourMs

// Count counts a move of n jobs of a queue.
func (t *tallies) Count(q *Queue, n int64, old, next *job.State, why job.Reason, at int64) {
	if !why.Counts() {
		return
	}
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.rowOf(q, at).Add(uint64(n), old, next, why, at)
}

// RowOf returns the row that counts a move of a queue.
func (t *tallies) rowOf(q *Queue, at int64) *tally {
	hour := hourOf(at)
	if r := q.tally; r != nil && r.queue == q.Id {
		r.moves.Add(hour)
		return r
	}
	q.unrowed.Add(hour)
	r := t.give(q, at)
	if r == nil {
		return &t.others
	}
	r.moves, q.unrowed = q.unrowed, activity{}
	return r
}

// give gives a row to a queue that just had a move, if a row can be had.
func (t *tallies) give(q *Queue, at int64) *tally {
	if r := t.ByName[q.QueueName]; r != nil { // a queue of that name was deleted before
		r.queue, r.goneAt, q.tally = q.Id, 0, r
		return r
	}
	if len(t.Rows) == t.limit {
		t.dropGone(at)
	}
	if len(t.Rows) < t.limit {
		return t.Begin(q, at)
	}
	hour := hourOf(at)
	mine := uint64(q.unrowed.recent(hour))
	if mine&(mine-1) != 0 {
		return nil // looking at all rows at powers of two is often enough
	}
	if t.leastHour == hour && mine <= 2*uint64(t.least) {
		return nil
	}
	victim := slices.MinFunc(t.Rows, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(a.moves.recent(hour), b.moves.recent(hour)), -cmp.Compare(a.goneAt, b.goneAt))
	})
	t.least, t.leastHour = victim.moves.recent(hour), hour
	if mine <= 2*uint64(t.least) {
		return nil
	}
	t.End(victim)
	t.least = 0 // the row with the fewest moves is not known now
	return t.Begin(q, at)
}

// Begin adds a row for a queue.
func (t *tallies) Begin(q *Queue, at int64) *tally {
	r := &tally{QueueName: q.QueueName, queue: q.Id, since: at}
	t.Rows = append(t.Rows, r)
	t.ByName[r.QueueName] = r
	q.tally = r
	if s := q.Committed(); s.There {
		r.shows(s.counts, s.paused, q.floors)
	}
	return r
}

// End ends a row.
func (t *tallies) End(r *tally) {
	r.queue = 0
	delete(t.ByName, r.QueueName)
	t.Rows = slices.DeleteFunc(t.Rows, func(x *tally) bool { return x == r })
}

// dropGone ends the rows of queues that were deleted long ago.
func (t *tallies) dropGone(at int64) {
	if t.nextDrop == 0 || at < t.nextDrop {
		return
	}
	t.nextDrop = 0
	for _, r := range slices.Clone(t.Rows) {
		switch drop := r.goneAt + keepGoneMs; {
		case r.goneAt == 0:
		case drop <= at:
			t.End(r)
		case t.nextDrop == 0 || drop < t.nextDrop:
			t.nextDrop = drop
		}
	}
}

// Observe begins to count at a time, with a row for each existing queue. If there are more than limit, the queues with
// the most unfinished jobs get a row.
func (t *tallies) Observe(limit int, at int64, all map[uint32]*Queue, counts job.Counts) {
	t.Observed = true
	t.Mu.Lock()
	defer t.Mu.Unlock()
	for _, r := range t.Rows {
		r.queue = 0
	}
	t.limit, t.counts, t.Rows, t.ByName, t.nextDrop, t.least = limit, counts, nil, map[row.QueueName]*tally{}, 0, 0
	t.others = tally{since: at}
	var most []*Queue
	better := func(a, b *Queue) int {
		return cmp.Or(cmp.Compare(b.Unfinished(), a.Unfinished()), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Typ, b.Typ))
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
		t.Begin(q, at)
	}
}

// Committed updates the figures of the queues that a commit wrote, and the counts of all queues.
func (t *tallies) Committed(changed []*Queue, counts job.Counts, at int64) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.counts = counts
	for _, q := range changed {
		r := q.tally
		if r == nil || r.queue != q.Id {
			continue
		}
		s := q.State()
		if r.shows(s.counts, s.paused, q.floors); q.Gone {
			r.goneAt, r.paused = at, false
			if t.nextDrop == 0 {
				t.nextDrop = at + keepGoneMs
			}
		}
	}
}

// Figures returns the figures of each queue with a row, and then the shared figures of all other queues.
func (t *tallies) Figures(now int64) []QueueFigures {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.ByName == nil {
		return nil
	}
	t.dropGone(now)
	others := t.others.Figures()
	others.PendingSince = -1
	others.Deferred, others.Pending, others.Active = t.counts[job.Deferred], t.counts[job.Pending], t.counts[job.Active]
	all := make([]QueueFigures, 0, len(t.Rows)+1)
	for _, r := range t.Rows {
		f := r.Figures()
		others.Deferred -= f.Deferred
		others.Pending -= f.Pending
		others.Active -= f.Active
		all = append(all, f)
	}
	return append(all, others)
}
