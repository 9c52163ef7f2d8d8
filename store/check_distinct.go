package store

import (
	"hash/fnv"
	"maps"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// leafName is a leaf by its queue and values.
func leafName(queueID uint32, of func(key int) (value string, has bool), keys int) string {
	var e lsm.Encoder
	e.Uint(uint64(queueID))
	for key := range keys {
		value, has := of(key)
		if e.Bool(has); has {
			e.Text(value)
		}
	}
	return string(e)
}

// distinctIndexes reads the rows of the indexes and their leaves, before the spans are looked at.
func (c *checker) distinctIndexes() {
	c.table(distinctTable, func(key string, value []byte) {
		if len(key) == 2 {
			s := decodeDistinctState(key[1], value)
			c.distinct[key[1]] = &distinctCheck{distinctState: s, x: newDistinctIndex(s, 0), keys: s.strategy.DistinctKeys(), leaves: map[string]*distinctLeafCheck{}}
			c.rows[distinctTable]++
			if building := s.stage == countingActive || s.stage == liningUp; building != (s.stepAt != 0) {
				c.problem("index %d of prefer_distinct is in stage %d, and its next step is at %d", s.number, s.stage, s.stepAt)
			} else if building {
				c.must(timerKey(s.stepAt, distinctTimer, uint64(s.number), 0, 0))
			}
			return
		}
		d := c.distinct[key[1]]
		if d == nil {
			return // its row belongs to no index
		}
		switch key[2] {
		case distinctLeafRow:
			l := decodeDistinctLeaf(len(d.keys), value)
			name := leafName(l.queueID, func(key int) (string, bool) { return l.values[key], l.has[key] }, len(d.keys))
			if d.leaves[name] != nil {
				c.problem("leaf %x of prefer_distinct is there twice", key)
			}
			d.leaves[name] = &distinctLeafCheck{id: lsm.U64At(key, 3), said: l}
			c.rows[distinctTable]++
			if id := lsm.U64At(key, 3); id == 0 || id > d.distinctState.leaves {
				c.problem("leaf %x of prefer_distinct, and there were %d", key, d.distinctState.leaves)
			}
		case distinctCountRow:
			n := decodeActive(value)
			if n == 0 {
				c.problem("row %x counts no active jobs", key)
			}
			d.counted += distinctHash(key) * uint64(n)
			c.rows[distinctTable]++
		}
	})
}

// distinctHash returns different numbers for different rows, so that sums over the active jobs of many values take no
// memory per value.
func distinctHash(countKey string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(countKey))
	return mix(h.Sum64(), 0, 0, 0)
}

// distinctSpan compares the indexes of prefer_distinct with a span.
func (c *checker) distinctSpan(b *batch, g *group, sp *span) {
	for _, d := range c.distinct {
		at := listKey(g.queueID, sp.Status, b.seq, sp.last)
		switch {
		case sp.Status == job.Active && d.counts(at):
			client := decodeQueueName(c.v.Get(queueKey(g.queueID))).client
			for key, k := range d.keys {
				if text, ok := g.Meta.Get(k); ok {
					d.active += distinctHash(distinctCountKey(d.number, key, valueName{client, text})) * uint64(sp.last-sp.first+1)
				}
			}
		case sp.Status == job.Pending && d.lines(at):
			l := d.leaves[leafName(g.queueID, func(key int) (string, bool) { return g.Meta.Get(d.keys[key]) }, len(d.keys))]
			if l == nil {
				c.problem("batch %d: lines %d-%d are in no leaf of %v", b.seq, sp.first, sp.last, d.strategy)
				continue
			}
			w := waitingOf(sp, b, g)
			if c.must(distinctSpanKey(d.number, d.x.base, l.id, &w)); l.spans == 0 || d.x.compareSpans(&w, &l.first) < 0 {
				l.first = w
			}
			l.spans++
		}
	}
}

// distinctLeaves compares the rows of the leaves with their spans.
func (c *checker) distinctLeaves() {
	for _, number := range slices.Sorted(maps.Keys(c.distinct)) {
		d := c.distinct[number]
		if d.counted != d.active {
			c.problem("the active jobs of %v are counted otherwise", d.strategy)
		}
		for _, name := range slices.Sorted(maps.Keys(d.leaves)) {
			if l := d.leaves[name]; l.spans != l.said.spans || l.first != l.said.first {
				c.problem("leaf %d of %v says %d spans, the first one %+v, and has %d, the first one %+v", l.id, d.strategy, l.said.spans, l.said.first, l.spans, l.first)
			}
		}
	}
}
