package store

import (
	"maps"
	"slices"

	"github.com/daybookq/daybook/store/lsm"
)

// names checks the queues: their numbers, names and counters.
func (c *checker) names() {
	known := map[queueName]bool{}
	c.table(queueTable, func(key string, value []byte) {
		q := decodeQueue(lsm.U32At(key, 1), value)
		if name := (q.queueName); known[name] {
			c.problem("queue %s/%s is there twice", q.client, q.typ)
		} else {
			known[name] = true
		}
		if q.id == 0 || q.id >= c.meta.nextQueue {
			c.problem("queue %s/%s has number %d, and the next one is %d", q.client, q.typ, q.id, c.meta.nextQueue)
		}
		if idle := q.empty() && !q.configured(); idle != (q.idleAt != 0) || q.idleAt > c.meta.at {
			c.problem("queue %s/%s has %d jobs, and has been idle since %d", q.client, q.typ, q.counts.Total(), q.idleAt)
		}
		r := c.queue(q.id)
		delete(c.queues, q.id)
		if r.counts != q.counts {
			c.problem("queue %s/%s counts %v, and has %v", q.client, q.typ, q.counts, r.counts)
		}
		if r.priorities&^q.priorities != 0 || q.empty() && q.priorities != 0 {
			c.problem("queue %s/%s has jobs of the priorities %b, and notes %b", q.client, q.typ, r.priorities, q.priorities)
		}
		for l := q.lanes; l != nil; l = l.next {
			got := r.lane(l.laneID)
			if got.pending != l.pending {
				c.problem("queue %s/%s counts %d pending at priority %d class %d, and has %d", q.client, q.typ, l.pending, l.priority, l.class, got.pending)
			}
			got.pending = 0
			c.lane(q, l)
		}
		for _, l := range r.lanes {
			if l.pending != 0 {
				c.problem("queue %s/%s counts no pending at priority %d class %d, and has %d", q.client, q.typ, l.priority, l.class, l.pending)
			}
		}
	})
	for _, id := range slices.Sorted(maps.Keys(c.queues)) {
		c.problem("queue %d has jobs and no row", id)
	}
}

// lane checks the head, the bounds, the number of spans and the cells of a lane against its ready rows.
func (c *checker) lane(q *queue, l *lane) {
	var cells [len(cellLevels)]*cell // the cell of each level that the last span was in, as recounted
	first, last, spans := "", "", int64(0)
	lane := laneKey(q.id, l.laneID)
	c.v.Scan(lane, lsm.After(lane), func(key string, _ []byte) bool {
		if first == "" {
			first = key
		}
		last = key
		spans++
		if !l.divided || !wellFormed(key) {
			return true
		}
		_, _, end := splitReadyKey(key)
		jobs := int64(0)
		if value := c.v.Get(lineKey(spanTable, end.seq, end.line)); value != nil {
			sp := decodeSpan(end.line, value)
			jobs = int64(sp.last-sp.first) + 1
		}
		for level := range cells {
			at := cellKey(key, level)
			if cells[level] == nil || cells[level].key != at {
				c.cells(cells[level:])
				cells[level] = &cell{key: at}
				if value := c.v.Get(at); value != nil {
					cells[level].divided = decodeCell(at, value).divided
				}
			}
			cells[level].jobs += jobs
			if cells[level].spans++; !cells[level].divided {
				break
			}
		}
		return true
	})
	c.cells(cells[:])
	if head := l.key(q.id, &l.head); first != head {
		c.problem("queue %s/%s has %x next in line, and counts %x as that", q.client, q.typ, first, head)
	}
	if tail := l.key(q.id, &l.tail); last != tail {
		c.problem("queue %s/%s has %x last in line, and counts %x as that", q.client, q.typ, last, tail)
	}
	if spans != l.spans {
		c.problem("queue %s/%s counts %d pending spans at priority %d class %d, and has %d", q.client, q.typ, l.spans, l.priority, l.class, spans)
	}
	if l.divided && c.rules.few(spans) || !l.divided && spans > c.rules.cellSpans {
		c.problem("queue %s/%s has %d pending spans at priority %d class %d: divided into cells %v", q.client, q.typ, spans, l.priority, l.class, l.divided)
	}
}

// cells checks the rows of cells whose spans have been counted, and forgets the counts.
func (c *checker) cells(counted []*cell) {
	for i, want := range counted {
		if counted[i] = nil; want == nil {
			continue
		}
		c.must(want.key)
		value := c.v.Get(want.key)
		if value == nil {
			continue
		}
		level := int(want.key[orderAt])
		switch got := decodeCell(want.key, value); {
		case got.jobs != want.jobs || got.spans != want.spans:
			c.problem("cell %x counts %d jobs in %d spans, and has %d in %d", want.key, got.jobs, got.spans, want.jobs, want.spans)
		case got.divided && (c.rules.few(got.spans) || level == len(cellLevels)-1) || !got.divided && got.spans > c.rules.cellSpans && level < len(cellLevels)-1:
			c.problem("cell %x has %d spans: divided %v", want.key, got.spans, got.divided)
		}
	}
}
