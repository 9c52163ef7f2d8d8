package machine

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Machine is the state machine: the state that Apply reads and writes. It belongs to the goroutine that applies and
// commits.
//
// Invariant: queries use only live, so Commit may use the other fields without live.mu. Only the applying goroutine
// writes to live, so it may read live without the lock.
type Machine struct {
	*memory.Live
	memory.Caches
	O             lsm.Overlay // the writes since the last commit
	Rules         row.Rules   // of the current level
	Bounds        *memory.Bounds
	Seed          uint64 // of the jitter: from the journal's UUID
	Windows       *memory.SharedWindows
	timers        lsm.Window // of timer rows
	timerGap      *lsm.Gap   // where timers between others were removed; nil if none is known
	idle          row.IdleSessions
	purgedBatches lsm.Window // of their rows
	documents     [job.NumDocumentKinds]memory.Documents
	Distinct      memory.DistinctIndexes
	BatchStatuses row.StatusCounts // of all submissions
	Counts        job.Counts       // over all queues
	history       row.EffectsRow   // the newest row of effects
	sizes         row.PageSizes    // of the payloads that were counted last
	// readied are the queues that gained pending jobs since the last TakeReadied. With AllReadied, all ready queues
	// count as readied.
	Readied    []*memory.Queue
	AllReadied bool
	// SilentRunners are the runners whose leases have ended since the last TakeSilent.
	SilentRunners []string
	Runs          memory.RunEnds
	BatchEnds     memory.BatchEnds
	unwritten     unwritten
	unshown       []*memory.ShownQueue // memory of touchQueue
}

// unwritten are changes in the caches whose rows the next commit writes.
type unwritten struct {
	rows    []dirtyRow
	cells   []*row.Cell
	changed []*memory.Queue // whose rows the running commit writes
}

// dirtyRow is an object whose row the next commit writes, or deletes if the object is gone.
type dirtyRow interface {
	Flush(o *lsm.Overlay)
}

// Touch adds x to the rows that the next commit writes. mark is the field of x that records that x is listed already.
func (m *Machine) Touch(mark *bool, x dirtyRow) {
	if !*mark {
		*mark = true
		m.unwritten.rows = append(m.unwritten.rows, x)
	}
}

func (m *Machine) Reseed() {
	m.Seed = job.Seed(m.Meta.Journal)
}

// followLevel switches Apply to the rules of the level.
func (m *Machine) followLevel() {
	m.Rules = m.Bounds.RulesAt(m.Meta.Level)
}

func (m *Machine) SetTimer(key string)    { m.O.Set(key, nil); m.addTimer(key) }
func (m *Machine) DeleteTimer(key string) { m.O.Delete(key); m.removeTimer(key) }

// addTimer and removeTimer record that a timer was added or removed. When jobs are purged as soon as they end, the
// removed timers are often not among the first due ones.
func (m *Machine) addTimer(key string) {
	m.timers.Insert(key)
	if m.timerGap != nil {
		m.timerGap.Insert(key)
	}
}

func (m *Machine) removeTimer(key string) {
	if m.timerGap != nil {
		m.timerGap.Remove(key, false)
	}
	if !m.timers.Knows(key) && (m.timerGap == nil || m.timerGap.Surpassed()) {
		m.setTimerGap(lsm.NewGap(&m.Windows.Windows, key, m.timers.To()))
	}
	m.timers.Remove(key)
}

func (m *Machine) setTimerGap(g *lsm.Gap) {
	if m.timerGap != nil {
		m.timerGap.Close()
	}
	m.timerGap = g
	m.timers.Pass(g)
}

// settleTimers finds the timer that follows the gap of timers. If the whole gap is before the first timer, it forgets
// the gap.
func (m *Machine) settleTimers() {
	if m.timerGap == nil {
		return
	}
	if known := m.timers.Known(); len(known) > 0 && known[0] >= m.timerGap.From() {
		m.setTimerGap(nil)
	} else if !m.timerGap.Settled() {
		m.timerGap.Settle(&m.O)
	}
}

// Batch returns the batch that the command seq made, or nil.
func (m *Machine) Batch(seq uint64) *row.Batch {
	if b := m.Batches.Get(seq); b != nil {
		return b
	}
	b := row.ReadBatch(&m.O, seq)
	if b != nil {
		m.Batches.Set(seq, b)
	}
	return b
}

// Group returns the group that a line of a batch belongs to.
func (m *Machine) Group(b *row.Batch, line uint32) *row.Group {
	if b.Groups != nil {
		return b.Groups.Group(line)
	}
	_, last := b.GroupPageOf(line)
	p := m.Groups.Get(row.GroupPageName{b.Seq, last})
	if p == nil {
		p = row.ReadGroupPage(&m.O, b, line)
		m.Groups.Set(p.GroupPageName, p)
	}
	return p.Group(line)
}

// attributeReads counts about how many bytes of attributes a command reads: the texts of each group, and a page
// whenever a group is in a different page than the group before. Cached groups and pages count too, because a command
// must end at the same place whatever is cached.
type attributeReads struct {
	bytes int
	page  row.GroupPageName
}

func (r *attributeReads) Add(rules *row.Rules, b *row.Batch, g *row.Group) {
	r.bytes += g.Texts()
	if b.Groups != nil {
		return
	}
	page := row.GroupPageName{Seq: b.Seq}
	if _, page.Last = b.GroupPageOf(g.First); page != r.page {
		r.page = page
		r.bytes += rules.GroupPageBytes
	}
}

// part returns lines first … last of a span of a batch.
func (m *Machine) part(b *row.Batch, sp row.Span, first, last uint32) row.Part {
	return row.Part{b, m.Group(b, first), sp, first, last}
}

// whole returns the part that is a whole span.
func (m *Machine) whole(b *row.Batch, sp row.Span) row.Part { return m.part(b, sp, sp.First, sp.Last) }

// Submission returns the submission that the command seq made, or nil.
func (m *Machine) Submission(seq uint64) *row.Submission {
	if s := m.Submissions.Get(seq); s != nil {
		return s
	}
	s := row.ReadSubmission(&m.O, seq)
	if s != nil {
		m.Submissions.Set(seq, s)
	}
	return s
}

// submissionOf returns the submission that a batch is a part of, or nil for a standalone batch.
func (m *Machine) submissionOf(b *row.Batch) *row.Submission {
	if b.Submission == 0 {
		return nil
	}
	s := m.Submission(b.Submission)
	if s == nil {
		lsm.Contradict("find submission", "batch %d is a part of submission %d, which has no row", b.Seq, b.Submission)
	}
	return s
}

// submissionEnded reports whether the jobs of a batch are to be cancelled or deleted, because the batch is part of a
// submission that has ended.
func (m *Machine) submissionEnded(b *row.Batch) bool {
	s := m.submissionOf(b)
	return s != nil && s.Status.Ended()
}

// submissionByID returns the submission with an id, or nil. A submission that is being deleted counts as deleted.
func (m *Machine) submissionByID(id job.ID) *row.Submission {
	if s := memory.RowOf(m.Seqs(id), id, m.Submission); s != nil && !s.Deleting {
		return s
	}
	return nil
}

// batchOf is ReadBatchOf through the caches.
func (m *Machine) batchOf(id job.ID) *row.Batch {
	return memory.RowOf(m.Seqs(id), id.WithLine(0), m.Batch)
}

// spanAt returns the span that holds a line. The cache need not record which lines it knows: exactly one span holds a
// line, so a cached span that holds the line is that span.
func (m *Machine) spanAt(seq uint64, line uint32) row.Span {
	if found, ok := m.Spans.Find(memory.CachedSpan{Seq: seq, Span: row.Span{Last: line}}, func(c *memory.CachedSpan) bool {
		return c.Seq == seq && c.First <= line && line <= c.Last
	}); ok {
		return found.Span
	}
	sp, ok := row.ReadSpan(&m.O, seq, line)
	if !ok {
		lsm.Contradict("find span", "line %d of batch %d is in none", line, seq)
	}
	m.Spans.Set(memory.CachedSpan{seq, sp})
	return sp
}

// spanEnding is spanAt for a line that index rows name as the last line of its span. It takes one lookup, where spanAt
// seeks.
func (m *Machine) spanEnding(end row.Position) row.Span {
	if found, ok := m.Spans.Get(memory.CachedSpan{Seq: end.Seq, Span: row.Span{Last: end.Line}}); ok {
		return found.Span
	}
	value := m.O.Get(row.LineKey(row.SpanTable, end.Seq, end.Line))
	if value == nil {
		lsm.Contradict("find span", "none ends at line %d of batch %d", end.Line, end.Seq)
	}
	sp := row.DecodeSpan(end.Line, value)
	m.Spans.Set(memory.CachedSpan{end.Seq, sp})
	return sp
}

// Find returns the job with an id. ok is false if the job does not exist or is purged.
func (m *Machine) Find(id job.ID) (p row.Part, ok bool) {
	b := m.batchOf(id)
	line := uint32(id.Line())
	if b == nil || line >= b.Lines {
		return row.Part{}, false
	}
	p = m.part(b, m.spanAt(b.Seq, line), line, line)
	return p, p.In.Status != job.Purged
}

// Each calls visit with the parts of spans that make up lines first … last of a batch. visit may move its part.
func (m *Machine) Each(b *row.Batch, first, last uint32, visit func(p row.Part)) {
	for line := first; ; {
		sp := m.spanAt(b.Seq, line)
		end := min(sp.Last, last)
		visit(m.part(b, sp, line, end))
		if end == last {
			return
		}
		line = end + 1
	}
}

// eachOf is each for lines whose batch may be deleted, or may be purged by visit.
func (m *Machine) eachOf(r row.Run, visit func(p row.Part)) {
	for line := r.First; ; {
		b := m.Batch(r.Batch)
		if b == nil {
			return
		}
		sp := m.spanAt(r.Batch, line)
		end := min(sp.Last, r.Last)
		visit(m.part(b, sp, line, end))
		if end == r.Last {
			return
		}
		line = end + 1
	}
}

// claim returns the claim of a seq that a line names. It must exist: a claim's rows are kept as long as a line names
// the claim.
func (m *Machine) claim(seq uint64) *row.Claim {
	c := m.findClaim(seq)
	if c == nil {
		lsm.Contradict("find claim", "claim %d is named by a line and has no row", seq)
	}
	return c
}

// findClaim returns the claim of a seq, or nil.
func (m *Machine) findClaim(seq uint64) *row.Claim {
	if c := m.Claims.Get(seq); c != nil {
		return c
	}
	c := row.ReadClaim(&m.O, seq)
	if c != nil {
		m.Claims.Set(seq, c)
	}
	return c
}

// claimByID returns the claim with an id, or nil.
func (m *Machine) claimByID(id job.ID) *row.Claim {
	if c := memory.RowOf(m.Seqs(id), id, m.findClaim); c != nil && c.Refs > 0 {
		return c
	}
	return nil
}

// runner returns the state of a runner.
func (m *Machine) runner(name string) *row.Runner {
	r := m.Runners.Get(name)
	if r == nil {
		r = row.ReadRunner(&m.O, name)
		m.Runners.Set(name, r)
	}
	return r
}

// prefetch reads spans, their batches and their claims into the caches, in their order. That takes a tenth of the time
// that reading them one by one takes.
func (m *Machine) prefetch(ends []row.Position) {
	var batches, counts, spans []string
	seen := uint64(0)
	for _, p := range ends {
		if m.Batches.Get(p.Seq) == nil && p.Seq != seen {
			seen = p.Seq
			batches, counts = append(batches, row.SeqKey(row.BatchTable, p.Seq)), append(counts, row.SeqKey(row.CountsTable, p.Seq))
		}
		if _, ok := m.Spans.Get(memory.CachedSpan{Seq: p.Seq, Span: row.Span{Last: p.Line}}); !ok {
			spans = append(spans, row.LineKey(row.SpanTable, p.Seq, p.Line))
		}
	}
	m.O.GetAll(batches, func(key string, value []byte) {
		b := row.DecodeBatch(row.SeqOfKey(key), value)
		m.Batches.Set(b.Seq, b)
	})
	m.O.GetAll(counts, func(key string, value []byte) {
		if b := m.Batches.Get(row.SeqOfKey(key)); b != nil {
			b.BatchCounts = row.DecodeBatchCounts(value)
		}
	})
	m.prefetchGroups(ends)
	m.O.GetAll(spans, func(key string, value []byte) {
		m.Spans.Set(memory.CachedSpan{row.SeqOfKey(key), row.DecodeSpan(row.LineOfKey(key), value)})
	})
	m.prefetchClaims(ends)
}

// prefetchGroups reads the groups of lines whose batches are in the cache.
func (m *Machine) prefetchGroups(ends []row.Position) {
	var pages []string
	var last row.GroupPageName
	for _, p := range ends {
		b := m.Batches.Get(p.Seq)
		if b == nil || b.Groups != nil || p.Line >= b.Lines {
			continue
		}
		name := row.GroupPageName{Seq: p.Seq}
		if _, name.Last = b.GroupPageOf(p.Line); name != last && m.Groups.Get(name) == nil {
			pages = append(pages, name.Key())
			last = name
		}
	}
	m.O.GetAll(pages, func(key string, value []byte) {
		name := row.GroupPageName{row.SeqOfKey(key), row.LineOfKey(key)}
		first, _ := m.Batches.Get(name.Seq).GroupPageOf(name.Last)
		m.Groups.Set(name, row.DecodeGroupPage(name, first, value))
	})
}

// prefetchClaims reads the claims of spans that are in the cache.
func (m *Machine) prefetchClaims(ends []row.Position) {
	var seqs []uint64
	for _, p := range ends {
		if sp, ok := m.Spans.Get(memory.CachedSpan{Seq: p.Seq, Span: row.Span{Last: p.Line}}); ok && sp.Claim != 0 && m.Claims.Get(sp.Claim) == nil {
			seqs = append(seqs, sp.Claim)
		}
	}
	slices.Sort(seqs)
	var claims, states []string
	for _, seq := range slices.Compact(seqs) {
		claims, states = append(claims, row.SeqKey(row.ClaimTable, seq)), append(states, row.SeqKey(row.ClaimStateTable, seq))
	}
	state := map[uint64][]byte{}
	m.O.GetAll(states, func(key string, value []byte) { state[row.SeqOfKey(key)] = slices.Clone(value) })
	m.O.GetAll(claims, func(key string, value []byte) {
		seq := row.SeqOfKey(key)
		m.Claims.Set(seq, row.DecodeClaim(seq, value, state[seq]))
	})
}

// touchQueue adds a queue to the rows that the next commit writes. It must be called before the queue is changed. Until
// the commit, queries see the queue's present state.
func (m *Machine) touchQueue(q *memory.Queue) {
	if q.Dirty {
		return
	}
	q.Shown = m.keepShown(q.State())
	m.Touch(&q.Dirty, q)
}

// keepShown returns a copy of s. It reuses memory that an earlier commit has left.
func (m *Machine) keepShown(s memory.ShownQueue) *memory.ShownQueue {
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
