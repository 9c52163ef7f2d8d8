package store

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

func (c *checker) batch(b *batch) {
	c.details(b)
	for _, last := range b.groupPageEnds() {
		c.must(groupPageName{b.seq, last}.key())
	}
	var counts job.Counts
	next := uint32(0)
	var g *group
	var before *span
	var last span
	tiled := true
	eachSpan(c.v, b.seq, 0, b.lines-1, func(sp span) bool {
		if g == nil || sp.first > g.last && sp.first < b.lines {
			g = c.groups.group(c.v, b, sp.first)
			before = nil
		}
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
	if b.submission != 0 && c.v.Get(partKey(b.submission, b.base+int64(b.lines)-1)) == nil {
		c.problem("batch %d is no part of submission %d", b.seq, b.submission)
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
	q := c.queue(g.queueID)
	q.counts[sp.Status] += n
	q.priorities = q.priorities.With(sp.PriorityIn(&g.Attributes))
	if sp.Status == job.Pending {
		q.lane(sp.lane(g)).pending += n
	}
	for _, key := range sp.indexes(b, g) {
		c.must(key)
	}
	c.distinctSpan(b, g, sp)
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

// pages checks that each line with a document has its payload in exactly one page.
func (c *checker) pages(b *batch) {
	type page struct{ first, last uint32 }
	var pages []page
	prefix := seqKey(pageTable, b.seq)
	c.v.Scan(prefix, lsm.After(prefix), func(key string, value []byte) bool {
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
	c.v.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
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
	live := make([]bool, len(pages)) // which pages have a line with a document
	eachSpan(c.v, b.seq, 0, b.lines-1, func(sp span) bool {
		if sp.Status == job.Purged {
			return true
		}
		for line := sp.first; line <= sp.last; {
			for at < len(pages) && pages[at].last < line {
				at++
			}
			if at == len(pages) || line < pages[at].first { // only purged lines are between pages
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

// sizes checks that the row of a page's sizes has the lengths of its payloads. A batch must not have these rows if all
// its payloads have the same length.
func (c *checker) sizes(b *batch, first, last uint32, page []byte) {
	n := int(last-first) + 1
	if !b.uneven {
		if len(page) != n*b.frame.Size(b.longest) {
			c.problem("batch %d: page %d-%d has payloads of other lengths than %d", b.seq, first, last, b.longest)
		}
		return
	}
	if want := encodeSizes(b.frame, page, n, b.longest); !bytes.Equal(c.v.Get(sizesKey(b.seq, last, first)), want) {
		c.problem("batch %d: the sizes of page %d-%d are not those of its payloads", b.seq, first, last)
	}
}

// details finds details of lines that are purged or never existed.
func (c *checker) details(b *batch) {
	var sp span
	first := true
	prefix := seqKey(detailTable, b.seq)
	c.v.Scan(prefix, lsm.After(prefix), func(key string, value []byte) bool {
		if !wellFormed(key) { // already reported
			return true
		}
		c.guard(func() { decodeDetail(kindOfDetail(key), value) }, "row %x", key)
		if kindOfDetail(key) == historyDetail && (lsm.U64At(key, 14) <= b.seq || lsm.U64At(key, 14) > c.meta.cursor) {
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

// decodeDetail decodes a detail row, and fails if it cannot.
func decodeDetail(kind byte, value []byte) {
	switch kind {
	case historyDetail:
		decodeAttempt(value)
	case resultDetail:
		decodeResult(value)
	case progressDetail:
		decodeProgress(value)
	case stepDetail:
		decodeStep(value)
	default:
		lsm.Contradict("decode", "detail of unknown kind %d", kind)
	}
}

// purgedBatches checks the remaining rows of batches whose lines are all purged, and the timer for them. It returns the
// number of remaining spans of each batch.
func (c *checker) purgedBatches() map[uint64]int {
	spans := map[uint64]int{}
	c.table(purgedBatchTable, func(key string, value []byte) {
		seq := seqOfKey(key)
		p := decodePurgedBatch(seq, value)
		if c.v.Get(seqKey(batchTable, seq)) != nil || len(p.ends) == 0 {
			c.problem("purged batch %d is still there, or nothing is left of it", seq)
		}
		ends := p.ends
		if p.paged {
			ends = nil
			for _, last := range p.ends {
				c.must(groupPageName{seq, last}.key())
				ends = append(ends, groupPageName{seq, last}.groupEnds(c.v)...)
			}
		}
		for _, last := range ends {
			if value := c.v.Get(lineKey(spanTable, seq, last)); value == nil || decodeSpan(last, value).Status != job.Purged {
				c.problem("purged batch %d has no purged span that ends at line %d", seq, last)
			}
		}
		spans[seq] = len(ends)
	})
	if (c.meta.purgedAt != 0) != (len(spans) > 0) {
		c.problem("%d purged batches are left, and their timer is at %d", len(spans), c.meta.purgedAt)
	}
	if c.meta.purgedAt != 0 {
		c.must(timerKey(c.meta.purgedAt, purgedTimer, 0, 0, 0))
	}
	return spans
}

// orphans finds rows of batches that are deleted.
func (c *checker) orphans() {
	purged := c.purgedBatches()
	defer func() {
		for seq, spans := range purged {
			if spans != 0 {
				c.problem("purged batch %d counts %d spans more than there are", seq, spans)
			}
		}
	}()
	for _, table := range []byte{countsTable, groupTable, spanTable, pageTable, sizesTable, detailTable} {
		seq, there := uint64(0), false
		c.table(table, func(key string, _ []byte) {
			if at := seqOfKey(key); at != seq {
				seq, there = at, c.v.Get(seqKey(batchTable, at)) != nil
			}
			if left, ok := purged[seq]; ok && table == spanTable {
				purged[seq] = left - 1
				return
			} else if ok && table == groupTable { // they are counted
				return
			}
			if !there {
				c.problem("row %x belongs to no batch", key)
			}
		})
	}
}
