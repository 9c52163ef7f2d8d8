package machine

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// loadDistinct reads all indexes at a start.
func (m *Machine) loadDistinct() {
	var states []row.DistinctState
	for from := string(row.DistinctTable); from != ""; {
		var found *row.DistinctState
		m.O.Scan(from, string(row.DistinctTable+1), func(key string, value []byte) bool {
			s := row.DecodeDistinctState(key[1], value)
			found = &s
			return false
		})
		if from = ""; found != nil {
			states = append(states, *found)
			from = row.DistinctKey(found.Number + 1)
		}
	}
	for _, s := range states {
		x := memory.ReadDistinct(&m.O, s, func(id uint32) *memory.Queue { return m.AllQueues.ByID[id] }, m.Rules.DistinctNodes)
		m.Distinct.List = append(m.Distinct.List, x)
	}
}

// DistinctIndex returns the index of a strategy. The first claim with a strategy creates an index: the claim takes the
// first step over the existing spans, and ticks take the later steps. If the maximum number of indexes exist and all
// are in use, DistinctIndex returns one without rows, and the claim looks at some spans. Otherwise each claim might
// replace an index that the next claim needs, and building indexes would slow all commands down.
func (a *Applying) distinctIndex(s job.Strategy) *memory.DistinctIndex {
	d := &a.Distinct
	at := slices.IndexFunc(d.List, func(x *memory.DistinctIndex) bool { return x.Strategy == s })
	if at < 0 {
		if len(d.List) == memory.MaxDistinctIndexes {
			oldest := slices.MinFunc(d.List, func(x, y *memory.DistinctIndex) int { return cmp.Compare(x.UsedAt, y.UsedAt) })
			if a.Now.At-oldest.UsedAt < memory.DistinctUnusedMs {
				return firstDistinct(row.DistinctState{Strategy: s}, a.Rules.DistinctNodes)
			}
			a.dropDistinct(oldest)
		}
		number := byte(1)
		for slices.ContainsFunc(d.List, func(x *memory.DistinctIndex) bool { return x.Number == number }) {
			number++
		}
		x := firstDistinct(row.DistinctState{Number: number, Strategy: s, UsedAt: a.Now.At}, a.Rules.DistinctNodes)
		d.List = slices.Insert(d.List, int(number)-1, x)
		a.buildDistinct(x)
		return x
	}
	x := d.List[at]
	if a.Now.At-x.UsedAt >= memory.DistinctNoteMs {
		x.UsedAt = a.Now.At
		a.Touch(&x.Dirty, x)
	}
	if again := x.BegunAt == 0 || a.Now.At-x.BegunAt >= memory.DistinctAgainMs; again {
		levels := x.Levels
		if x.Stage == row.InLine && x.Wide > 0 {
			levels = x.BestLevels(a.Rules.DistinctStep)
		}
		if x.Stage == row.Overfull || !slices.Equal(levels, x.Levels) {
			a.dropLine(x)
			x.Stage, x.Levels, x.BegunAt = row.LiningUp, levels, a.Now.At
			a.buildDistinct(x)
		}
	}
	return x
}

// firstDistinct returns an empty index whose levels are in the order of the strategy.
func firstDistinct(s row.DistinctState, most int) *memory.DistinctIndex {
	x := memory.NewDistinctIndex(s, most)
	for key := range x.Keys {
		x.Levels = append(x.Levels, key)
	}
	return x
}

// buildDistinct takes the first step of building an index or its line, and leaves the later steps to ticks.
func (a *Applying) buildDistinct(x *memory.DistinctIndex) {
	a.stepDistinct(x, a.Rules.DistinctRows)
	a.continueDistinct(x, a.Now.At)
}

// continueDistinct sets a timer for the next step, if the index is not finished.
func (a *Applying) continueDistinct(x *memory.DistinctIndex, at int64) {
	if x.StepAt = 0; x.Stage == row.CountingActive || x.Stage == row.LiningUp {
		x.StepAt = at
		a.SetTimer(row.TimerKey(at, row.DistinctTimer, uint64(x.Number), 0, 0))
	}
	a.Touch(&x.Dirty, x)
}

// resumeDistinct takes the next step of the index whose timer is first, and returns about how many rows that took. It
// moves the timer after everything that is due, so that leases and retention are handled in between.
func (a *Applying) resumeDistinct(number uint64, rows int) int {
	a.DeleteTimer(a.timers.First(&a.O))
	for _, x := range a.Distinct.List {
		if uint64(x.Number) == number {
			took := a.stepDistinct(x, rows)
			a.continueDistinct(x, a.Due)
			return took + row.TickSpanRows
		}
	}
	return row.TickSpanRows
}

// stepDistinct looks at the next spans until it has read and written about rows rows, and returns their number. It
// walks over the rows of spans by queue and status.
func (a *Applying) stepDistinct(x *memory.DistinctIndex, rows int) int {
	defer x.Settle()
	looked, begun := 0, a.O.Writes()
	var attributes attributeReads
	took := func() int { return looked + a.O.Writes() - begun + attributes.bytes/attributeRowBytes }
	for (x.Stage == row.CountingActive || x.Stage == row.LiningUp) && took() < rows {
		status := job.Active
		if x.Stage == row.LiningUp {
			status = job.Pending
		}
		from := max(x.From, string(row.ListTable))
		var found []row.Position
		next := "" // where to continue after the found spans
		a.O.Scan(from, string(row.ListTable+1), func(key string, _ []byte) bool {
			switch queueID, s := row.QueueOfListKey(key), row.StatusOfListKey(key); {
			case s < status:
				next = row.ListPrefix(queueID, status)
			case s > status:
				next = row.ListPrefix(queueID+1, 0)
			case len(found) < distinctChunk:
				found = append(found, row.EndOfListKey(key))
				return true
			default:
				next = key
			}
			return false
		})
		looked += seekRows
		a.prefetch(slices.SortedFunc(slices.Values(found), row.ComparePositions)) // the spans may be of several queues
		for i, at := range found {
			if took() >= rows && i > 0 {
				return took()
			}
			sp := a.spanEnding(at)
			b := a.Batch(at.Seq)
			g := a.Group(b, sp.Last)
			attributes.Add(&a.Rules, b, g)
			if looked++; x.Stage == row.CountingActive {
				a.countDistinct(x, g, int64(sp.Last-sp.First)+1)
			} else if a.lineUp(x, b, g, &sp); x.Stage == row.Overfull {
				return took()
			}
			x.From = row.ListKey(g.QueueID, status, at.Seq, at.Line) + "\x00"
		}
		if x.From = next; next == "" {
			x.Stage++
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
func (a *Applying) dropDistinct(x *memory.DistinctIndex) {
	a.dropStep(x)
	x.Gone = true
	prefix := row.DistinctKey(x.Number)
	a.O.DeleteRange(prefix, lsm.After(prefix))
	a.Distinct.List = slices.DeleteFunc(a.Distinct.List, func(y *memory.DistinctIndex) bool { return x == y })
}

func (a *Applying) dropStep(x *memory.DistinctIndex) {
	if x.StepAt != 0 {
		a.DeleteTimer(row.TimerKey(x.StepAt, row.DistinctTimer, uint64(x.Number), 0, 0))
		x.StepAt = 0
	}
}

// dropLine drops the pending spans of an index, and keeps its counts of active jobs.
func (a *Applying) dropLine(x *memory.DistinctIndex) {
	a.dropStep(x)
	x.Clear()
	x.From = ""
	for _, kind := range []byte{row.DistinctLeafRow, row.DistinctSpanRow} {
		prefix := row.DistinctPrefix(x.Number, kind)
		a.O.DeleteRange(prefix, lsm.After(prefix))
	}
	a.Touch(&x.Dirty, x)
}

// trimDistinct drops the indexes that have not been used for a while.
func (a *Applying) trimDistinct() {
	for _, x := range slices.Clone(a.Distinct.List) {
		if a.Now.At-x.UsedAt >= memory.DistinctIdleMs {
			a.dropDistinct(x)
		}
	}
}

// followDistinct updates the indexes of prefer_distinct after spans of a group were replaced.
func (a *Applying) followDistinct(b *row.Batch, g *row.Group, olds, news []row.Span) {
	for _, x := range a.Distinct.List {
		active := int64(0)
		count := func(spans []row.Span, sign int64) {
			for i := range spans {
				if sp := &spans[i]; sp.Status == job.Active && x.Counts(row.ListKey(g.QueueID, job.Active, b.Seq, sp.Last)) {
					active += sign * (int64(sp.Last-sp.First) + 1)
				}
			}
		}
		count(olds, -1)
		count(news, 1)
		if active != 0 {
			a.countDistinct(x, g, active)
		}
		for i := range news {
			if sp := &news[i]; a.linesDistinct(x, b, g, sp) && !havePending(olds, b, g, memory.WaitingOf(sp, b, g)) {
				a.lineUp(x, b, g, sp)
			}
		}
		for i := range olds {
			if sp := &olds[i]; a.linesDistinct(x, b, g, sp) && !havePending(news, b, g, memory.WaitingOf(sp, b, g)) {
				a.leaveLine(x, b, g, sp)
			}
		}
		x.Settle()
	}
}

func (a *Applying) linesDistinct(x *memory.DistinctIndex, b *row.Batch, g *row.Group, sp *row.Span) bool {
	return sp.Status == job.Pending && x.Lines(row.ListKey(g.QueueID, job.Pending, b.Seq, sp.Last))
}

// havePending reports whether one of some spans is pending at a place in line.
func havePending(spans []row.Span, b *row.Batch, g *row.Group, w row.Waiting) bool {
	return slices.ContainsFunc(spans, func(sp row.Span) bool { return sp.Status == job.Pending && memory.WaitingOf(&sp, b, g) == w })
}

// activeOf returns a function that returns the number of active jobs of a value. An index without rows does not count
// them, but a different index that has the key may.
func (a *Applying) activeOf(x *memory.DistinctIndex) func(key int, name row.ValueName) int64 {
	if x.Number == 0 {
		return func(key int, name row.ValueName) int64 {
			for _, y := range a.Distinct.List {
				if at := slices.Index(y.Keys, x.Keys[key]); at >= 0 && y.Stage != row.CountingActive {
					return a.activeOf(y)(at, name)
				}
			}
			return 0
		}
	}
	return func(key int, name row.ValueName) int64 {
		return row.DecodeActive(a.O.Get(row.DistinctCountKey(x.Number, key, name)))
	}
}

// countDistinct changes the counts of active jobs of a group's values.
func (a *Applying) countDistinct(x *memory.DistinctIndex, g *row.Group, jobs int64) {
	client := a.AllQueues.ByID[g.QueueID].Client
	for key, name := range x.Keys {
		text, ok := g.Meta.Get(name)
		if !ok {
			continue
		}
		of := row.ValueName{client, text}
		v := x.Values[key][of]
		active := jobs
		if v != nil {
			active += v.Active
			v.Active = active
			x.Unsettle(v)
		} else {
			active += a.activeOf(x)(key, of)
		}
		switch entry := row.DistinctCountKey(x.Number, key, of); {
		case active > 0:
			a.O.Set(entry, row.EncodeActive(active))
		case active == 0:
			a.O.Delete(entry)
		default:
			lsm.Contradict("count", "%d active jobs of %s=%q", active, name, text)
		}
	}
}

// DistinctLeaf returns the leaf of the pending jobs of a group.
func (a *Applying) distinctLeaf(x *memory.DistinctIndex, g *row.Group) *memory.DistinctNode {
	q := a.AllQueues.ByID[g.QueueID]
	var values [job.MaxDistinctKeys]*memory.DistinctValue
	for key, name := range x.Keys {
		if text, ok := g.Meta.Get(name); ok {
			values[key] = x.Value(key, row.ValueName{q.Client, text}, a.activeOf(x))
		}
	}
	return x.Leaf(q, &values)
}

// lineUp adds a pending span.
func (a *Applying) lineUp(x *memory.DistinctIndex, b *row.Batch, g *row.Group, sp *row.Span) {
	n := a.distinctLeaf(x, g)
	w := memory.WaitingOf(sp, b, g)
	if n.Spans == 0 {
		x.Leaves++
		n.Id = x.Leaves
	}
	if n.Spans == 0 || x.CompareSpans(&w, &n.First) < 0 {
		n.First = w
	}
	n.Spans++
	a.O.Set(row.DistinctSpanKey(x.Number, x.Base, n.Id, &w), nil)
	a.touchLeaf(x, n)
	x.Rerank(n)
	if a.Distinct.Bytes() > a.Rules.DistinctBytes {
		a.dropLine(x)
		x.Stage, x.BegunAt = row.Overfull, a.Now.At
	}
}

// leaveLine removes a pending span.
func (a *Applying) leaveLine(x *memory.DistinctIndex, b *row.Batch, g *row.Group, sp *row.Span) {
	n := a.distinctLeaf(x, g)
	w := memory.WaitingOf(sp, b, g)
	key := row.DistinctSpanKey(x.Number, x.Base, n.Id, &w)
	a.O.Delete(key)
	if n.Spans--; n.Spans > 0 && n.First == w {
		// The leaf has no spans before its first one, so a scan from there does not pass deleted rows of spans that
		// were taken before.
		found := false
		a.O.Scan(key+"\x00", lsm.After(key[:11]), func(key string, _ []byte) bool {
			_, n.First = row.SplitDistinctSpanKey(x.Base, key)
			found = true
			return false
		})
		if !found {
			lsm.Contradict("find span", "leaf %d of %v counts %d spans more", n.Id, x.Strategy, n.Spans)
		}
	}
	a.touchLeaf(x, n)
	x.Rerank(n)
}

func (a *Applying) touchLeaf(x *memory.DistinctIndex, n *memory.DistinctNode) {
	if !n.Dirty {
		n.Dirty = true
		x.Unwritten = append(x.Unwritten, n)
	}
	a.Touch(&x.Dirty, x)
}
