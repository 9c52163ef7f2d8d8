package store

import (
	"encoding/binary"
	"slices"

	"github.com/daybookq/daybook/job"
)

// A random claim must find the job at a place in a lane without a walk over the lane. A lane of few spans is walked. One of many is divided
// into cells, by the position of its spans in the lane, and each cell has a row that counts its spans and their jobs. A cell of many spans
// is divided again. So a draw reads a bounded number of rows: the cells of each level, then the spans of one cell.
//
// The rows are a function of the commands, like all others: what a draw finds does not depend on what a cache holds. A lane that never has
// many spans has no cells and costs nothing; in others a command changes a row for each level, and neighbours share them.

// cell counts the pending spans of a part of a lane.
type cell struct {
	key         string
	jobs, spans int64
	divided     bool
	dirty       bool // on the Store's list dirtyCells
}

func (c *cell) encode() []byte {
	e := make(encoder, 0, 8)
	e.uint(uint64(c.jobs))
	e.uint(uint64(c.spans))
	e.bool(c.divided)
	return e
}

func decodeCell(key string, value []byte) *cell {
	d := decoder(value)
	return &cell{key: key, jobs: int64(d.uint()), spans: int64(d.uint()), divided: d.bool()}
}

// cellLevels are the ways in which a lane is cut, each finer than the one before. The first ones cut by the order of spans, which is the
// seq of a command: into stretches of 2^28, 2^18 and 2^8 commands, and single ones. A command can make jobs of several batches pending, and
// claims can cut a batch into many spans: the rest cuts by batch, and by stretches of 2^15 and 2^8 lines.
var cellLevels = [...]struct{ order, line uint }{{order: 28}, {order: 18}, {order: 8}, {}, {line: 32}, {line: 15}, {line: 8}}

const (
	seqLevel  = 4 // the first level that cuts by batch
	lineLevel = 5 // the first level that cuts by line
)

// Parts of a ready key.
const (
	orderAt = 10
	seqAt   = 18
	lastAt  = 26
)

// cellKey is the key of the cell of a level in which the span of a ready key is.
func cellKey(ready string, level int) string {
	k := make(keyBuilder, 0, 31)
	k.u8(cellTable)
	k = append(k, ready[1:orderAt]...)
	k.u8(byte(level))
	k.u64(u64At(ready, orderAt) >> cellLevels[level].order)
	if level >= seqLevel {
		k = append(k, ready[seqAt:lastAt]...)
	}
	if level >= lineLevel {
		k.u32(u32At(ready, lastAt) >> cellLevels[level].line)
	}
	return string(k)
}

// cellTail is the number of bytes of a cell's key after its level.
func cellTail(level byte) int {
	switch {
	case level >= lineLevel:
		return 20
	case level >= seqLevel:
		return 16
	}
	return 8
}

// readyRange returns the ready keys from … to (not included) that a cell counts.
func (c *cell) readyRange() (from, to string) {
	lane, level := string(readyTable)+c.key[1:orderAt], int(c.key[orderAt])
	position := []byte(c.key[orderAt+1:])
	start := binary.BigEndian.Uint64(position) << cellLevels[level].order
	if level < seqLevel {
		k := keyBuilder(lane)
		k.u64(start)
		end := start + 1<<cellLevels[level].order
		if end <= start { // beyond what 64 bits count
			return padded(k), after(lane)
		}
		to := keyBuilder(lane)
		to.u64(end)
		return padded(k), padded(to)
	}
	prefix := lane + string(position[:16])
	if level < lineLevel {
		return padded(keyBuilder(prefix)), after(prefix)
	}
	line := binary.BigEndian.Uint32(position[16:])
	k, end := keyBuilder(prefix), keyBuilder(prefix)
	k.u32(line << cellLevels[level].line)
	end.u32((line + 1) << cellLevels[level].line)
	return string(k), string(end)
}

// padded makes the beginning of a ready key a whole one.
func padded(k keyBuilder) string {
	for len(k) < 30 {
		k.u8(0)
	}
	return string(k)
}

// cell returns the cell of a key; one without spans has no row.
func (s *Store) cell(key string) *cell {
	if c := s.cells.get(key); c != nil {
		return c
	}
	c := &cell{key: key}
	if value := s.o.get(key); value != nil {
		c = decodeCell(key, value)
	}
	s.cells.set(key, c)
	return c
}

func (s *Store) touchCell(c *cell) {
	if !c.dirty {
		c.dirty = true
		s.dirtyCells = append(s.dirtyCells, c)
	}
}

// flushCells writes the rows of cells that changed. It does not count as writing, since a command may find more or fewer of them waiting.
func (s *Store) flushCells() {
	writes := s.o.writes
	for _, c := range s.dirtyCells {
		if c.dirty = false; c.spans > 0 {
			s.o.set(c.key, c.encode())
		} else {
			s.o.del(c.key)
		}
	}
	clear(s.dirtyCells)
	s.dirtyCells = s.dirtyCells[:0]
	s.o.writes = writes
}

// countPending counts a span in its lane when it is pending: sign is 1 when it is added, -1 when it is removed.
func (s *Store) countPending(b *batch, g *group, sp *span, sign int64) {
	if sp.Status != job.Pending {
		return
	}
	l := s.queues.byID[g.queue].lane(sp.lane(g))
	l.spans += sign
	if !l.divided {
		return
	}
	ready := sp.readyKey(b, g)
	for level := range cellLevels {
		c := s.cell(cellKey(ready, level))
		c.jobs += sign * (int64(sp.last-sp.first) + 1)
		c.spans += sign
		s.touchCell(c)
		if s.misdivided(c) {
			s.resized = append(s.resized, c)
		}
		if !c.divided {
			return
		}
	}
}

// misdivided reports whether a cell has too many spans to be whole, or too few to be divided.
func (s *Store) misdivided(c *cell) bool {
	if c.divided {
		return s.few(c.spans)
	}
	return c.spans > s.rules.cellSpans && int(c.key[orderAt]) < len(cellLevels)-1
}

// few reports whether a part of a lane has too few spans to be divided: a quarter of what divides it, so that it is not divided and joined
// again and again.
func (s *Store) few(spans int64) bool { return spans < max(1, s.rules.cellSpans/4) }

// resizeCells divides cells that have come to hold many spans, and joins those that have few left. Both walk no more spans than a cell may
// have and the command added.
func (s *Store) resizeCells() {
	for _, c := range s.resized {
		if !s.misdivided(c) {
			continue
		}
		level := int(c.key[orderAt]) + 1
		from, to := c.readyRange()
		if c.divided = !c.divided; c.divided {
			s.divide(from, to, level)
		} else {
			s.undivide(from, to, level)
		}
		s.touchCell(c)
	}
	clear(s.resized)
	s.resized = s.resized[:0]
}

// resizeLane is resizeCells for a lane as a whole.
func (s *Store) resizeLane(q *queue, l *lane) {
	switch {
	case l.divided && s.few(l.spans):
		l.divided = false
		s.touch(&q.dirty, q)
		if from := l.window.first(&s.o); from != "" {
			s.undivide(from, l.window.to, 0)
		}
	case !l.divided && l.spans > s.rules.cellSpans:
		l.divided = true
		s.touch(&q.dirty, q)
		s.divide(l.window.first(&s.o), l.window.to, 0)
	}
}

// divide makes the cells of a level, and the finer ones that are needed, for the ready rows from … to (not included).
func (s *Store) divide(from, to string, level int) {
	var made []*cell
	s.eachPending(from, to, func(key string, jobs int64) bool {
		at := cellKey(key, level)
		if len(made) == 0 || made[len(made)-1].key != at {
			c := s.cell(at)
			*c = cell{key: at, dirty: c.dirty}
			s.touchCell(c)
			made = append(made, c)
		}
		c := made[len(made)-1]
		c.jobs += jobs
		c.spans++
		return true
	})
	for _, c := range made {
		if s.misdivided(c) {
			c.divided = true
			from, to := c.readyRange()
			s.divide(from, to, level+1)
		}
	}
}

// undivide removes the cells of a level, and the finer ones, for the ready rows from … to (not included). Cells without rows are gone already.
func (s *Store) undivide(from, to string, level int) {
	var gone []*cell
	s.o.scan(from, to, func(key string, _ []byte) bool {
		for at := level; at < len(cellLevels); at++ {
			c := s.cell(cellKey(key, at))
			gone = append(gone, c)
			if !c.divided {
				break
			}
		}
		return true
	})
	for _, c := range gone {
		c.jobs, c.spans, c.divided = 0, 0, false
		s.touchCell(c)
	}
}

// locate returns the ready key of the span at a place in a lane, and how many of the span's jobs come before it.
func (s *Store) locate(l *lane, place int64) (ready string, before int64) {
	from, to := l.window.first(&s.o), l.window.to
	if l.divided {
		s.flushCells()
		from = padded(keyBuilder(l.window.from))
	}
	for level, divided := 0, l.divided; divided; level++ {
		var found *cell
		last := after(cellKey(from, level)[:orderAt+1])
		if len(to) == len(from) {
			last = cellKey(to, level)
		}
		s.o.scan(cellKey(from, level), last, func(key string, value []byte) bool {
			c := decodeCell(key, value)
			if place < c.jobs {
				found = c
				return false
			}
			place -= c.jobs
			return true
		})
		if found == nil {
			contradict("find span", "the cells of level %d from %x on count fewer jobs than are said to be there", level, from)
		}
		from, to = found.readyRange()
		divided = found.divided
	}
	s.eachPending(from, to, func(key string, jobs int64) bool {
		if place < jobs {
			ready, before = key, place
			return false
		}
		place -= jobs
		return true
	})
	if ready == "" {
		contradict("find span", "the spans from %x on have fewer jobs than are said to be there", from)
	}
	return ready, before
}

// pendingChunk is how many spans are looked up at once.
const pendingChunk = 256

// eachPending calls visit with the number of jobs of each ready row from … to (not included), until it returns false. It leaves the cache
// of spans alone, which a walk would fill with spans that are not needed again.
func (s *Store) eachPending(from, to string, visit func(key string, jobs int64) bool) {
	for more := true; more; {
		var keys, spans []string
		next := ""
		s.o.scan(from, to, func(key string, _ []byte) bool {
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
		s.o.getAll(spans, func(key string, value []byte) {
			sp := decodeSpan(lineOfKey(key), value)
			lines[key] = int64(sp.last-sp.first) + 1
		})
		for _, key := range keys {
			_, _, end := splitReadyKey(key)
			n := lines[lineKey(spanTable, end.seq, end.line)]
			if n == 0 {
				contradict("find span", "none ends at line %d of batch %d", end.line, end.seq)
			}
			if !visit(key, n) {
				return
			}
		}
		from, more = next, next != ""
	}
}

// laneWalk finds the spans of a lane one after another, from one on to the end and then from the lane's beginning. Spans that have been
// returned may be removed or cut meanwhile, others may not.
type laneWalk struct {
	s    *Store
	l    *lane
	keys []string // that come next
	at   string   // the last one returned
}

// next returns the ready key of the next span; "" when the lane is empty.
func (w *laneWalk) next() string {
	if len(w.keys) == 0 {
		w.fill(w.at + "\x00")
	}
	if len(w.keys) == 0 {
		if first := w.l.window.first(&w.s.o); first != "" {
			w.fill(first)
		}
	}
	if len(w.keys) == 0 {
		return ""
	}
	w.at, w.keys = w.keys[0], w.keys[1:]
	return w.at
}

func (w *laneWalk) fill(from string) {
	w.s.o.scan(from, w.l.window.to, func(key string, _ []byte) bool {
		w.keys = append(w.keys, key)
		return len(w.keys) < pendingChunk
	})
}
