package query

import (
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Begin finds where the list begins. It returns false if no batch is there. Ids are in the order of time, seq and line,
// and the times of batches never decrease with their seqs. So if no batch has the id, a binary search finds its place.
func (l *lister) Begin() bool {
	at := l.f.After.At()
	var from row.Position
	switch {
	case l.f.CreatedAfter > at:
		at = l.f.CreatedAfter
	case l.f.After.IsZero():
		return true
	default:
		seqs := l.live.Seqs(l.f.After)
		from = row.Position{seqs.Seqs[0], uint32(l.f.After.Line()) + 1}
		for _, seq := range seqs.All() {
			if value := l.v.Get(row.SeqKey(row.BatchTable, seq)); value != nil && batchAt(value) == at {
				l.from = row.Position{seq, from.Line}
				return true
			}
		}
	}
	first, firstAt, ok := firstBatch(l.v, at)
	if firstAt == at && from.Seq > first { // after some batches of that millisecond, and before all later batches
		first = from.Seq
		if later, _, ok := firstBatch(l.v, at+1); ok {
			first = min(first, later)
		}
	}
	l.from = row.Position{Seq: first}
	return ok
}

// firstBatch returns the first batch that was created at or after a time.
func firstBatch(v lsm.View, at int64) (seq uint64, seqAt int64, ok bool) {
	probe := func(from uint64) (seq uint64, seqAt int64, ok bool) {
		v.Scan(row.SeqKey(row.BatchTable, from), string(row.BatchTable+1), func(key string, value []byte) bool {
			seq, seqAt, ok = row.SeqOfKey(key), batchAt(value), true
			return false
		})
		return seq, seqAt, ok
	}
	// Invariant: all batches before low are too early. If ok, found is not too early.
	low, high := uint64(0), lastBatch(v)+1
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

// lastBatch returns the seq of the newest batch, or 0 if there is none.
func lastBatch(v lsm.View) (seq uint64) {
	v.ScanDown(string(row.BatchTable), string(row.BatchTable+1), func(key string, _ []byte) bool {
		seq = row.SeqOfKey(key)
		return false
	})
	return seq
}

// BatchAt decodes only the time in a batch's row, which comes first.
func batchAt(value []byte) int64 {
	d := lsm.Decoder(value)
	return d.Int()
}
