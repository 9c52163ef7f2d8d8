package query

import (
	"math"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Begin finds where the list begins. It returns false if no batch is there.
func (l *lister) Begin() (ok bool) {
	switch l.f.Order {
	case Updated:
		l.from, ok = l.beginMoved()
	case Newest:
		l.from, ok = l.beginDown()
	default:
		ok = l.beginUp()
	}
	return ok
}

// beginUp finds the first position of a list in the order of ids. Ids are in the order of time, seq and line,
// and the times of batches never decrease with their seqs. So if no batch has the id, a binary search finds its place.
func (l *lister) beginUp() bool {
	after := l.f.After.ID
	at, seq := after.At(), uint64(0)
	switch {
	case l.f.CreatedAfter > at:
		at = l.f.CreatedAfter
	case after.IsZero():
		return true
	default:
		var there bool
		if seq, there = l.seqOf(after); there {
			l.from.Position = row.Position{seq, uint32(after.Line()) + 1}
			return true
		}
	}
	first, ok := l.firstFrom(at, seq)
	l.from.Position = row.Position{Seq: first}
	return ok
}

// seqOf returns the seq of the batch that an id names. If there is none any more, it returns the seq that the batch can have had.
func (l *lister) seqOf(id job.ID) (seq uint64, there bool) {
	seqs := l.live.Seqs(id)
	for _, seq := range seqs.All() {
		if value := l.v.Get(row.SeqKey(row.BatchTable, seq)); value != nil && timeOf(value) == id.At() {
			return seq, true
		}
	}
	return seqs.Seqs[0], false
}

// firstFrom returns the seq of the first batch that was created at a time with at least a seq, or later. No batch need have it. ok is false
// if all batches were created before that time.
func (l *lister) firstFrom(at int64, seq uint64) (first uint64, ok bool) {
	first, firstAt, ok := firstOf(l.v, row.BatchTable, at)
	if firstAt == at && seq > first { // after some batches of that millisecond, and before all later batches
		first = seq
		if later, _, ok := firstOf(l.v, row.BatchTable, at+1); ok {
			first = min(first, later)
		}
	}
	return first, ok
}

// lastPosition is behind all jobs.
var lastPosition = row.Position{math.MaxUint64, math.MaxUint32}

// before returns the last position that a line of a batch before one with a seq can have.
func before(seq uint64) (row.Position, bool) {
	return row.Position{seq - 1, math.MaxUint32}, seq > 0
}

// beginDown finds the first position of a list in the opposite order of ids.
func (l *lister) beginDown() (from place, ok bool) {
	from, ok = place{Position: lastPosition}, true
	if after := l.f.After.ID; !after.IsZero() {
		if from.Position, ok = l.lastBefore(after); !ok {
			return from, false
		}
	}
	if end := l.f.CreatedBefore; end != 0 {
		if first, _, there := firstOf(l.v, row.BatchTable, end); there && first <= from.Seq {
			from.Position, ok = before(first)
		}
	}
	return from, ok
}

// lastBefore returns the last position before an id in the order of ids.
func (l *lister) lastBefore(id job.ID) (row.Position, bool) {
	seq, there := l.seqOf(id)
	switch line := uint32(id.Line()); {
	case there && line > 0:
		return row.Position{seq, line - 1}, true
	case there:
		return before(seq)
	}
	end, ok := l.firstFrom(id.At(), seq)
	if !ok {
		return lastPosition, true
	}
	return before(end)
}

// firstOf returns the first batch or claim that was made at or after a time.
func firstOf(v lsm.View, table byte, at int64) (seq uint64, seqAt int64, ok bool) {
	probe := func(from uint64) (seq uint64, seqAt int64, ok bool) {
		v.Scan(row.SeqKey(table, from), string(table+1), func(key string, value []byte) bool {
			seq, seqAt, ok = row.SeqOfKey(key), timeOf(value), true
			return false
		})
		return seq, seqAt, ok
	}
	// Invariant: all before low are too early. If ok, found is not too early.
	low, high := uint64(0), lastOf(v, table)+1
	for low < high {
		mid := low + (high-low)/2
		found, foundAt, there := probe(mid)
		if there && foundAt < at {
			low = found + 1
			continue
		}
		if there {
			seq, seqAt, ok = found, foundAt, true
		}
		high = mid
	}
	return seq, seqAt, ok
}

// lastOf returns the seq of the newest batch or claim, or 0 if there is none.
func lastOf(v lsm.View, table byte) (seq uint64) {
	v.ScanDown(string(table), string(table+1), func(key string, _ []byte) bool {
		seq = row.SeqOfKey(key)
		return false
	})
	return seq
}

// timeOf decodes only the time in the row of a batch or claim, which comes first.
func timeOf(value []byte) int64 {
	d := lsm.Decoder(value)
	return d.Int()
}
