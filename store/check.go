package store

import (
	"fmt"
	"hash/crc64"

	"github.com/daybookq/daybook/job"
)

// Check looks at everything the store holds and reports every invariant that is broken:
//
//   - spans tile each group of each batch without gap or overlap, and neighbours in the same state are one span;
//   - each span has exactly its index rows, and there are no others;
//   - the counters of batches, queues and lanes equal recounts;
//   - claims and runners count what the spans name; each has its timer, and only leases of held lines exist;
//   - payload pages tile what is not purged, and details belong to lines that are not.
//
// report is called with each problem and returns false to stop. Check reads one moment of the database; Apply may go on.
func (s *Store) Check(report func(problem string) bool) (problems int, err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	c := checker{
		v: v, indexes: s.indexes,
		queues: map[uint32]*recount{}, claims: map[uint64]*claimCount{}, runners: map[string]*runner{},
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
var errEnough = fmt.Errorf("enough problems")

type checker struct {
	v        view
	indexes  func(b *batch, g *group, sp *span) [2]string
	queues   map[uint32]*recount
	claims   map[uint64]*claimCount
	runners  map[string]*runner
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

// table calls visit with every row of a table. visit must not use the view.
func (c *checker) table(table byte, visit func(key string, value []byte)) {
	c.v.scan(string(table), string(table+1), func(key string, value []byte) bool {
		visit(key, value)
		return true
	})
}

// keys returns a table's keys, for those whose visit uses the view. Batches and claims are few beside their lines.
func (c *checker) keys(table byte) (keys []string) {
	c.table(table, func(key string, _ []byte) { keys = append(keys, key) })
	return keys
}

func (c *checker) run() {
	m := meta{nextQueue: 1} // of a new store
	if value := c.v.get(metaKey); value != nil {
		m = decodeMeta(value)
	}
	for _, key := range c.keys(batchTable) {
		c.batch(readBatch(c.v, seqOfKey(key)))
	}
	c.orphans()
	c.leases(&m)
	c.table(queueTable, func(key string, value []byte) {
		q := decodeQueue(u32At(key, 1), value, &standardBounds)
		if q.id >= m.nextQueue {
			c.problem("queue %d is beyond the next number %d", q.id, m.nextQueue)
		}
		r := c.queue(q.id)
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
			if n != 0 {
				c.problem("queue %s/%s counts no pending at priority %d class %d, and has %d", q.client, q.typ, lane[0], lane[1], n)
			}
		}
	})
	c.table(timerTable, func(key string, _ []byte) {
		if _, kind, _, _, _ := splitTimerKey(key); kind == effectTimer {
			c.rows[timerTable]++
		}
	})
	for _, table := range []byte{listTable, readyTable, timerTable, holdTable} {
		n := int64(0)
		c.table(table, func(string, []byte) { n++ })
		if n != c.rows[table] {
			c.problem("table %c has %d rows, and %d belong to something", table, n, c.rows[table])
		}
	}
	c.table(effectTable, func(key string, _ []byte) {
		if seqOfKey(key) > m.cursor {
			c.problem("effects of %d lie beyond the cursor %d", seqOfKey(key), m.cursor)
		}
	})
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
	var counts job.Counts
	next, groupAt := uint32(0), 0
	var spans []span
	const chunk = 4096
	for next < b.lines {
		spans = spans[:0]
		eachSpan(c.v, b.seq, next, b.lines-1, func(sp span) bool {
			spans = append(spans, sp)
			return len(spans) < chunk
		})
		if len(spans) == 0 {
			c.problem("batch %d: lines from %d on are in no span", b.seq, next)
			return
		}
		var before *span
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
	if counts != b.counts {
		c.problem("batch %d counts %v, and has %v", b.seq, b.counts, counts)
	}
	c.pages(b)
}

func (c *checker) span(b *batch, g *group, sp *span, counts *job.Counts) {
	n := int64(sp.last-sp.first) + 1
	counts[sp.status] += n
	q := c.queue(g.queue)
	q.counts[sp.status] += n
	if sp.status == job.Pending {
		q.lanes[[2]uint32{g.priority, uint32(sp.class)}] += n
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
	if int(sp.attempts) > g.maxAttempts {
		c.problem("batch %d: lines %d-%d were claimed %d times of %d", b.seq, sp.first, sp.last, sp.attempts, g.maxAttempts)
	}
}

// pages finds that each line that has a document has its payload in exactly one page.
func (c *checker) pages(b *batch) {
	type page struct{ first, last uint32 }
	var pages []page
	prefix := seqKey(pageTable, b.seq)
	c.v.scan(prefix, after(prefix), func(key string, value []byte) bool {
		last, first := splitPageKey(key)
		if rest, err := b.frame.Skip(value, int(last-first)+1); err != nil || len(rest) > 0 {
			c.problem("batch %d: page %d-%d does not hold its lines", b.seq, first, last)
		}
		pages = append(pages, page{first, last})
		return true
	})
	if b.frame == job.NoFrame {
		if len(pages) > 0 {
			c.problem("batch %d has no payloads, and has pages", b.seq)
		}
		return
	}
	covered := func(line uint32) bool { // lines between pages belong to purged ones only
		for _, p := range pages {
			if p.first <= line && line <= p.last {
				return true
			}
		}
		return false
	}
	for i := 1; i < len(pages); i++ {
		if pages[i].first <= pages[i-1].last {
			c.problem("batch %d: pages overlap at line %d", b.seq, pages[i].first)
		}
	}
	eachSpan(c.v, b.seq, 0, b.lines-1, func(sp span) bool {
		if sp.status == job.Purged {
			return true
		}
		for line := sp.first; ; {
			if !covered(line) {
				c.problem("batch %d: line %d has no page", b.seq, line)
				break
			}
			next := sp.last + 1
			for _, p := range pages {
				if p.first <= line && line <= p.last {
					next = p.last + 1
				}
			}
			if line = next; line > sp.last {
				break
			}
		}
		return true
	})
}

// orphans finds rows of batches that are gone, and details of lines that are.
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
	for _, key := range c.keys(detailTable) {
		if sp, ok := readSpan(c.v, seqOfKey(key), lineOfKey(key)); ok && sp.status == job.Purged {
			c.problem("detail %x belongs to a purged line", key)
		}
	}
}

// leases checks claims, leases of single lines and runners against what the spans name.
func (c *checker) leases(m *meta) {
	for _, key := range c.keys(overrideTable) {
		claimSeq, seq, line := splitOverrideKey(key)
		o := decodeOverride(c.v.get(key))
		c.claim(claimSeq).overrides++
		c.must(timerKey(o.timerAt, overrideTimer, claimSeq, seq, line))
		if sp, ok := readSpan(c.v, seq, line); !ok || sp.status != job.Active || sp.claim != claimSeq {
			c.problem("claim %d has a lease for line %d of batch %d, which it does not hold", claimSeq, line, seq)
		}
	}
	for _, key := range c.keys(claimTable) {
		cl := readClaim(c.v, seqOfKey(key))
		want := c.claims[cl.seq]
		delete(c.claims, cl.seq)
		if want == nil {
			c.problem("claim %d is named by no line", cl.seq)
			continue
		}
		if got := (claimCount{cl.held, cl.refs, cl.overrides}); got != *want {
			c.problem("claim %d counts held, refs, overrides %v, and has %v", cl.seq, got, *want)
		}
		if cl.held > cl.lines() {
			c.problem("claim %d holds %d lines of %d", cl.seq, cl.held, cl.lines())
		}
		if cl.timerAt != 0 {
			c.must(timerKey(cl.timerAt, claimTimer, cl.seq, 0, 0))
		}
		if cl.timerAt == 0 && cl.held > cl.overrides {
			c.problem("claim %d holds lines that nothing would ever abandon", cl.seq)
		}
		if cl.held > 0 {
			c.must(holdKey(cl.runner, cl.seq))
			r := c.runners[cl.runner]
			if r == nil {
				r = &runner{name: cl.runner}
				c.runners[cl.runner] = r
			}
			r.claims++
			r.held += cl.held
		}
	}
	for seq := range c.claims {
		c.problem("claim %d is named by lines and has no row", seq)
	}
	c.table(runnerTable, func(key string, value []byte) {
		r := decodeRunner(runnerOfKey(key), value)
		want := c.runners[r.name]
		if want == nil || want.claims != r.claims || want.held != r.held {
			c.problem("runner %q counts %d claims and %d jobs: not what it holds", r.name, r.claims, r.held)
		}
		delete(c.runners, r.name)
	})
	for name := range c.runners {
		c.problem("runner %q holds jobs and has no row", name)
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
