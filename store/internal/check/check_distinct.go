package check

import (
	"hash/fnv"
	"maps"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
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

// DistinctIndexes reads the rows of the indexes and their leaves, before the spans are looked at.
func (c *checker) distinctIndexes() {
	c.table(row.DistinctTable, func(key string, value []byte) {
		if len(key) == 2 {
			s := row.DecodeDistinctState(key[1], value)
			c.distinct[key[1]] = &distinctCheck{DistinctState: s, x: memory.NewDistinctIndex(s, 0), keys: s.Strategy.DistinctKeys(), leaves: map[string]*distinctLeafCheck{}}
			c.rows[row.DistinctTable]++
			if building := s.Stage == row.CountingActive || s.Stage == row.LiningUp; building != (s.StepAt != 0) {
				c.problem("index %d of prefer_distinct is in stage %d, and its next step is at %d", s.Number, s.Stage, s.StepAt)
			} else if building {
				c.must(row.TimerKey(s.StepAt, row.DistinctTimer, uint64(s.Number), 0, 0))
			}
			return
		}
		d := c.distinct[key[1]]
		if d == nil {
			return // its row belongs to no index
		}
		switch key[2] {
		case row.DistinctLeafRow:
			l := row.DecodeDistinctLeaf(len(d.keys), value)
			name := leafName(l.QueueID, func(key int) (string, bool) { return l.Values[key], l.Has[key] }, len(d.keys))
			if d.leaves[name] != nil {
				c.problem("leaf %x of prefer_distinct is there twice", key)
			}
			d.leaves[name] = &distinctLeafCheck{id: lsm.U64At(key, 3), said: l}
			c.rows[row.DistinctTable]++
			if id := lsm.U64At(key, 3); id == 0 || id > d.DistinctState.Leaves {
				c.problem("leaf %x of prefer_distinct, and there were %d", key, d.DistinctState.Leaves)
			}
		case row.DistinctCountRow:
			n := row.DecodeActive(value)
			if n == 0 {
				c.problem("row %x counts no active jobs", key)
			}
			d.counted += distinctHash(key) * uint64(n)
			c.rows[row.DistinctTable]++
		}
	})
}

// distinctHash returns different numbers for different rows, so that sums over the active jobs of many values take no
// memory per value.
func distinctHash(countKey string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(countKey))
	return job.RandomOf(h.Sum64(), 0, 0, 0)
}

// distinctSpan compares the indexes of prefer_distinct with a span.
func (c *checker) distinctSpan(b *row.Batch, g *row.Group, sp *row.Span) {
	for _, d := range c.distinct {
		at := row.ListKey(g.QueueID, sp.Status, b.Seq, sp.Last)
		switch {
		case sp.Status == job.Active && d.Counts(at):
			client := memory.DecodeQueueName(c.v.Get(row.QueueKey(g.QueueID))).Client
			for key, k := range d.keys {
				if text, ok := g.Meta.Get(k); ok {
					d.active += distinctHash(row.DistinctCountKey(d.Number, key, row.ValueName{client, text})) * uint64(sp.Last-sp.First+1)
				}
			}
		case sp.Status == job.Pending && d.Lines(at):
			l := d.leaves[leafName(g.QueueID, func(key int) (string, bool) { return g.Meta.Get(d.keys[key]) }, len(d.keys))]
			if l == nil {
				c.problem("batch %d: lines %d-%d are in no leaf of %v", b.Seq, sp.First, sp.Last, d.Strategy)
				continue
			}
			w := memory.WaitingOf(sp, b, g)
			if c.must(row.DistinctSpanKey(d.Number, d.x.Base, l.id, &w)); l.spans == 0 || d.x.CompareSpans(&w, &l.first) < 0 {
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
			c.problem("the active jobs of %v are counted otherwise", d.Strategy)
		}
		for _, name := range slices.Sorted(maps.Keys(d.leaves)) {
			if l := d.leaves[name]; l.spans != l.said.Spans || l.first != l.said.First {
				c.problem("leaf %d of %v says %d spans, the first one %+v, and has %d, the first one %+v", l.id, d.Strategy, l.said.Spans, l.said.First, l.spans, l.first)
			}
		}
	}
}
