package check

import (
	"maps"
	"slices"

	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// names checks the queues: their numbers, names and counters.
func (c *checker) names() {
	known := map[row.QueueName]bool{}
	c.table(row.QueueTable, func(key string, value []byte) {
		q := memory.DecodeQueue(lsm.U32At(key, 1), value)
		if name := (q.QueueName); known[name] {
			c.problem("queue %s/%s is there twice", q.Client, q.Typ)
		} else {
			known[name] = true
		}
		if q.Id == 0 || q.Id >= c.meta.NextQueue {
			c.problem("queue %s/%s has number %d, and the next one is %d", q.Client, q.Typ, q.Id, c.meta.NextQueue)
		}
		if idle := q.Empty() && !q.Configured(); idle != (q.IdleAt != 0) || q.IdleAt > c.meta.At {
			c.problem("queue %s/%s has %d jobs, and has been idle since %d", q.Client, q.Typ, q.Counts.Total(), q.IdleAt)
		}
		r := c.queue(q.Id)
		delete(c.queues, q.Id)
		if r.counts != q.Counts {
			c.problem("queue %s/%s counts %v, and has %v", q.Client, q.Typ, q.Counts, r.counts)
		}
		if r.bytes != q.PayloadBytes {
			c.problem("queue %s/%s counts %d bytes of payloads, and has %d", q.Client, q.Typ, q.PayloadBytes, r.bytes)
		}
		if r.priorities&^q.Priorities != 0 || q.Empty() && q.Priorities != 0 {
			c.problem("queue %s/%s has jobs of the priorities %b, and notes %b", q.Client, q.Typ, r.priorities, q.Priorities)
		}
		for l := q.Lanes; l != nil; l = l.Next {
			got := r.Lane(l.LaneID)
			if got.pending != l.Pending {
				c.problem("queue %s/%s counts %d pending at priority %d class %d, and has %d", q.Client, q.Typ, l.Pending, l.Priority, l.Class, got.pending)
			}
			got.pending = 0
			c.Lane(q, l)
		}
		for _, l := range r.lanes {
			if l.pending != 0 {
				c.problem("queue %s/%s counts no pending at priority %d class %d, and has %d", q.Client, q.Typ, l.Priority, l.Class, l.pending)
			}
		}
	})
	for _, id := range slices.Sorted(maps.Keys(c.queues)) {
		c.problem("queue %d has jobs and no row", id)
	}
}

// Lane checks the head, the bounds, the number of spans and the cells of a lane against its ready rows.
func (c *checker) Lane(q *memory.Queue, l *memory.Lane) {
	var cells [len(row.CellLevels)]*row.Cell // the cell of each level that the last span was in, as recounted
	first, last, spans := "", "", int64(0)
	lane := row.LaneKey(q.Id, l.LaneID)
	c.v.Scan(lane, lsm.After(lane), func(key string, _ []byte) bool {
		if first == "" {
			first = key
		}
		last = key
		spans++
		if !l.Divided || !row.WellFormed(key) {
			return true
		}
		_, _, end := row.SplitReadyKey(key)
		jobs := int64(0)
		if value := c.v.Get(row.LineKey(row.SpanTable, end.Seq, end.Line)); value != nil {
			sp := row.DecodeSpan(end.Line, value)
			jobs = int64(sp.Last-sp.First) + 1
		}
		for level := range cells {
			at := row.CellKey(key, level)
			if cells[level] == nil || cells[level].Key != at {
				c.cells(cells[level:])
				cells[level] = &row.Cell{Key: at}
				if value := c.v.Get(at); value != nil {
					cells[level].Divided = row.DecodeCell(at, value).Divided
				}
			}
			cells[level].Jobs += jobs
			if cells[level].Spans++; !cells[level].Divided {
				break
			}
		}
		return true
	})
	c.cells(cells[:])
	if head := l.Key(q.Id, &l.Head); first != head {
		c.problem("queue %s/%s has %x next in line, and counts %x as that", q.Client, q.Typ, first, head)
	}
	if tail := l.Key(q.Id, &l.Tail); last != tail {
		c.problem("queue %s/%s has %x last in line, and counts %x as that", q.Client, q.Typ, last, tail)
	}
	if spans != l.Spans {
		c.problem("queue %s/%s counts %d pending spans at priority %d class %d, and has %d", q.Client, q.Typ, l.Spans, l.Priority, l.Class, spans)
	}
	if l.Divided && c.rules.Few(spans) || !l.Divided && spans > c.rules.CellSpans {
		c.problem("queue %s/%s has %d pending spans at priority %d class %d: divided into cells %v", q.Client, q.Typ, spans, l.Priority, l.Class, l.Divided)
	}
}

// cells checks the rows of cells whose spans have been counted, and forgets the counts.
func (c *checker) cells(counted []*row.Cell) {
	for i, want := range counted {
		if counted[i] = nil; want == nil {
			continue
		}
		c.must(want.Key)
		value := c.v.Get(want.Key)
		if value == nil {
			continue
		}
		level := int(want.Key[row.OrderAt])
		switch got := row.DecodeCell(want.Key, value); {
		case got.Jobs != want.Jobs || got.Spans != want.Spans:
			c.problem("cell %x counts %d jobs in %d spans, and has %d in %d", want.Key, got.Jobs, got.Spans, want.Jobs, want.Spans)
		case got.Divided && (c.rules.Few(got.Spans) || level == len(row.CellLevels)-1) || !got.Divided && got.Spans > c.rules.CellSpans && level < len(row.CellLevels)-1:
			c.problem("cell %x has %d spans: divided %v", want.Key, got.Spans, got.Divided)
		}
	}
}
