package store

import (
	"errors"
	"fmt"
	"hash/crc64"
	"maps"
	"slices"

	"github.com/daybookq/daybook/job"
)

// Check looks at everything the store holds and reports every invariant that is broken:
//
//   - spans tile each group of each batch without gap or overlap, and neighbours in the same state are one span;
//   - each span has exactly its index rows, and there are no others;
//   - the counters of batches, queues and lanes equal recounts;
//   - claims and runners count what the spans name, and claims name no lines that they did not hand out; each has its timer, none
//     too late, and only leases of held lines exist;
//   - unique keys are held by those who have them, idempotency keys are counted, and each sweep has its timer;
//   - payload pages tile what is not purged, and details belong to lines that are not.
//
// report is called with each problem and returns false to stop. A row that cannot be read is a problem like any other. Check
// reads one moment of the database; Apply may go on.
func (s *Store) Check(report func(problem string) bool) (problems int, err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	c := checker{
		v: v, indexes: s.indexes,
		queues: map[uint32]*recount{}, claims: map[uint64]*claimCount{},
		rows: map[byte]int64{}, report: report,
	}
	defer func() {
		problems = c.problems
		if r := recover(); r != nil && r != errEnough {
			panic(r)
		}
	}()
	c.run()
	return c.problems, nil
}

// errEnough unwinds a check whose caller has seen enough.
var errEnough = errors.New("enough problems")

type checker struct {
	v        view
	meta     meta
	indexes  func(b *batch, g *group, sp *span) [3]string
	queues   map[uint32]*recount
	claims   map[uint64]*claimCount
	rows     map[byte]int64 // index rows that must be there, by table
	report   func(string) bool
	problems int
}

type recount struct {
	counts job.Counts
	lanes  map[[2]uint32]int64 // pending by priority and class
}

type claimCount struct{ held, refs, overrides int }

func (c *checker) problem(format string, args ...any) {
	c.problems++
	if !c.report(fmt.Sprintf(format, args...)) {
		panic(errEnough)
	}
}

// guard makes a row that cannot be read a problem, and goes on after what needs it.
func (c *checker) guard(look func(), format string, args ...any) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			c.problem("%s: %v", fmt.Sprintf(format, args...), r.Err)
		default:
			panic(r)
		}
	}()
	look()
}

// table calls visit with every row of a table. visit must not use the view.
func (c *checker) table(table byte, visit func(key string, value []byte)) {
	c.v.scan(string(table), string(table+1), func(key string, value []byte) bool {
		if wellFormed(key) {
			c.guard(func() { visit(key, value) }, "row %x", key)
		}
		return true
	})
}

// keys returns a table's keys, for those whose visit uses the view. Batches and claims are few beside their lines.
func (c *checker) keys(table byte) (keys []string) {
	c.table(table, func(key string, _ []byte) { keys = append(keys, key) })
	return keys
}

func (c *checker) run() {
	c.v.scan("\x00", "\xff", func(key string, _ []byte) bool { // race builds of Pebble refuse the empty key
		if !wellFormed(key) {
			c.problem("key %x is of no table", key)
		}
		return true
	})
	c.meta = meta{nextQueue: 1} // of a new store
	c.guard(func() {
		if value := c.v.get(metaKey); value != nil {
			c.meta = decodeMeta(value)
		}
	}, "meta row")
	for _, key := range c.keys(batchTable) {
		c.guard(func() { c.batch(readBatch(c.v, seqOfKey(key))) }, "batch %d", seqOfKey(key))
	}
	c.orphans()
	c.leases()
	c.names()
	c.uniques()
	c.onces()
	c.sweeps()
	c.table(timerTable, func(key string, _ []byte) {
		if _, kind, _, _, _ := splitTimerKey(key); kind == effectTimer {
			c.rows[timerTable]++
		}
	})
	for _, table := range []byte{listTable, readyTable, timerTable, holdTable, noticeTable} {
		n := int64(0)
		c.table(table, func(string, []byte) { n++ })
		if n != c.rows[table] {
			c.problem("table %c has %d rows, and %d belong to something", table, n, c.rows[table])
		}
	}
	if want, got := job.EpochOf(c.meta.cursor), c.meta.epoch(); want != got {
		c.problem("the newest epoch is %d, and the cursor %d lies in epoch %d", got, c.meta.cursor, want)
	}
	for i, e := range c.meta.epochs {
		if e.at > c.meta.at || i > 0 && (e.number <= c.meta.epochs[i-1].number || e.at < c.meta.epochs[i-1].at) {
			c.problem("epoch %d began at %d: not after the one before it, or beyond the store's time %d", e.number, e.at, c.meta.at)
		}
	}
	for _, table := range []byte{effectTable, batchTable, claimTable} {
		c.table(table, func(key string, _ []byte) {
			if seqOfKey(key) > c.meta.cursor {
				c.problem("row %x lies beyond the cursor %d", key, c.meta.cursor)
			}
		})
	}
}

// names checks the queues: their numbers, names and counters.
func (c *checker) names() {
	known := map[queueName]bool{}
	c.table(queueTable, func(key string, value []byte) {
		q := decodeQueue(u32At(key, 1), value, &windows{bounds: &standardBounds})
		if name := (queueName{q.client, q.typ}); known[name] {
			c.problem("queue %s/%s is there twice", q.client, q.typ)
		} else {
			known[name] = true
		}
		if int(q.id) != len(known) {
			c.problem("queue %s/%s has number %d, and %d is next", q.client, q.typ, q.id, len(known))
		}
		r := c.queue(q.id)
		delete(c.queues, q.id)
		if r.counts != q.counts {
			c.problem("queue %s/%s counts %v, and has %v", q.client, q.typ, q.counts, r.counts)
		}
		for _, l := range q.lanes {
			if got := r.lanes[[2]uint32{l.priority, uint32(l.class)}]; got != l.pending {
				c.problem("queue %s/%s counts %d pending at priority %d class %d, and has %d", q.client, q.typ, l.pending, l.priority, l.class, got)
			}
			delete(r.lanes, [2]uint32{l.priority, uint32(l.class)})
		}
		for lane, n := range r.lanes {
			c.problem("queue %s/%s counts no pending at priority %d class %d, and has %d", q.client, q.typ, lane[0], lane[1], n)
		}
	})
	if len(known)+1 != int(c.meta.nextQueue) {
		c.problem("there are %d queues, and the next number is %d", len(known), c.meta.nextQueue)
	}
	for _, id := range slices.Sorted(maps.Keys(c.queues)) {
		c.problem("queue %d has jobs and no row", id)
	}
}

func (c *checker) queue(id uint32) *recount {
	if c.queues[id] == nil {
		c.queues[id] = &recount{lanes: map[[2]uint32]int64{}}
	}
	return c.queues[id]
}

func (c *checker) claim(seq uint64) *claimCount {
	if c.claims[seq] == nil {
		c.claims[seq] = &claimCount{}
	}
	return c.claims[seq]
}

func (c *checker) must(key string) {
	if key != "" {
		c.rows[key[0]]++
		if c.v.get(key) == nil {
			c.problem("index row %x is missing", key)
		}
	}
}

func (c *checker) batch(b *batch) {
	c.details(b)
	var counts job.Counts
	next, groupAt := uint32(0), 0
	var before *span
	const chunk = 4096
	for next < b.lines {
		var spans []span
		eachSpan(c.v, b.seq, next, b.lines-1, func(sp span) bool {
			spans = append(spans, sp)
			return len(spans) < chunk
		})
		if len(spans) == 0 {
			c.problem("batch %d: lines from %d on are in no span", b.seq, next)
			return
		}
		for i := range spans {
			sp := &spans[i]
			for groupAt < len(b.groups)-1 && b.groups[groupAt].last < sp.first {
				groupAt++
				before = nil
			}
			g := &b.groups[groupAt]
			if sp.first != next || sp.last < sp.first || sp.first < g.first || sp.last > g.last {
				c.problem("batch %d: span %d-%d where line %d of group %d-%d was next", b.seq, sp.first, sp.last, next, g.first, g.last)
				return
			}
			if before != nil && before.state == sp.state {
				c.problem("batch %d: spans %d-%d and %d-%d are equal and not one", b.seq, before.first, before.last, sp.first, sp.last)
			}
			c.span(b, g, sp, &counts)
			next, before = sp.last+1, sp
		}
	}
	if rest, ok := readSpan(c.v, b.seq, b.lines); ok || rest.last > 0 {
		c.problem("batch %d: span %d-%d lies beyond its %d lines", b.seq, rest.first, rest.last, b.lines)
	}
	if counts != b.counts {
		c.problem("batch %d counts %v, and has %v", b.seq, b.counts, counts)
	}
	c.pages(b)
}

func (c *checker) span(b *batch, g *group, sp *span, counts *job.Counts) {
	if sp.status == 0 || int(sp.status) >= job.NumStatus {
		c.problem("batch %d: lines %d-%d are %v", b.seq, sp.first, sp.last, sp.status)
		return
	}
	n := int64(sp.last-sp.first) + 1
	counts[sp.status] += n
	q := c.queue(g.queue)
	q.counts[sp.status] += n
	if sp.status == job.Pending {
		q.lanes[[2]uint32{sp.priorityIn(g), uint32(sp.class)}] += n
	}
	for _, key := range c.indexes(b, g, sp) {
		c.must(key)
	}
	if sp.claim != 0 {
		c.claim(sp.claim).refs += int(n)
	}
	if sp.status == job.Active {
		c.claim(sp.claim).held += int(n)
		if sp.claim == 0 {
			c.problem("batch %d: lines %d-%d are active under no claim", b.seq, sp.first, sp.last)
		}
	}
	if sp.status == job.Purged && sp.state != (state{status: job.Purged}) {
		c.problem("batch %d: purged lines %d-%d remember %+v", b.seq, sp.first, sp.last, sp.state)
	}
	if most := sp.maxAttemptsIn(g); int(sp.attempts) > most {
		c.problem("batch %d: lines %d-%d were claimed %d times of %d", b.seq, sp.first, sp.last, sp.attempts, most)
	}
}

// pages finds that each line that has a document has its payload in exactly one page.
func (c *checker) pages(b *batch) {
	type page struct{ first, last uint32 }
	var pages []page
	prefix := seqKey(pageTable, b.seq)
	c.v.scan(prefix, after(prefix), func(key string, value []byte) bool {
		last, first := splitPageKey(key)
		switch {
		case b.frame == job.NoFrame:
			c.problem("batch %d has no payloads, and page %d-%d", b.seq, first, last)
			return true
		case first > last || last >= b.lines || len(pages) > 0 && first <= pages[len(pages)-1].last:
			c.problem("batch %d: page %d-%d overlaps another, or the end", b.seq, first, last)
			return true
		}
		if rest, err := b.frame.Skip(value, int(last-first)+1); err != nil || len(rest) > 0 {
			c.problem("batch %d: page %d-%d does not hold its lines", b.seq, first, last)
		}
		pages = append(pages, page{first, last})
		return true
	})
	if b.frame == job.NoFrame {
		return
	}
	at := 0
	live := make([]bool, len(pages)) // which pages have a line that has a document
	eachSpan(c.v, b.seq, 0, b.lines-1, func(sp span) bool {
		if sp.status == job.Purged {
			return true
		}
		for line := sp.first; line <= sp.last; {
			for at < len(pages) && pages[at].last < line {
				at++
			}
			if at == len(pages) || line < pages[at].first { // between pages lie purged lines only
				c.problem("batch %d: line %d has no page", b.seq, line)
				return true
			}
			live[at] = true
			line = pages[at].last + 1
		}
		return true
	})
	for i, p := range pages {
		if !live[i] {
			c.problem("batch %d: page %d-%d holds purged lines only", b.seq, p.first, p.last)
		}
	}
}

// details finds details of lines that are purged or were never there.
func (c *checker) details(b *batch) {
	var lines []uint32
	prefix := seqKey(detailTable, b.seq)
	for next := prefix; next != ""; { // in chunks, since there may be many, and the view reads one thing at a time
		lines = lines[:0]
		from := next
		next = ""
		c.v.scan(from, after(prefix), func(key string, value []byte) bool {
			if len(lines) == 4096 {
				next = key
				return false
			}
			if wellFormed(key) { // the others have been reported
				lines = append(lines, lineOfKey(key))
				c.guard(func() { decodeDetail(kindOfDetail(key), value) }, "row %x", key)
				if kindOfDetail(key) == historyDetail && (u64At(key, 14) <= b.seq || u64At(key, 14) > c.meta.cursor) {
					c.problem("row %x: an attempt that ended in a command before the batch or beyond the cursor", key)
				}
			}
			return true
		})
		if len(lines) > 0 && !b.details {
			c.problem("batch %d has details that it does not know of", b.seq)
		}
		var sp span
		for i, line := range lines {
			if i == 0 || line > sp.last {
				sp, _ = readSpan(c.v, b.seq, line)
			}
			if line >= b.lines || sp.status == job.Purged {
				c.problem("batch %d: line %d has details, and is purged or none", b.seq, line)
			}
		}
	}
}

// decodeDetail reads a detail row, and fails when it cannot.
func decodeDetail(kind byte, value []byte) {
	switch kind {
	case historyDetail:
		decodeAttempt(value)
	case resultDetail:
		decodeResult(value)
	case progressDetail:
		decodeProgress(value)
	default:
		contradict("decode", "detail of unknown kind %d", kind)
	}
}

// orphans finds rows of batches that are gone.
func (c *checker) orphans() {
	known := map[uint64]bool{}
	c.table(batchTable, func(key string, _ []byte) { known[seqOfKey(key)] = true })
	for _, table := range []byte{countsTable, spanTable, pageTable, detailTable} {
		c.table(table, func(key string, _ []byte) {
			if !known[seqOfKey(key)] {
				c.problem("row %x belongs to no batch", key)
			}
		})
	}
}

// leases checks claims, leases of single lines and runners against what the spans name.
func (c *checker) leases() {
	known := map[uint64]bool{}
	c.table(claimTable, func(key string, _ []byte) { known[seqOfKey(key)] = true })
	c.table(leaseTable, func(key string, _ []byte) {
		if !known[seqOfKey(key)] {
			c.problem("row %x belongs to no claim", key)
		}
	})
	for _, key := range c.keys(overrideTable) {
		c.guard(func() { c.override(key) }, "row %x", key)
	}
	held := map[string]*runner{}
	for _, key := range c.keys(claimTable) {
		c.guard(func() { c.claimed(readClaim(c.v, seqOfKey(key)), held) }, "claim %d", seqOfKey(key))
	}
	for _, seq := range slices.Sorted(maps.Keys(c.claims)) {
		c.problem("claim %d is named by lines and has no row", seq)
	}
	var timers []string
	c.table(runnerTable, func(key string, value []byte) {
		r := decodeRunner(runnerOfKey(key), value)
		want := held[r.name]
		if want == nil {
			want = &runner{}
		}
		if want.claims != r.claims || want.held != r.held {
			c.problem("runner %q counts %d claims and %d jobs: not what it holds", r.name, r.claims, r.held)
		}
		if idle := (runner{name: r.name, idleSince: r.idleSince, timerAt: r.timerAt}); r.claims == 0 && *r != idle {
			c.problem("runner %q holds nothing, and its row remembers %+v", r.name, *r)
		}
		if r.claims == 0 && (r.timerAt == 0 || r.timerAt > r.idleSince+runnerIdleMs) || r.claims > 0 && r.idleSince != 0 {
			c.problem("the timer of runner %q is at %d, and it has held nothing since %d", r.name, r.timerAt, r.idleSince)
		}
		if r.timerAt != 0 {
			timers = append(timers, runnerTimerKey(r.timerAt, r.name))
		}
		delete(held, r.name)
	})
	for _, key := range timers {
		c.must(key)
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		c.problem("runner %q holds jobs and has no row", name)
	}
}

// override checks the lease of a single line.
func (c *checker) override(key string) {
	claimSeq, seq, line := splitOverrideKey(key)
	o := decodeOverride(c.v.get(key))
	c.claim(claimSeq).overrides++
	c.must(timerKey(o.timerAt, overrideTimer, claimSeq, seq, line))
	if sp, ok := readSpan(c.v, seq, line); !ok || sp.status != job.Active || sp.claim != claimSeq {
		c.problem("claim %d has a lease for line %d of batch %d, which it does not hold", claimSeq, line, seq)
	}
	if cl := readClaim(c.v, claimSeq); cl != nil {
		if deadline := o.under(cl).deadline(readRunner(c.v, cl.runner), c.meta.graceAt); o.timerAt > deadline {
			c.problem("the timer of line %d of batch %d under claim %d is at %d, after its deadline %d", line, seq, claimSeq, o.timerAt, deadline)
		}
	}
}

// claimed checks a claim, and adds it to what its runner holds.
func (c *checker) claimed(cl *claim, held map[string]*runner) {
	want := c.claims[cl.seq]
	delete(c.claims, cl.seq)
	if want == nil {
		c.problem("claim %d is named by no line", cl.seq)
		return
	}
	if got := (claimCount{cl.held, cl.refs, cl.overrides}); got != *want {
		c.problem("claim %d counts held, refs, overrides %v, and has %v", cl.seq, got, *want)
	}
	handedOut := 0
	for _, r := range cl.runs {
		eachSpan(c.v, r.Batch, r.First, r.Last, func(sp span) bool {
			if sp.claim == cl.seq {
				handedOut += int(min(sp.last, r.Last)) - int(max(sp.first, r.First)) + 1
			}
			return true
		})
	}
	if handedOut != want.refs {
		c.problem("claim %d is named by %d lines, and handed out %d of them", cl.seq, want.refs, handedOut)
	}
	if cl.cancelledAt != 0 {
		c.must(holdKey(noticeTable, cl.runner, cl.seq))
	}
	if cl.timerAt != 0 {
		c.must(timerKey(cl.timerAt, claimTimer, cl.seq, 0, 0))
	}
	if cl.held > cl.overrides {
		if deadline := cl.deadline(readRunner(c.v, cl.runner), c.meta.graceAt); cl.timerAt == 0 || cl.timerAt > deadline {
			c.problem("the timer of claim %d is at %d, after its deadline %d", cl.seq, cl.timerAt, deadline)
		}
	}
	if cl.held > 0 {
		c.must(holdKey(holdTable, cl.runner, cl.seq))
		if held[cl.runner] == nil {
			held[cl.runner] = &runner{name: cl.runner}
		}
		held[cl.runner].claims++
		held[cl.runner].held += cl.held
	}
}

// Digest sums up all keys and values, and counts the rows of each table: equal stores have equal digests.
func (s *Store) Digest() (sum uint64, rows map[string]int64, err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	h := crc64.New(crc64.MakeTable(crc64.ECMA))
	rows = map[string]int64{}
	for _, table := range tables {
		v.scan(string(table), string(table+1), func(key string, value []byte) bool {
			rows[string(table)]++
			e := make(encoder, 0, 64)
			e.text(key)
			e.bytes(value)
			h.Write(e)
			return true
		})
	}
	return h.Sum64(), rows, nil
}
