package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// A random claim must find the job at a place in a lane without a walk over the lane. A lane of few spans is walked. A
// lane of many spans is divided into cells, by the position of its spans, and each cell has a row that counts its spans
// and their jobs. A cell of many spans is divided again. So a draw reads a bounded number of rows: the cells of each
// level, then the spans of one cell.
//
// The rows depend only on the commands, like all rows, so the result of a draw does not depend on the contents of a
// cache. A lane that never has many spans costs nothing, because it is not divided. In other lanes a command changes
// one row per level, and neighbours share them.

// cell returns the cell of a key. A cell without spans does not have a row.
func (m *machine) cell(key string) *cell {
	if c := m.cells.Get(key); c != nil {
		return c
	}
	c := &cell{key: key}
	if value := m.o.Get(key); value != nil {
		c = decodeCell(key, value)
	}
	m.cells.Set(key, c)
	return c
}

func (m *machine) touchCell(c *cell) {
	if !c.dirty {
		c.dirty = true
		m.unwritten.cells = append(m.unwritten.cells, c)
	}
}

// flushCells writes the rows of changed cells. These writes do not count as the command's, because the number of
// changed cells that it finds may vary.
func (m *machine) flushCells() {
	m.o.Uncounted(func() {
		for _, c := range m.unwritten.cells {
			if c.dirty = false; c.spans > 0 {
				m.o.Set(c.key, c.encode())
			} else {
				m.o.Delete(c.key)
			}
		}
	})
	clear(m.unwritten.cells)
	m.unwritten.cells = m.unwritten.cells[:0]
}

// countPending counts a pending span in its lane: sign is 1 when the span is added, -1 when it is removed.
func (a *applying) countPending(b *batch, g *group, sp *span, sign int64) {
	if sp.Status != job.Pending {
		return
	}
	l := a.queues.byID[g.queueID].lane(sp.lane(g))
	l.spans += sign
	if !l.divided {
		return
	}
	ready := sp.readyKey(b, g)
	for level := range cellLevels {
		c := a.cell(cellKey(ready, level))
		c.jobs += sign * (int64(sp.last-sp.first) + 1)
		c.spans += sign
		a.touchCell(c)
		if a.rules.misdivided(c) {
			a.resized = append(a.resized, c)
		}
		if !c.divided {
			return
		}
	}
}

// resizeCells divides cells that have grown to many spans, and joins cells that have few left. Each walks at most as
// many spans as a cell may have, plus the spans that the command added.
func (a *applying) resizeCells() {
	for _, c := range a.resized {
		if !a.rules.misdivided(c) {
			continue
		}
		level := int(c.key[orderAt]) + 1
		from, to := c.readyRange()
		if c.divided = !c.divided; c.divided {
			a.makeCells(from, to, level)
		} else {
			a.joinCells(from, to, level)
		}
		a.touchCell(c)
	}
	clear(a.resized)
	a.resized = a.resized[:0]
}

// resizeLane is resizeCells for a whole lane.
func (a *applying) resizeLane(q *queue, l *lane) {
	switch {
	case l.divided && a.rules.few(l.spans):
		l.divided = false
		a.touchQueue(q)
		if l.pending > 0 {
			a.joinCells(l.key(q.id, &l.head), lsm.After(laneKey(q.id, l.laneID)), 0)
		}
	case !l.divided && l.spans > a.rules.cellSpans:
		l.divided = true
		a.touchQueue(q)
		a.makeCells(l.key(q.id, &l.head), lsm.After(laneKey(q.id, l.laneID)), 0)
	}
}

// makeCells makes the cells of a level, and the finer cells that are needed, for the ready rows from … to (exclusive).
func (m *machine) makeCells(from, to string, level int) {
	var made []*cell
	m.eachPending(from, to, func(key string, jobs int64) bool {
		at := cellKey(key, level)
		if len(made) == 0 || made[len(made)-1].key != at {
			c := m.cell(at)
			*c = cell{key: at, dirty: c.dirty}
			m.touchCell(c)
			made = append(made, c)
		}
		c := made[len(made)-1]
		c.jobs += jobs
		c.spans++
		return true
	})
	for _, c := range made {
		if m.rules.misdivided(c) {
			c.divided = true
			from, to := c.readyRange()
			m.makeCells(from, to, level+1)
		}
	}
}

// joinCells removes the cells of a level, and the finer cells, for the ready rows from … to (exclusive). Cells without
// spans have no rows to remove.
func (m *machine) joinCells(from, to string, level int) {
	var gone []*cell
	m.scanReady(from, to, func(key string, _ []byte) bool {
		for at := level; at < len(cellLevels); at++ {
			c := m.cell(cellKey(key, at))
			gone = append(gone, c)
			if !c.divided {
				break
			}
		}
		return true
	})
	for _, c := range gone {
		c.jobs, c.spans, c.divided = 0, 0, false
		m.touchCell(c)
	}
}

// locate returns the ready key of the span at a place in a lane, and how many of the span's jobs precede the place.
func (m *machine) locate(q *queue, l *lane, place int64) (ready string, before int64) {
	if l.spans == 1 { // as in very many queues with one job each
		return l.key(q.id, &l.head), place
	}
	lane := laneKey(q.id, l.laneID)
	from, to := l.key(q.id, &l.head), lsm.After(lane)
	if l.divided {
		m.flushCells()
		from = padded(lsm.KeyBuilder(lane))
	}
	for level, divided := 0, l.divided; divided; level++ {
		var found *cell
		last := lsm.After(cellKey(from, level)[:orderAt+1])
		if len(to) == len(from) {
			last = cellKey(to, level)
		}
		m.o.Scan(cellKey(from, level), last, func(key string, value []byte) bool {
			c := decodeCell(key, value)
			if place < c.jobs {
				found = c
				return false
			}
			place -= c.jobs
			return true
		})
		if found == nil {
			lsm.Contradict("find span", "the cells of level %d from %x on count fewer jobs than are said to be there", level, from)
		}
		from, to = found.readyRange()
		divided = found.divided
	}
	m.eachPending(from, to, func(key string, jobs int64) bool {
		if place < jobs {
			ready, before = key, place
			return false
		}
		place -= jobs
		return true
	})
	if ready == "" {
		lsm.Contradict("find span", "the spans from %x on have fewer jobs than are said to be there", from)
	}
	return ready, before
}

// scanReady calls visit with the ready rows from … to (exclusive) of a lane, in order, until it returns false. It skips
// the removed rows before the head, after the tail, and in a gap.
func (m *machine) scanReady(from, to string, visit func(key string, value []byte) bool) {
	q, id := m.queues.byID[lsm.U32At(from, 1)], laneOfReady(from)
	for l := q.lanes; l != nil; l = l.next {
		if l.laneID == id && l.head != (place{}) { // no span waits in an empty lane
			from, to = max(from, l.key(q.id, &l.head)), min(to, l.key(q.id, &l.tail)+"\x00")
			l.gap().Scan(&m.o, from, max(from, to), visit)
		}
	}
}

// pendingChunk is how many spans are looked up together.
const pendingChunk = 256

// eachPending calls visit with the number of jobs of each ready row from … to (exclusive), until it returns false. It
// bypasses the cache of spans, because it would fill the cache with spans that are not needed again.
func (m *machine) eachPending(from, to string, visit func(key string, jobs int64) bool) {
	for more := true; more; {
		var keys, spans []string
		next := ""
		m.scanReady(from, to, func(key string, _ []byte) bool {
			if len(keys) == pendingChunk {
				next = key
				return false
			}
			_, _, end := splitReadyKey(key)
			keys, spans = append(keys, key), append(spans, lineKey(spanTable, end.seq, end.line))
			return true
		})
		lines := make(map[string]int64, len(keys))
		slices.Sort(spans)
		m.o.GetAll(spans, func(key string, value []byte) {
			sp := decodeSpan(lineOfKey(key), value)
			lines[key] = int64(sp.last-sp.first) + 1
		})
		for _, key := range keys {
			_, _, end := splitReadyKey(key)
			n := lines[lineKey(spanTable, end.seq, end.line)]
			if n == 0 {
				lsm.Contradict("find span", "none ends at line %d of batch %d", end.line, end.seq)
			}
			if !visit(key, n) {
				return
			}
		}
		from, more = next, next != ""
	}
}

// laneWalk returns the spans of a lane one by one, from a given span to the end and then from the lane's beginning. The
// caller may remove or cut the spans that it has already got, but no others.
type laneWalk struct {
	m    *machine
	q    *queue
	l    *lane
	keys []string // the next spans
	at   string   // the span returned last
}

// next returns the ready key of the next span, or "" when the lane is empty.
func (w *laneWalk) next() string {
	if w.l.pending == 0 {
		return ""
	}
	if len(w.keys) == 0 {
		w.fill(w.at + "\x00")
	}
	if len(w.keys) == 0 {
		w.fill(w.l.key(w.q.id, &w.l.head))
	}
	if len(w.keys) == 0 {
		return ""
	}
	w.at, w.keys = w.keys[0], w.keys[1:]
	return w.at
}

func (w *laneWalk) fill(from string) {
	w.m.scanReady(from, lsm.After(laneKey(w.q.id, w.l.laneID)), func(key string, _ []byte) bool {
		w.keys = append(w.keys, key)
		return len(w.keys) < pendingChunk
	})
}
