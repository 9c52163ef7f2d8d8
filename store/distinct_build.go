package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// loadDistinct reads all indexes at a start.
func (m *machine) loadDistinct() {
	var states []distinctState
	for from := string(distinctTable); from != ""; {
		var found *distinctState
		m.o.Scan(from, string(distinctTable+1), func(key string, value []byte) bool {
			s := decodeDistinctState(key[1], value)
			found = &s
			return false
		})
		if from = ""; found != nil {
			states = append(states, *found)
			from = distinctKey(found.number + 1)
		}
	}
	for _, s := range states {
		x := readDistinct(&m.o, s, func(id uint32) *queue { return m.queues.byID[id] }, m.rules.distinctNodes)
		m.distinct.list = append(m.distinct.list, x)
	}
}

// distinctIndex returns the index of a strategy. The first claim with a strategy creates an index: the claim takes the
// first step over the existing spans, and ticks take the later steps. If the maximum number of indexes exist and all
// are in use, distinctIndex returns one without rows, and the claim looks at some spans. Otherwise each claim might
// replace an index that the next claim needs, and building indexes would slow all commands down.
func (a *applying) distinctIndex(s job.Strategy) *distinctIndex {
	d := &a.distinct
	at := slices.IndexFunc(d.list, func(x *distinctIndex) bool { return x.strategy == s })
	if at < 0 {
		if len(d.list) == maxDistinctIndexes {
			oldest := slices.MinFunc(d.list, func(x, y *distinctIndex) int { return cmp.Compare(x.usedAt, y.usedAt) })
			if a.now.At-oldest.usedAt < distinctUnusedMs {
				return firstDistinct(distinctState{strategy: s}, a.rules.distinctNodes)
			}
			a.dropDistinct(oldest)
		}
		number := byte(1)
		for slices.ContainsFunc(d.list, func(x *distinctIndex) bool { return x.number == number }) {
			number++
		}
		x := firstDistinct(distinctState{number: number, strategy: s, usedAt: a.now.At}, a.rules.distinctNodes)
		d.list = slices.Insert(d.list, int(number)-1, x)
		a.buildDistinct(x)
		return x
	}
	x := d.list[at]
	if a.now.At-x.usedAt >= distinctNoteMs {
		x.usedAt = a.now.At
		a.touch(&x.dirty, x)
	}
	if again := x.begunAt == 0 || a.now.At-x.begunAt >= distinctAgainMs; again {
		levels := x.levels
		if x.stage == inLine && x.wide > 0 {
			levels = x.bestLevels(a.rules.distinctStep)
		}
		if x.stage == overfull || !slices.Equal(levels, x.levels) {
			a.dropLine(x)
			x.stage, x.levels, x.begunAt = liningUp, levels, a.now.At
			a.buildDistinct(x)
		}
	}
	return x
}

// firstDistinct returns an empty index whose levels are in the order of the strategy.
func firstDistinct(s distinctState, most int) *distinctIndex {
	x := newDistinctIndex(s, most)
	for key := range x.keys {
		x.levels = append(x.levels, key)
	}
	return x
}

// buildDistinct takes the first step of building an index or its line, and leaves the later steps to ticks.
func (a *applying) buildDistinct(x *distinctIndex) {
	a.stepDistinct(x, a.rules.distinctRows)
	a.continueDistinct(x, a.now.At)
}

// continueDistinct sets a timer for the next step, if the index is not finished.
func (a *applying) continueDistinct(x *distinctIndex, at int64) {
	if x.stepAt = 0; x.stage == countingActive || x.stage == liningUp {
		x.stepAt = at
		a.setTimer(timerKey(at, distinctTimer, uint64(x.number), 0, 0))
	}
	a.touch(&x.dirty, x)
}

// resumeDistinct takes the next step of the index whose timer is first, and returns about how many rows that took. It
// moves the timer after everything that is due, so that leases and retention are handled in between.
func (a *applying) resumeDistinct(number uint64, rows int) int {
	a.deleteTimer(a.timers.First(&a.o))
	for _, x := range a.distinct.list {
		if uint64(x.number) == number {
			took := a.stepDistinct(x, rows)
			a.continueDistinct(x, a.due)
			return took + tickSpanRows
		}
	}
	return tickSpanRows
}

// stepDistinct looks at the next spans until it has read and written about rows rows, and returns their number. It
// walks over the rows of spans by queue and status.
func (a *applying) stepDistinct(x *distinctIndex, rows int) int {
	defer x.settle()
	looked, begun := 0, a.o.Writes()
	var attributes attributeReads
	took := func() int { return looked + a.o.Writes() - begun + attributes.bytes/attributeRowBytes }
	for (x.stage == countingActive || x.stage == liningUp) && took() < rows {
		status := job.Active
		if x.stage == liningUp {
			status = job.Pending
		}
		from := max(x.from, string(listTable))
		var found []position
		next := "" // where to continue after the found spans
		a.o.Scan(from, string(listTable+1), func(key string, _ []byte) bool {
			switch queueID, s := queueOfListKey(key), statusOfListKey(key); {
			case s < status:
				next = listPrefix(queueID, status)
			case s > status:
				next = listPrefix(queueID+1, 0)
			case len(found) < distinctChunk:
				found = append(found, endOfListKey(key))
				return true
			default:
				next = key
			}
			return false
		})
		looked += seekRows
		a.prefetch(slices.SortedFunc(slices.Values(found), comparePositions)) // the spans may be of several queues
		for i, at := range found {
			if took() >= rows && i > 0 {
				return took()
			}
			sp := a.spanEnding(at)
			b := a.batch(at.seq)
			g := a.group(b, sp.last)
			attributes.add(&a.rules, b, g)
			if looked++; x.stage == countingActive {
				a.countDistinct(x, g, int64(sp.last-sp.first)+1)
			} else if a.lineUp(x, b, g, &sp); x.stage == overfull {
				return took()
			}
			x.from = listKey(g.queueID, status, at.seq, at.line) + "\x00"
		}
		if x.from = next; next == "" {
			x.stage++
		}
	}
	return took()
}

// distinctChunk is how many spans are looked up together.
const distinctChunk = 64

// Reading attributeRowBytes of attributes takes about as long as reading a row.
const attributeRowBytes = 1 << 10

// Beginning a scan takes about as long as reading seekRows rows.
const seekRows = 4

// dropDistinct drops an index and deletes its rows.
func (a *applying) dropDistinct(x *distinctIndex) {
	a.dropStep(x)
	x.gone = true
	prefix := distinctKey(x.number)
	a.o.DeleteRange(prefix, lsm.After(prefix))
	a.distinct.list = slices.DeleteFunc(a.distinct.list, func(y *distinctIndex) bool { return x == y })
}

func (a *applying) dropStep(x *distinctIndex) {
	if x.stepAt != 0 {
		a.deleteTimer(timerKey(x.stepAt, distinctTimer, uint64(x.number), 0, 0))
		x.stepAt = 0
	}
}

// dropLine drops the pending spans of an index, and keeps its counts of active jobs.
func (a *applying) dropLine(x *distinctIndex) {
	a.dropStep(x)
	x.clear()
	x.from = ""
	for _, kind := range []byte{distinctLeafRow, distinctSpanRow} {
		prefix := distinctPrefix(x.number, kind)
		a.o.DeleteRange(prefix, lsm.After(prefix))
	}
	a.touch(&x.dirty, x)
}

// trimDistinct drops the indexes that have not been used for a while.
func (a *applying) trimDistinct() {
	for _, x := range slices.Clone(a.distinct.list) {
		if a.now.At-x.usedAt >= distinctIdleMs {
			a.dropDistinct(x)
		}
	}
}

// followDistinct updates the indexes of prefer_distinct after spans of a group were replaced.
func (a *applying) followDistinct(b *batch, g *group, olds, news []span) {
	for _, x := range a.distinct.list {
		active := int64(0)
		count := func(spans []span, sign int64) {
			for i := range spans {
				if sp := &spans[i]; sp.Status == job.Active && x.counts(listKey(g.queueID, job.Active, b.seq, sp.last)) {
					active += sign * (int64(sp.last-sp.first) + 1)
				}
			}
		}
		count(olds, -1)
		count(news, 1)
		if active != 0 {
			a.countDistinct(x, g, active)
		}
		for i := range news {
			if sp := &news[i]; a.linesDistinct(x, b, g, sp) && !havePending(olds, b, g, waitingOf(sp, b, g)) {
				a.lineUp(x, b, g, sp)
			}
		}
		for i := range olds {
			if sp := &olds[i]; a.linesDistinct(x, b, g, sp) && !havePending(news, b, g, waitingOf(sp, b, g)) {
				a.leaveLine(x, b, g, sp)
			}
		}
		x.settle()
	}
}

func (a *applying) linesDistinct(x *distinctIndex, b *batch, g *group, sp *span) bool {
	return sp.Status == job.Pending && x.lines(listKey(g.queueID, job.Pending, b.seq, sp.last))
}

// havePending reports whether one of some spans is pending at a place in line.
func havePending(spans []span, b *batch, g *group, w waiting) bool {
	return slices.ContainsFunc(spans, func(sp span) bool { return sp.Status == job.Pending && waitingOf(&sp, b, g) == w })
}

// activeOf returns a function that returns the number of active jobs of a value. An index without rows does not count
// them, but a different index that has the key may.
func (a *applying) activeOf(x *distinctIndex) func(key int, name valueName) int64 {
	if x.number == 0 {
		return func(key int, name valueName) int64 {
			for _, y := range a.distinct.list {
				if at := slices.Index(y.keys, x.keys[key]); at >= 0 && y.stage != countingActive {
					return a.activeOf(y)(at, name)
				}
			}
			return 0
		}
	}
	return func(key int, name valueName) int64 {
		return decodeActive(a.o.Get(distinctCountKey(x.number, key, name)))
	}
}

// countDistinct changes the counts of active jobs of a group's values.
func (a *applying) countDistinct(x *distinctIndex, g *group, jobs int64) {
	client := a.queues.byID[g.queueID].client
	for key, name := range x.keys {
		text, ok := g.Meta.Get(name)
		if !ok {
			continue
		}
		of := valueName{client, text}
		v := x.values[key][of]
		active := jobs
		if v != nil {
			active += v.active
			v.active = active
			x.unsettle(v)
		} else {
			active += a.activeOf(x)(key, of)
		}
		switch entry := distinctCountKey(x.number, key, of); {
		case active > 0:
			a.o.Set(entry, encodeActive(active))
		case active == 0:
			a.o.Delete(entry)
		default:
			lsm.Contradict("count", "%d active jobs of %s=%q", active, name, text)
		}
	}
}

// distinctLeaf returns the leaf of the pending jobs of a group.
func (a *applying) distinctLeaf(x *distinctIndex, g *group) *distinctNode {
	q := a.queues.byID[g.queueID]
	var values [job.MaxDistinctKeys]*distinctValue
	for key, name := range x.keys {
		if text, ok := g.Meta.Get(name); ok {
			values[key] = x.value(key, valueName{q.client, text}, a.activeOf(x))
		}
	}
	return x.leaf(q, &values)
}

// lineUp adds a pending span.
func (a *applying) lineUp(x *distinctIndex, b *batch, g *group, sp *span) {
	n := a.distinctLeaf(x, g)
	w := waitingOf(sp, b, g)
	if n.spans == 0 {
		x.leaves++
		n.id = x.leaves
	}
	if n.spans == 0 || x.compareSpans(&w, &n.first) < 0 {
		n.first = w
	}
	n.spans++
	a.o.Set(distinctSpanKey(x.number, x.base, n.id, &w), nil)
	a.touchLeaf(x, n)
	x.rerank(n)
	if a.distinct.bytes() > a.rules.distinctBytes {
		a.dropLine(x)
		x.stage, x.begunAt = overfull, a.now.At
	}
}

// leaveLine removes a pending span.
func (a *applying) leaveLine(x *distinctIndex, b *batch, g *group, sp *span) {
	n := a.distinctLeaf(x, g)
	w := waitingOf(sp, b, g)
	key := distinctSpanKey(x.number, x.base, n.id, &w)
	a.o.Delete(key)
	if n.spans--; n.spans > 0 && n.first == w {
		// The leaf has no spans before its first one, so a scan from there does not pass deleted rows of spans that
		// were taken before.
		found := false
		a.o.Scan(key+"\x00", lsm.After(key[:11]), func(key string, _ []byte) bool {
			_, n.first = splitDistinctSpanKey(x.base, key)
			found = true
			return false
		})
		if !found {
			lsm.Contradict("find span", "leaf %d of %v counts %d spans more", n.id, x.strategy, n.spans)
		}
	}
	a.touchLeaf(x, n)
	x.rerank(n)
}

func (a *applying) touchLeaf(x *distinctIndex, n *distinctNode) {
	if !n.dirty {
		n.dirty = true
		x.unwritten = append(x.unwritten, n)
	}
	a.touch(&x.dirty, x)
}
