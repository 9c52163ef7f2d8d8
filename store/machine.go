package store

import (
	"hash/fnv"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// machine is the state machine: the state that Apply reads and writes. It belongs to the goroutine that applies and
// commits.
//
// Invariant: queries use only live, so Commit may use the other fields without live.mu. Only the applying goroutine
// writes to live, so it may read live without the lock.
type machine struct {
	*live
	caches
	o             lsm.Overlay // the writes since the last commit
	rules         rules       // of the current level
	bounds        *bounds
	seed          uint64 // of the jitter: from the journal's UUID
	windows       *sharedWindows
	timers        lsm.Window // of timer rows
	timerGap      *lsm.Gap   // where timers between others were removed; nil if none is known
	idle          idleSessions
	purgedBatches lsm.Window // of their rows
	handlers      handlers
	distinct      distinctIndexes
	filesets      int          // number of filesets
	batchStatuses statusCounts // of all submissions
	counts        job.Counts   // over all queues
	history       effectsRow   // the newest row of effects
	// readied are the queues that gained pending jobs since the last TakeReadied. With allReadied, all ready queues
	// count as readied.
	readied    []*queue
	allReadied bool
	// silentRunners are the runners whose leases have ended since the last TakeSilent.
	silentRunners []string
	runs          runEnds
	batchEnds     batchEnds
	unwritten     unwritten
	unshown       []*shownQueue // memory of touchQueue
}

// unwritten are changes in the caches whose rows the next commit writes.
type unwritten struct {
	rows    []dirtyRow
	cells   []*cell
	changed []*queue // whose rows the running commit writes
}

// dirtyRow is an object whose row the next commit writes, or deletes if the object is gone.
type dirtyRow interface {
	flush(o *lsm.Overlay)
}

// touch adds x to the rows that the next commit writes. mark is the field of x that records that x is listed already.
func (m *machine) touch(mark *bool, x dirtyRow) {
	if !*mark {
		*mark = true
		m.unwritten.rows = append(m.unwritten.rows, x)
	}
}

func (m *machine) reseed() {
	h := fnv.New64a()
	h.Write([]byte(m.meta.journal))
	m.seed = h.Sum64()
}

// followLevel switches Apply to the rules of the level.
func (m *machine) followLevel() {
	m.rules = m.bounds.rulesAt(m.meta.level)
}

func (m *machine) setTimer(key string)    { m.o.Set(key, nil); m.addTimer(key) }
func (m *machine) deleteTimer(key string) { m.o.Delete(key); m.removeTimer(key) }

// addTimer and removeTimer record that a timer was added or removed. When jobs are purged as soon as they end, the
// removed timers are often not among the first due ones.
func (m *machine) addTimer(key string) {
	m.timers.Insert(key)
	if m.timerGap != nil {
		m.timerGap.Insert(key)
	}
}

func (m *machine) removeTimer(key string) {
	if m.timerGap != nil {
		m.timerGap.Remove(key, false)
	}
	if !m.timers.Knows(key) && (m.timerGap == nil || m.timerGap.Surpassed()) {
		m.setTimerGap(lsm.NewGap(&m.windows.Windows, key, m.timers.To()))
	}
	m.timers.Remove(key)
}

func (m *machine) setTimerGap(g *lsm.Gap) {
	if m.timerGap != nil {
		m.timerGap.Close()
	}
	m.timerGap = g
	m.timers.Pass(g)
}

// settleTimers finds the timer that follows the gap of timers. If the whole gap is before the first timer, it forgets
// the gap.
func (m *machine) settleTimers() {
	if m.timerGap == nil {
		return
	}
	if known := m.timers.Known(); len(known) > 0 && known[0] >= m.timerGap.From() {
		m.setTimerGap(nil)
	} else if !m.timerGap.Settled() {
		m.timerGap.Settle(&m.o)
	}
}

// batch returns the batch that the command seq made, or nil.
func (m *machine) batch(seq uint64) *batch {
	if b := m.batches.Get(seq); b != nil {
		return b
	}
	b := readBatch(&m.o, seq)
	if b != nil {
		m.batches.Set(seq, b)
	}
	return b
}

// group returns the group that a line of a batch belongs to.
func (m *machine) group(b *batch, line uint32) *group {
	if b.groups != nil {
		return b.groups.group(line)
	}
	_, last := b.groupPageOf(line)
	p := m.groups.Get(groupPageName{b.seq, last})
	if p == nil {
		p = readGroupPage(&m.o, b, line)
		m.groups.Set(p.groupPageName, p)
	}
	return p.group(line)
}

// attributeReads counts about how many bytes of attributes a command reads: the texts of each group, and a page
// whenever a group is in a different page than the group before. Cached groups and pages count too, because a command
// must end at the same place whatever is cached.
type attributeReads struct {
	bytes int
	page  groupPageName
}

func (r *attributeReads) add(rules *rules, b *batch, g *group) {
	r.bytes += g.texts()
	if b.groups != nil {
		return
	}
	page := groupPageName{seq: b.seq}
	if _, page.last = b.groupPageOf(g.first); page != r.page {
		r.page = page
		r.bytes += rules.groupPageBytes
	}
}

// part returns lines first … last of a span of a batch.
func (m *machine) part(b *batch, sp span, first, last uint32) part {
	return part{b, m.group(b, first), sp, first, last}
}

// whole returns the part that is a whole span.
func (m *machine) whole(b *batch, sp span) part { return m.part(b, sp, sp.first, sp.last) }

// submission returns the submission that the command seq made, or nil.
func (m *machine) submission(seq uint64) *submission {
	if s := m.submissions.Get(seq); s != nil {
		return s
	}
	s := readSubmission(&m.o, seq)
	if s != nil {
		m.submissions.Set(seq, s)
	}
	return s
}

// submissionOf returns the submission that a batch is a part of, or nil for a standalone batch.
func (m *machine) submissionOf(b *batch) *submission {
	if b.submission == 0 {
		return nil
	}
	s := m.submission(b.submission)
	if s == nil {
		lsm.Contradict("find submission", "batch %d is a part of submission %d, which has no row", b.seq, b.submission)
	}
	return s
}

// submissionEnded reports whether the jobs of a batch are to be cancelled or deleted, because the batch is part of a
// submission that has ended.
func (m *machine) submissionEnded(b *batch) bool {
	s := m.submissionOf(b)
	return s != nil && s.status.Ended()
}

// submissionByID returns the submission with an id, or nil. A submission that is being deleted counts as deleted.
func (m *machine) submissionByID(id job.ID) *submission {
	if s := rowOf(m.seqs(id), id, m.submission); s != nil && !s.deleting {
		return s
	}
	return nil
}

// batchOf is readBatchOf through the caches.
func (m *machine) batchOf(id job.ID) *batch { return rowOf(m.seqs(id), id.WithLine(0), m.batch) }

// spanAt returns the span that holds a line. The cache need not record which lines it knows: exactly one span holds a
// line, so a cached span that holds the line is that span.
func (m *machine) spanAt(seq uint64, line uint32) span {
	if found, ok := m.spans.Find(cachedSpan{seq: seq, span: span{last: line}}, func(c *cachedSpan) bool {
		return c.seq == seq && c.first <= line && line <= c.last
	}); ok {
		return found.span
	}
	sp, ok := readSpan(&m.o, seq, line)
	if !ok {
		lsm.Contradict("find span", "line %d of batch %d is in none", line, seq)
	}
	m.spans.Set(cachedSpan{seq, sp})
	return sp
}

// spanEnding is spanAt for a line that index rows name as the last line of its span. It takes one lookup, where spanAt
// seeks.
func (m *machine) spanEnding(end position) span {
	if found, ok := m.spans.Get(cachedSpan{seq: end.seq, span: span{last: end.line}}); ok {
		return found.span
	}
	value := m.o.Get(lineKey(spanTable, end.seq, end.line))
	if value == nil {
		lsm.Contradict("find span", "none ends at line %d of batch %d", end.line, end.seq)
	}
	sp := decodeSpan(end.line, value)
	m.spans.Set(cachedSpan{end.seq, sp})
	return sp
}

// find returns the job with an id. ok is false if the job does not exist or is purged.
func (m *machine) find(id job.ID) (p part, ok bool) {
	b := m.batchOf(id)
	line := uint32(id.Line())
	if b == nil || line >= b.lines {
		return part{}, false
	}
	p = m.part(b, m.spanAt(b.seq, line), line, line)
	return p, p.in.Status != job.Purged
}

// each calls visit with the parts of spans that make up lines first … last of a batch. visit may move its part.
func (m *machine) each(b *batch, first, last uint32, visit func(p part)) {
	for line := first; ; {
		sp := m.spanAt(b.seq, line)
		end := min(sp.last, last)
		visit(m.part(b, sp, line, end))
		if end == last {
			return
		}
		line = end + 1
	}
}

// eachOf is each for lines whose batch may be deleted, or may be purged by visit.
func (m *machine) eachOf(r Run, visit func(p part)) {
	for line := r.First; ; {
		b := m.batch(r.Batch)
		if b == nil {
			return
		}
		sp := m.spanAt(r.Batch, line)
		end := min(sp.last, r.Last)
		visit(m.part(b, sp, line, end))
		if end == r.Last {
			return
		}
		line = end + 1
	}
}

// claim returns the claim of a seq that a line names. It must exist: a claim's rows are kept as long as a line names
// the claim.
func (m *machine) claim(seq uint64) *claim {
	c := m.findClaim(seq)
	if c == nil {
		lsm.Contradict("find claim", "claim %d is named by a line and has no row", seq)
	}
	return c
}

// findClaim returns the claim of a seq, or nil.
func (m *machine) findClaim(seq uint64) *claim {
	if c := m.claims.Get(seq); c != nil {
		return c
	}
	c := readClaim(&m.o, seq)
	if c != nil {
		m.claims.Set(seq, c)
	}
	return c
}

// claimByID returns the claim with an id, or nil.
func (m *machine) claimByID(id job.ID) *claim {
	if c := rowOf(m.seqs(id), id, m.findClaim); c != nil && c.refs > 0 {
		return c
	}
	return nil
}

// runner returns the state of a runner.
func (m *machine) runner(name string) *runner {
	r := m.runners.Get(name)
	if r == nil {
		r = readRunner(&m.o, name)
		m.runners.Set(name, r)
	}
	return r
}

// prefetch reads spans, their batches and their claims into the caches, in their order. That takes a tenth of the time
// that reading them one by one takes.
func (m *machine) prefetch(ends []position) {
	var batches, counts, spans []string
	seen := uint64(0)
	for _, p := range ends {
		if m.batches.Get(p.seq) == nil && p.seq != seen {
			seen = p.seq
			batches, counts = append(batches, seqKey(batchTable, p.seq)), append(counts, seqKey(countsTable, p.seq))
		}
		if _, ok := m.spans.Get(cachedSpan{seq: p.seq, span: span{last: p.line}}); !ok {
			spans = append(spans, lineKey(spanTable, p.seq, p.line))
		}
	}
	m.o.GetAll(batches, func(key string, value []byte) {
		b := decodeBatch(seqOfKey(key), value)
		m.batches.Set(b.seq, b)
	})
	m.o.GetAll(counts, func(key string, value []byte) {
		if b := m.batches.Get(seqOfKey(key)); b != nil {
			b.batchCounts = decodeBatchCounts(value)
		}
	})
	m.prefetchGroups(ends)
	m.o.GetAll(spans, func(key string, value []byte) {
		m.spans.Set(cachedSpan{seqOfKey(key), decodeSpan(lineOfKey(key), value)})
	})
	m.prefetchClaims(ends)
}

// prefetchGroups reads the groups of lines whose batches are in the cache.
func (m *machine) prefetchGroups(ends []position) {
	var pages []string
	var last groupPageName
	for _, p := range ends {
		b := m.batches.Get(p.seq)
		if b == nil || b.groups != nil || p.line >= b.lines {
			continue
		}
		name := groupPageName{seq: p.seq}
		if _, name.last = b.groupPageOf(p.line); name != last && m.groups.Get(name) == nil {
			pages = append(pages, name.key())
			last = name
		}
	}
	m.o.GetAll(pages, func(key string, value []byte) {
		name := groupPageName{seqOfKey(key), lineOfKey(key)}
		first, _ := m.batches.Get(name.seq).groupPageOf(name.last)
		m.groups.Set(name, decodeGroupPage(name, first, value))
	})
}

// prefetchClaims reads the claims of spans that are in the cache.
func (m *machine) prefetchClaims(ends []position) {
	var seqs []uint64
	for _, p := range ends {
		if sp, ok := m.spans.Get(cachedSpan{seq: p.seq, span: span{last: p.line}}); ok && sp.Claim != 0 && m.claims.Get(sp.Claim) == nil {
			seqs = append(seqs, sp.Claim)
		}
	}
	slices.Sort(seqs)
	var claims, states []string
	for _, seq := range slices.Compact(seqs) {
		claims, states = append(claims, seqKey(claimTable, seq)), append(states, seqKey(claimStateTable, seq))
	}
	state := map[uint64][]byte{}
	m.o.GetAll(states, func(key string, value []byte) { state[seqOfKey(key)] = slices.Clone(value) })
	m.o.GetAll(claims, func(key string, value []byte) {
		seq := seqOfKey(key)
		m.claims.Set(seq, decodeClaim(seq, value, state[seq]))
	})
}

// touchQueue adds a queue to the rows that the next commit writes. It must be called before the queue is changed. Until
// the commit, queries see the queue's present state.
func (m *machine) touchQueue(q *queue) {
	if q.dirty {
		return
	}
	q.shown = m.keepShown(q.state())
	m.touch(&q.dirty, q)
}

// keepShown returns a copy of s. It reuses memory that an earlier commit has left.
func (m *machine) keepShown(s shownQueue) *shownQueue {
	n := len(m.unshown)
	if n == 0 {
		return &s
	}
	kept := m.unshown[n-1]
	m.unshown = m.unshown[:n-1]
	*kept = s
	return kept
}

// maxUnshown bounds the copies that are kept for reuse.
const maxUnshown = 1000
