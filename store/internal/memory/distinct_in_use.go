package memory

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// DistinctIndexes are the indexes of the strategies of prefer_distinct that claims have used lately, by number.
type DistinctIndexes struct{ List []*DistinctIndex }

const (
	// MaxDistinctIndexes bounds the number of indexes. A claim with a new strategy replaces the index that was used
	// least recently, if its last noted use was at least DistinctUnusedMs ago.
	MaxDistinctIndexes = 8
	// DistinctUnusedMs is how old the last noted use of an index must be before the index is replaced. Then the index
	// has been unused for at least a minute, because uses are noted with an error of up to DistinctNoteMs.
	DistinctUnusedMs = DistinctNoteMs + 60_000
	// DistinctIdleMs is how long after its last claim an index is kept.
	DistinctIdleMs = 60 * 60_000
	// DistinctNoteMs is how exactly the time of the last claim is noted, so that most claims need not write the row.
	DistinctNoteMs = 60_000
	// DistinctAgainMs is how long after a line was dropped it may be built again. A line that is too long does not
	// become short soon, and an order of levels should last for a while.
	DistinctAgainMs = 10 * 60_000
)

// Bytes is about how much memory all indexes take together.
func (d *DistinctIndexes) Bytes() (n int) {
	for _, x := range d.List {
		n += x.Bytes
	}
	return n
}

// Paused updates the indexes when a queue is paused or resumed.
func (d *DistinctIndexes) Paused(q *Queue) {
	for _, x := range d.List {
		if root := x.Roots[q.Id]; root != nil {
			root.Q.paused = q.Paused
			x.Rerank(root)
		}
	}
}

// Flush writes the changed rows of an index and of its leaves.
func (x *DistinctIndex) Flush(o *lsm.Overlay) {
	x.Dirty = false
	if x.Gone {
		return
	}
	o.Set(row.DistinctKey(x.Number), x.Encode())
	for _, n := range x.Unwritten {
		n.Dirty = false
		if n.Spans == 0 {
			o.Delete(row.DistinctLeafKey(x.Number, n.Id))
			continue
		}
		l := row.DistinctLeaf{QueueID: n.Q.Id, Spans: n.Spans, First: n.First}
		for at := n; at.Depth > 0; at = at.Parent {
			if key := x.Levels[at.Depth-1]; at.Value != nil {
				l.Has[key], l.Values[key] = true, at.Value.Text
			}
		}
		o.Set(row.DistinctLeafKey(x.Number, n.Id), l.Encode(len(x.Keys)))
	}
	clear(x.Unwritten)
	x.Unwritten = x.Unwritten[:0]
}

// ReadDistinct reads the index of a strategy. A value with more than most nodes is wide.
func ReadDistinct(r lsm.Rows, s row.DistinctState, queueOf func(id uint32) *Queue, most int) *DistinctIndex {
	x := NewDistinctIndex(s, most)
	r.Scan(row.DistinctPrefix(s.Number, row.DistinctLeafRow), row.DistinctPrefix(s.Number, row.DistinctCountRow), func(key string, value []byte) bool {
		l := row.DecodeDistinctLeaf(len(x.Keys), value)
		q := queueOf(l.QueueID)
		if q == nil {
			lsm.Contradict("find queue", "leaf %x is of queue %d, which has no row", key, l.QueueID)
		}
		var values [job.MaxDistinctKeys]*DistinctValue
		for k := range x.Keys {
			if l.Has[k] {
				values[k] = x.Value(k, row.ValueName{q.Client, l.Values[k]}, func(int, row.ValueName) int64 { return 0 })
			}
		}
		n := x.Leaf(q, &values)
		n.Id, n.Spans, n.First = lsm.U64At(key, 3), l.Spans, l.First
		return true
	})
	if x.Lined > 0 {
		r.Scan(row.DistinctPrefix(s.Number, row.DistinctCountRow), row.DistinctPrefix(s.Number, row.DistinctSpanRow), func(key string, value []byte) bool {
			k, name := row.SplitDistinctCountKey(key)
			if k >= len(x.Keys) {
				lsm.Contradict("decode", "%x counts a key that %v does not have", key, x.Strategy)
			}
			if v := x.Values[k][name]; v != nil {
				v.Active = row.DecodeActive(value)
			}
			return true
		})
	}
	for _, values := range x.Values {
		for _, v := range values {
			if v.Ranked = v.Active; len(v.Nodes) > most {
				v.Wide, v.Ranked = true, 0
				x.Wide++
			}
			v.unsettled = false
		}
	}
	x.unsettled = nil
	x.rankAll()
	return x
}
