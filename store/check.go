package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc64"
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
//   - unique keys are held by those who have them, idempotency keys and sessions are counted, and each session and sweep has its timer;
//   - payload pages tile what is not purged, the rows beside them tell the lengths of their payloads, and details belong to lines that are not.
//
// report is called with each problem and returns false to stop. A row that cannot be read is a problem like any other. Check
// reads one moment of the database; Apply may go on.
//
// Check walks over the tables side by side, each through an iterator of its own, and looks rows up in the others. So its memory grows with
// the number of queues, and not with those of batches, claims and keys.
func (s *Store) Check(report func(problem string) bool) (problems int, err error) {
	defer catch(&err)
	v := s.sideBySide()
	defer v.close()
	c := checker{
		v: v, indexes: s.indexes, few: s.few, cellSpans: s.rules.cellSpans,
		queues: map[uint32]*recount{}, rows: map[byte]int64{}, report: report,
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

// checkRows, where a test sets it, is called at each row of each table that a check walks over.
var checkRows func(table byte, row int)

// errEnough unwinds a check whose caller has seen enough.
var errEnough = errors.New("enough problems")

type checker struct {
	v         *tableViews
	meta      meta
	indexes   func(b *batch, g *group, sp *span) [3]string
	few       func(spans int64) bool
	cellSpans int64
	queues    map[uint32]*recount
	named     claimCount     // by all spans and leases of single lines
	found     claimCount     // those of them that belong to their claims
	rows      map[byte]int64 // rows that must be there, by table
	report    func(string) bool
	problems  int
}

type recount struct {
	counts job.Counts
	lanes  []laneCount
}

// laneCount is how many jobs of a lane are pending.
type laneCount struct {
	laneID
	pending int64
}

func (r *recount) lane(id laneID) *laneCount {
	for i := range r.lanes {
		if l := &r.lanes[i]; l.laneID == id {
			return l
		}
	}
	r.lanes = append(r.lanes, laneCount{laneID: id})
	return &r.lanes[len(r.lanes)-1]
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

// table calls visit with every row of a table. visit may use other tables.
func (c *checker) table(table byte, visit func(key string, value []byte)) {
	row := 0
	c.v.scan(string(table), string(table+1), func(key string, value []byte) bool {
		if checkRows != nil {
			checkRows(table, row)
		}
		row++
		if wellFormed(key) {
			c.guard(func() { visit(key, value) }, "row %x", key)
		}
		return true
	})
}

func (c *checker) run() {
	c.forms()
	c.meta = meta{nextQueue: 1} // of a new store
	c.guard(func() {
		if value := c.v.get(metaKey); value != nil {
			c.meta = decodeMeta(value)
		}
	}, "meta row")
	c.table(batchTable, func(key string, value []byte) {
		seq := seqOfKey(key)
		c.guard(func() {
			b := decodeBatch(seq, value)
			b.batchCounts = decodeBatchCounts(c.v.get(seqKey(countsTable, seq)))
			c.batch(b)
		}, "batch %d", seq)
	})
	c.orphans()
	c.leases()
	c.names()
	c.uniques()
	c.onces()
	c.sessions()
	c.sweeps()
	c.effects()
	for _, table := range []byte{listTable, readyTable, timerTable, holdTable, noticeTable, cellTable, idleTable} {
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

func (c *checker) queue(id uint32) *recount {
	if c.queues[id] == nil {
		c.queues[id] = &recount{}
	}
	return c.queues[id]
}

// forms finds keys that have the form of no table.
func (c *checker) forms() {
	it, err := c.v.snapshot.NewIter(nil)
	fail("open view", err)
	v := view{it: it}
	defer func() { fail("close view", it.Close()) }()
	v.scan("\x00", "\xff", func(key string, _ []byte) bool { // race builds of Pebble refuse the empty key
		if !wellFormed(key) {
			c.problem("key %x is of no table", key)
		}
		return true
	})
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
	var last span
	tiled := true
	eachSpan(c.v, b.seq, 0, b.lines-1, func(sp span) bool {
		for groupAt < len(b.groups)-1 && b.groups[groupAt].last < sp.first {
			groupAt++
			before = nil
		}
		g := &b.groups[groupAt]
		if tiled = sp.first == next && sp.last >= sp.first && sp.first >= g.first && sp.last <= g.last; !tiled {
			c.problem("batch %d: span %d-%d where line %d of group %d-%d was next", b.seq, sp.first, sp.last, next, g.first, g.last)
			return false
		}
		if before != nil && before.State == sp.State {
			c.problem("batch %d: spans %d-%d and %d-%d are equal and not one", b.seq, before.first, before.last, sp.first, sp.last)
		}
		c.span(b, g, &sp, &counts)
		last = sp
		next, before = sp.last+1, &last
		return true
	})
	if tiled && next < b.lines {
		c.problem("batch %d: lines from %d on are in no span", b.seq, next)
	}
	if !tiled || next < b.lines {
		return
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
	if sp.Status == 0 || int(sp.Status) >= job.NumStatus {
		c.problem("batch %d: lines %d-%d are %v", b.seq, sp.first, sp.last, sp.Status)
		return
	}
	n := int64(sp.last-sp.first) + 1
	counts[sp.Status] += n
	if sp.Status == job.Purged {
		if sp.State != (job.State{Status: job.Purged}) {
			c.problem("batch %d: purged lines %d-%d remember %+v", b.seq, sp.first, sp.last, sp.State)
		}
		return
	}
	q := c.queue(g.queue)
	q.counts[sp.Status] += n
	if sp.Status == job.Pending {
		q.lane(sp.lane(g)).pending += n
	}
	for _, key := range c.indexes(b, g, sp) {
		c.must(key)
	}
	if sp.Claim != 0 {
		c.named.refs += int(n)
	}
	if sp.Status == job.Active {
		c.named.held += int(n)
		if sp.Claim == 0 {
			c.problem("batch %d: lines %d-%d are active under no claim", b.seq, sp.first, sp.last)
		}
	}
	if most := sp.MaxAttemptsIn(&g.Attributes); int(sp.Attempts) > most {
		c.problem("batch %d: lines %d-%d were claimed %d times of %d", b.seq, sp.first, sp.last, sp.Attempts, most)
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
		} else {
			c.sizes(b, first, last, value)
		}
		if at, end := b.pageOf(first); at != first || end != last {
			c.problem("batch %d: page %d-%d is not one that the batch has", b.seq, first, last)
		}
		pages = append(pages, page{first, last})
		return true
	})
	prefix = seqKey(sizesTable, b.seq)
	c.v.scan(prefix, after(prefix), func(key string, _ []byte) bool {
		last, first := splitPageKey(key)
		at, there := slices.BinarySearchFunc(pages, first, func(p page, first uint32) int { return cmp.Compare(p.first, first) })
		if !b.uneven || !there || pages[at].last != last {
			c.problem("batch %d: sizes of page %d-%d, which is not there", b.seq, first, last)
		}
		return true
	})
	if b.frame == job.NoFrame {
		return
	}
	at := 0
	live := make([]bool, len(pages)) // which pages have a line that has a document
	eachSpan(c.v, b.seq, 0, b.lines-1, func(sp span) bool {
		if sp.Status == job.Purged {
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

// sizes finds that the row of a page's sizes tells the lengths of its payloads. A batch whose payloads have the same length has none.
func (c *checker) sizes(b *batch, first, last uint32, page []byte) {
	n := int(last-first) + 1
	if !b.uneven {
		if len(page) != n*b.frame.Size(b.longest) {
			c.problem("batch %d: page %d-%d has payloads of other lengths than %d", b.seq, first, last, b.longest)
		}
		return
	}
	if want := encodeSizes(b.frame, page, n, b.longest); !bytes.Equal(c.v.get(sizesKey(b.seq, last, first)), want) {
		c.problem("batch %d: the sizes of page %d-%d are not those of its payloads", b.seq, first, last)
	}
}

// details finds details of lines that are purged or were never there.
func (c *checker) details(b *batch) {
	var sp span
	first := true
	prefix := seqKey(detailTable, b.seq)
	c.v.scan(prefix, after(prefix), func(key string, value []byte) bool {
		if !wellFormed(key) { // that has been reported
			return true
		}
		c.guard(func() { decodeDetail(kindOfDetail(key), value) }, "row %x", key)
		if kindOfDetail(key) == historyDetail && (u64At(key, 14) <= b.seq || u64At(key, 14) > c.meta.cursor) {
			c.problem("row %x: an attempt that ended in a command before the batch or beyond the cursor", key)
		}
		if first && !b.details {
			c.problem("batch %d has details that it does not know of", b.seq)
		}
		line := lineOfKey(key)
		if first || line > sp.last {
			sp, _ = readSpan(c.v, b.seq, line)
		}
		first = false
		if line >= b.lines || sp.Status == job.Purged {
			c.problem("batch %d: line %d has details, and is purged or none", b.seq, line)
		}
		return true
	})
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
	for _, table := range []byte{countsTable, spanTable, pageTable, sizesTable, detailTable} {
		seq, there := uint64(0), false
		c.table(table, func(key string, _ []byte) {
			if at := seqOfKey(key); at != seq {
				seq, there = at, c.v.get(seqKey(batchTable, at)) != nil
			}
			if !there {
				c.problem("row %x belongs to no batch", key)
			}
		})
	}
}

// EachRow calls visit with all keys and values, in order, until it returns false: for those who compare stores. The value is valid during
// the visit.
func (s *Store) EachRow(visit func(key string, value []byte) bool) (err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	v.scan("\x00", "\xff", visit)
	return nil
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
