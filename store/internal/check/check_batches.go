package check

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

func (c *checker) Batch(b *row.Batch) {
	c.details(b)
	for _, last := range b.GroupPageEnds() {
		c.must(row.GroupPageName{b.Seq, last}.Key())
	}
	var counts job.Counts
	next := uint32(0)
	var g *row.Group
	var before *row.Span
	var last row.Span
	tiled := true
	row.EachSpan(c.v, b.Seq, 0, b.Lines-1, func(sp row.Span) bool {
		if g == nil || sp.First > g.Last && sp.First < b.Lines {
			g = c.groups.Group(c.v, b, sp.First)
			before = nil
		}
		if tiled = sp.First == next && sp.Last >= sp.First && sp.First >= g.First && sp.Last <= g.Last; !tiled {
			c.problem("batch %d: span %d-%d where line %d of group %d-%d was next", b.Seq, sp.First, sp.Last, next, g.First, g.Last)
			return false
		}
		if before != nil && before.State == sp.State && before.Moved == sp.Moved {
			c.problem("batch %d: spans %d-%d and %d-%d are equal and not one", b.Seq, before.First, before.Last, sp.First, sp.Last)
		}
		c.span(b, g, &sp, &counts)
		last = sp
		next, before = sp.Last+1, &last
		return true
	})
	if tiled && next < b.Lines {
		c.problem("batch %d: lines from %d on are in no span", b.Seq, next)
	}
	if !tiled || next < b.Lines {
		return
	}
	if rest, ok := row.ReadSpan(c.v, b.Seq, b.Lines); ok || rest.Last > 0 {
		c.problem("batch %d: span %d-%d lies beyond its %d lines", b.Seq, rest.First, rest.Last, b.Lines)
	}
	if b.Submission != 0 && c.v.Get(row.PartKey(b.Submission, b.Base+int64(b.Lines)-1)) == nil {
		c.problem("batch %d is no part of submission %d", b.Seq, b.Submission)
	}
	if counts != b.Counts {
		c.problem("batch %d counts %v, and has %v", b.Seq, b.Counts, counts)
	}
	c.pages(b)
}

func (c *checker) span(b *row.Batch, g *row.Group, sp *row.Span, counts *job.Counts) {
	if sp.Status == 0 || int(sp.Status) >= job.NumStatus {
		c.problem("batch %d: lines %d-%d are %v", b.Seq, sp.First, sp.Last, sp.Status)
		return
	}
	if sp.Moved > c.meta.Cursor || sp.Moved != 0 && (!b.Separate() || sp.Moved < b.Seq) {
		c.problem("batch %d: lines %d-%d name command %d as the last that moved them", b.Seq, sp.First, sp.Last, sp.Moved)
	}
	n := int64(sp.Last-sp.First) + 1
	counts[sp.Status] += n
	if sp.Status == job.Purged {
		if sp.State != (job.State{Status: job.Purged}) || sp.Moved != 0 {
			c.problem("batch %d: purged lines %d-%d remember %+v", b.Seq, sp.First, sp.Last, sp.State)
		}
		return
	}
	q := c.queue(g.QueueID)
	q.counts[sp.Status] += n
	c.guard(func() { q.bytes += c.lengths.Sum(c.v, b, sp.First, sp.Last) }, "lengths of lines %d-%d of batch %d", sp.First, sp.Last, b.Seq)
	q.priorities = q.priorities.With(sp.PriorityIn(&g.Attributes))
	if sp.Status == job.Pending {
		q.Lane(sp.Lane(g)).pending += n
	}
	for _, key := range sp.Indexes(b, g) {
		c.must(key)
	}
	c.distinctSpan(b, g, sp)
	if sp.Claim != 0 {
		c.named.refs += int(n)
	}
	if sp.Status == job.Active {
		c.named.held += int(n)
		if sp.Claim == 0 {
			c.problem("batch %d: lines %d-%d are active under no claim", b.Seq, sp.First, sp.Last)
		}
	}
	if most := sp.MaxAttemptsIn(&g.Attributes); int(sp.Attempts) > most {
		c.problem("batch %d: lines %d-%d were claimed %d times of %d", b.Seq, sp.First, sp.Last, sp.Attempts, most)
	}
}

// pages checks that each line with a document has its payload in exactly one page.
func (c *checker) pages(b *row.Batch) {
	type page struct{ first, last uint32 }
	var pages []page
	prefix := row.SeqKey(row.PageTable, b.Seq)
	c.v.Scan(prefix, lsm.After(prefix), func(key string, value []byte) bool {
		last, first := row.SplitPageKey(key)
		switch {
		case b.Frame == job.NoFrame:
			c.problem("batch %d has no payloads, and page %d-%d", b.Seq, first, last)
			return true
		case first > last || last >= b.Lines || len(pages) > 0 && first <= pages[len(pages)-1].last:
			c.problem("batch %d: page %d-%d overlaps another, or the end", b.Seq, first, last)
			return true
		}
		if rest, err := b.Frame.Skip(value, int(last-first)+1); err != nil || len(rest) > 0 {
			c.problem("batch %d: page %d-%d does not hold its lines", b.Seq, first, last)
		} else {
			c.sizes(b, first, last, value)
		}
		if at, end := b.PageOf(first); at != first || end != last {
			c.problem("batch %d: page %d-%d is not one that the batch has", b.Seq, first, last)
		}
		pages = append(pages, page{first, last})
		return true
	})
	prefix = row.SeqKey(row.SizesTable, b.Seq)
	c.v.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		last, first := row.SplitPageKey(key)
		at, there := slices.BinarySearchFunc(pages, first, func(p page, first uint32) int { return cmp.Compare(p.first, first) })
		if !b.Uneven || !there || pages[at].last != last {
			c.problem("batch %d: sizes of page %d-%d, which is not there", b.Seq, first, last)
		}
		return true
	})
	if b.Frame == job.NoFrame {
		return
	}
	at := 0
	live := make([]bool, len(pages)) // which pages have a line with a document
	row.EachSpan(c.v, b.Seq, 0, b.Lines-1, func(sp row.Span) bool {
		if sp.Status == job.Purged {
			return true
		}
		for line := sp.First; line <= sp.Last; {
			for at < len(pages) && pages[at].last < line {
				at++
			}
			if at == len(pages) || line < pages[at].first { // only purged lines are between pages
				c.problem("batch %d: line %d has no page", b.Seq, line)
				return true
			}
			live[at] = true
			line = pages[at].last + 1
		}
		return true
	})
	for i, p := range pages {
		if !live[i] {
			c.problem("batch %d: page %d-%d holds purged lines only", b.Seq, p.first, p.last)
		}
	}
}

// sizes checks that the row of a page's sizes has the lengths of its payloads. A batch must not have these rows if all
// its payloads have the same length.
func (c *checker) sizes(b *row.Batch, first, last uint32, page []byte) {
	n := int(last-first) + 1
	if !b.Uneven {
		if len(page) != n*b.Frame.Size(b.Longest) {
			c.problem("batch %d: page %d-%d has payloads of other lengths than %d", b.Seq, first, last, b.Longest)
		}
		return
	}
	if want := row.EncodeSizes(b.Frame, page, n, b.Longest); !bytes.Equal(c.v.Get(row.SizesKey(b.Seq, last, first)), want) {
		c.problem("batch %d: the sizes of page %d-%d are not those of its payloads", b.Seq, first, last)
	}
}

// details finds details of lines that are purged or never existed.
func (c *checker) details(b *row.Batch) {
	var sp row.Span
	var steps stepRing
	first := true
	prefix := row.SeqKey(row.DetailTable, b.Seq)
	c.v.Scan(prefix, lsm.After(prefix), func(key string, value []byte) bool {
		if !row.WellFormed(key) { // already reported
			return true
		}
		c.guard(func() { decodeDetail(row.KindOfDetail(key), value) }, "row %x", key)
		steps.see(c, b, key, value)
		if row.KindOfDetail(key) == row.HistoryDetail && (lsm.U64At(key, 14) <= b.Seq || lsm.U64At(key, 14) > c.meta.Cursor) {
			c.problem("row %x: an attempt that ended in a command before the batch or beyond the cursor", key)
		}
		if first && !b.Details {
			c.problem("batch %d has details that it does not know of", b.Seq)
		}
		line := row.LineOfKey(key)
		if first || line > sp.Last {
			sp, _ = row.ReadSpan(c.v, b.Seq, line)
		}
		first = false
		if line >= b.Lines || sp.Status == job.Purged {
			c.problem("batch %d: line %d has details, and is purged or none", b.Seq, line)
		}
		return true
	})
	steps.end(c, b)
}

// stepRing compares the rows of the newest steps of a line, whose keys are in order, with the number of steps in the row
// of its progress.
type stepRing struct {
	line       uint32
	want, rows int
}

func (r *stepRing) see(c *checker, b *row.Batch, key string, value []byte) {
	if line := row.LineOfKey(key); line != r.line {
		r.end(c, b)
		*r = stepRing{line: line}
	}
	switch row.KindOfDetail(key) {
	case row.ProgressDetail:
		c.guard(func() { r.want = int(min(row.DecodeProgress(value).Steps, job.MaxSteps)) }, "row %x", key)
	case row.StepDetail:
		if int(row.SlotOfStep(key)) != r.rows {
			c.problem("row %x: slot %d of the steps is missing", key, r.rows)
		}
		r.rows++
	}
}

func (r *stepRing) end(c *checker, b *row.Batch) {
	if r.rows != r.want {
		c.problem("batch %d: line %d has rows of %d steps, and its progress says %d", b.Seq, r.line, r.rows, r.want)
	}
}

// decodeDetail decodes a detail row, and fails if it cannot.
func decodeDetail(kind byte, value []byte) {
	switch kind {
	case row.HistoryDetail:
		row.DecodeAttempt(value)
	case row.ResultDetail:
		row.DecodeResult(value)
	case row.ProgressDetail:
		row.DecodeProgress(value)
	case row.StepDetail:
		row.DecodeStep(value)
	default:
		lsm.Contradict("decode", "detail of unknown kind %d", kind)
	}
}

// purgedBatches checks the remaining rows of batches whose lines are all purged, and the timer for them. It returns the
// number of remaining spans of each batch.
func (c *checker) purgedBatches() map[uint64]int {
	spans := map[uint64]int{}
	c.table(row.PurgedBatchTable, func(key string, value []byte) {
		seq := row.SeqOfKey(key)
		p := row.DecodePurgedBatch(seq, value)
		if c.v.Get(row.SeqKey(row.BatchTable, seq)) != nil || len(p.Ends) == 0 {
			c.problem("purged batch %d is still there, or nothing is left of it", seq)
		}
		ends := p.Ends
		if p.Paged {
			ends = nil
			for _, last := range p.Ends {
				c.must(row.GroupPageName{seq, last}.Key())
				ends = append(ends, row.GroupPageName{seq, last}.GroupEnds(c.v)...)
			}
		}
		for _, last := range ends {
			if value := c.v.Get(row.LineKey(row.SpanTable, seq, last)); value == nil || row.DecodeSpan(last, value).Status != job.Purged {
				c.problem("purged batch %d has no purged span that ends at line %d", seq, last)
			}
		}
		spans[seq] = len(ends)
	})
	if (c.meta.PurgedAt != 0) != (len(spans) > 0) {
		c.problem("%d purged batches are left, and their timer is at %d", len(spans), c.meta.PurgedAt)
	}
	if c.meta.PurgedAt != 0 {
		c.must(row.TimerKey(c.meta.PurgedAt, row.PurgedTimer, 0, 0, 0))
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
	for _, table := range []byte{row.CountsTable, row.GroupTable, row.SpanTable, row.PageTable, row.SizesTable, row.DetailTable} {
		seq, there := uint64(0), false
		c.table(table, func(key string, _ []byte) {
			if at := row.SeqOfKey(key); at != seq {
				seq, there = at, c.v.Get(row.SeqKey(row.BatchTable, at)) != nil
			}
			if left, ok := purged[seq]; ok && table == row.SpanTable {
				purged[seq] = left - 1
				return
			} else if ok && table == row.GroupTable { // they are counted
				return
			}
			if !there {
				c.problem("row %x belongs to no batch", key)
			}
		})
	}
}
