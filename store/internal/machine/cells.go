package machine

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
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
func (m *Machine) cell(key string) *row.Cell {
	if c := m.Cells.Get(key); c != nil {
		return c
	}
	c := &row.Cell{Key: key}
	if value := m.O.Get(key); value != nil {
		c = row.DecodeCell(key, value)
	}
	m.Cells.Set(key, c)
	return c
}

func (m *Machine) touchCell(c *row.Cell) {
	if !c.Dirty {
		c.Dirty = true
		m.unwritten.cells = append(m.unwritten.cells, c)
	}
}

// flushCells writes the rows of changed cells. These writes do not count as the command's, because the number of
// changed cells that it finds may vary.
func (m *Machine) flushCells() {
	m.O.Uncounted(func() {
		for _, c := range m.unwritten.cells {
			if c.Dirty = false; c.Spans > 0 {
				m.O.Set(c.Key, c.Encode())
			} else {
				m.O.Delete(c.Key)
			}
		}
	})
	clear(m.unwritten.cells)
	m.unwritten.cells = m.unwritten.cells[:0]
}

// countPending counts a pending span in its lane: sign is 1 when the span is added, -1 when it is removed.
func (a *Applying) countPending(b *row.Batch, g *row.Group, sp *row.Span, sign int64) {
	if sp.Status != job.Pending {
		return
	}
	l := a.AllQueues.ByID[g.QueueID].Lane(sp.Lane(g))
	l.Spans += sign
	if !l.Divided {
		return
	}
	ready := sp.ReadyKey(b, g)
	for level := range row.CellLevels {
		c := a.cell(row.CellKey(ready, level))
		c.Jobs += sign * (int64(sp.Last-sp.First) + 1)
		c.Spans += sign
		a.touchCell(c)
		if a.Rules.Misdivided(c) {
			a.resized = append(a.resized, c)
		}
		if !c.Divided {
			return
		}
	}
}

// resizeCells divides cells that have grown to many spans, and joins cells that have few left. Each walks at most as
// many spans as a cell may have, plus the spans that the command added.
func (a *Applying) resizeCells() {
	for _, c := range a.resized {
		if !a.Rules.Misdivided(c) {
			continue
		}
		level := int(c.Key[row.OrderAt]) + 1
		from, to := c.ReadyRange()
		if c.Divided = !c.Divided; c.Divided {
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
func (a *Applying) resizeLane(q *memory.Queue, l *memory.Lane) {
	switch {
	case l.Divided && a.Rules.Few(l.Spans):
		l.Divided = false
		a.touchQueue(q)
		if l.Pending > 0 {
			a.joinCells(l.Key(q.Id, &l.Head), lsm.After(row.LaneKey(q.Id, l.LaneID)), 0)
		}
	case !l.Divided && l.Spans > a.Rules.CellSpans:
		l.Divided = true
		a.touchQueue(q)
		a.makeCells(l.Key(q.Id, &l.Head), lsm.After(row.LaneKey(q.Id, l.LaneID)), 0)
	}
}

// makeCells makes the cells of a level, and the finer cells that are needed, for the ready rows from … to (exclusive).
func (m *Machine) makeCells(from, to string, level int) {
	var made []*row.Cell
	m.eachPending(from, to, func(key string, jobs int64) bool {
		at := row.CellKey(key, level)
		if len(made) == 0 || made[len(made)-1].Key != at {
			c := m.cell(at)
			*c = row.Cell{Key: at, Dirty: c.Dirty}
			m.touchCell(c)
			made = append(made, c)
		}
		c := made[len(made)-1]
		c.Jobs += jobs
		c.Spans++
		return true
	})
	for _, c := range made {
		if m.Rules.Misdivided(c) {
			c.Divided = true
			from, to := c.ReadyRange()
			m.makeCells(from, to, level+1)
		}
	}
}

// joinCells removes the cells of a level, and the finer cells, for the ready rows from … to (exclusive). Cells without
// spans have no rows to remove.
func (m *Machine) joinCells(from, to string, level int) {
	var gone []*row.Cell
	m.scanReady(from, to, func(key string, _ []byte) bool {
		for at := level; at < len(row.CellLevels); at++ {
			c := m.cell(row.CellKey(key, at))
			gone = append(gone, c)
			if !c.Divided {
				break
			}
		}
		return true
	})
	for _, c := range gone {
		c.Jobs, c.Spans, c.Divided = 0, 0, false
		m.touchCell(c)
	}
}

// locate returns the ready key of the span at a place in a lane, and how many of the span's jobs precede the place.
func (m *Machine) locate(q *memory.Queue, l *memory.Lane, place int64) (ready string, before int64) {
	if l.Spans == 1 { // as in very many queues with one job each
		return l.Key(q.Id, &l.Head), place
	}
	lane := row.LaneKey(q.Id, l.LaneID)
	from, to := l.Key(q.Id, &l.Head), lsm.After(lane)
	if l.Divided {
		m.flushCells()
		from = row.Padded(lsm.KeyBuilder(lane))
	}
	for level, divided := 0, l.Divided; divided; level++ {
		var found *row.Cell
		last := lsm.After(row.CellKey(from, level)[:row.OrderAt+1])
		if len(to) == len(from) {
			last = row.CellKey(to, level)
		}
		m.O.Scan(row.CellKey(from, level), last, func(key string, value []byte) bool {
			c := row.DecodeCell(key, value)
			if place < c.Jobs {
				found = c
				return false
			}
			place -= c.Jobs
			return true
		})
		if found == nil {
			lsm.Contradict("find span", "the cells of level %d from %x on count fewer jobs than are said to be there", level, from)
		}
		from, to = found.ReadyRange()
		divided = found.Divided
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
func (m *Machine) scanReady(from, to string, visit func(key string, value []byte) bool) {
	q, id := m.AllQueues.ByID[lsm.U32At(from, 1)], row.LaneOfReady(from)
	for l := q.Lanes; l != nil; l = l.Next {
		if l.LaneID == id && l.Head != (memory.Place{}) { // no span waits in an empty lane
			from, to = max(from, l.Key(q.Id, &l.Head)), min(to, l.Key(q.Id, &l.Tail)+"\x00")
			l.Gap().Scan(&m.O, from, max(from, to), visit)
		}
	}
}

// pendingChunk is how many spans are looked up together.
const pendingChunk = 256

// eachPending calls visit with the number of jobs of each ready row from … to (exclusive), until it returns false. It
// bypasses the cache of spans, because it would fill the cache with spans that are not needed again.
func (m *Machine) eachPending(from, to string, visit func(key string, jobs int64) bool) {
	for more := true; more; {
		var keys, spans []string
		next := ""
		m.scanReady(from, to, func(key string, _ []byte) bool {
			if len(keys) == pendingChunk {
				next = key
				return false
			}
			_, _, end := row.SplitReadyKey(key)
			keys, spans = append(keys, key), append(spans, row.LineKey(row.SpanTable, end.Seq, end.Line))
			return true
		})
		lines := make(map[string]int64, len(keys))
		slices.Sort(spans)
		m.O.GetAll(spans, func(key string, value []byte) {
			sp := row.DecodeSpan(row.LineOfKey(key), value)
			lines[key] = int64(sp.Last-sp.First) + 1
		})
		for _, key := range keys {
			_, _, end := row.SplitReadyKey(key)
			n := lines[row.LineKey(row.SpanTable, end.Seq, end.Line)]
			if n == 0 {
				lsm.Contradict("find span", "none ends at line %d of batch %d", end.Line, end.Seq)
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
	m    *Machine
	q    *memory.Queue
	l    *memory.Lane
	keys []string // the next spans
	at   string   // the span returned last
}

// Next returns the ready key of the next span, or "" when the lane is empty.
func (w *laneWalk) Next() string {
	if w.l.Pending == 0 {
		return ""
	}
	if len(w.keys) == 0 {
		w.Fill(w.at + "\x00")
	}
	if len(w.keys) == 0 {
		w.Fill(w.l.Key(w.q.Id, &w.l.Head))
	}
	if len(w.keys) == 0 {
		return ""
	}
	w.at, w.keys = w.keys[0], w.keys[1:]
	return w.at
}

func (w *laneWalk) Fill(from string) {
	w.m.scanReady(from, lsm.After(row.LaneKey(w.q.Id, w.l.LaneID)), func(key string, _ []byte) bool {
		w.keys = append(w.keys, key)
		return len(w.keys) < pendingChunk
	})
}
