package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// distinctIndexes are the indexes of the strategies of prefer_distinct that claims have used lately, by number.
type distinctIndexes struct{ list []*distinctIndex }

const (
	// maxDistinctIndexes bounds the number of indexes. A claim with a new strategy replaces the index that was used
	// least recently, if its last noted use was at least distinctUnusedMs ago.
	maxDistinctIndexes = 8
	// distinctUnusedMs is how old the last noted use of an index must be before the index is replaced. Then the index
	// has been unused for at least a minute, because uses are noted with an error of up to distinctNoteMs.
	distinctUnusedMs = distinctNoteMs + 60_000
	// distinctIdleMs is how long after its last claim an index is kept.
	distinctIdleMs = 60 * 60_000
	// distinctNoteMs is how exactly the time of the last claim is noted, so that most claims need not write the row.
	distinctNoteMs = 60_000
	// distinctAgainMs is how long after a line was dropped it may be built again. A line that is too long does not
	// become short soon, and an order of levels should last for a while.
	distinctAgainMs = 10 * 60_000
)

// bytes is about how much memory all indexes take together.
func (d *distinctIndexes) bytes() (n int) {
	for _, x := range d.list {
		n += x.bytes
	}
	return n
}

// paused updates the indexes when a queue is paused or resumed.
func (d *distinctIndexes) paused(q *queue) {
	for _, x := range d.list {
		if root := x.roots[q.id]; root != nil {
			root.q.paused = q.paused
			x.rerank(root)
		}
	}
}

// flush writes the changed rows of an index and of its leaves.
func (x *distinctIndex) flush(o *lsm.Overlay) {
	x.dirty = false
	if x.gone {
		return
	}
	o.Set(distinctKey(x.number), x.encode())
	for _, n := range x.unwritten {
		n.dirty = false
		if n.spans == 0 {
			o.Delete(distinctLeafKey(x.number, n.id))
			continue
		}
		l := distinctLeaf{queueID: n.q.id, spans: n.spans, first: n.first}
		for at := n; at.depth > 0; at = at.parent {
			if key := x.levels[at.depth-1]; at.value != nil {
				l.has[key], l.values[key] = true, at.value.text
			}
		}
		o.Set(distinctLeafKey(x.number, n.id), l.encode(len(x.keys)))
	}
	clear(x.unwritten)
	x.unwritten = x.unwritten[:0]
}

// readDistinct reads the index of a strategy. A value with more than most nodes is wide.
func readDistinct(r lsm.Rows, s distinctState, queueOf func(id uint32) *queue, most int) *distinctIndex {
	x := newDistinctIndex(s, most)
	r.Scan(distinctPrefix(s.number, distinctLeafRow), distinctPrefix(s.number, distinctCountRow), func(key string, value []byte) bool {
		l := decodeDistinctLeaf(len(x.keys), value)
		q := queueOf(l.queueID)
		if q == nil {
			lsm.Contradict("find queue", "leaf %x is of queue %d, which has no row", key, l.queueID)
		}
		var values [job.MaxDistinctKeys]*distinctValue
		for k := range x.keys {
			if l.has[k] {
				values[k] = x.value(k, valueName{q.client, l.values[k]}, func(int, valueName) int64 { return 0 })
			}
		}
		n := x.leaf(q, &values)
		n.id, n.spans, n.first = lsm.U64At(key, 3), l.spans, l.first
		return true
	})
	if x.lined > 0 {
		r.Scan(distinctPrefix(s.number, distinctCountRow), distinctPrefix(s.number, distinctSpanRow), func(key string, value []byte) bool {
			k, name := splitDistinctCountKey(key)
			if k >= len(x.keys) {
				lsm.Contradict("decode", "%x counts a key that %v does not have", key, x.strategy)
			}
			if v := x.values[k][name]; v != nil {
				v.active = decodeActive(value)
			}
			return true
		})
	}
	for _, values := range x.values {
		for _, v := range values {
			if v.ranked = v.active; len(v.nodes) > most {
				v.wide, v.ranked = true, 0
				x.wide++
			}
			v.unsettled = false
		}
	}
	x.unsettled = nil
	x.rankAll()
	return x
}
