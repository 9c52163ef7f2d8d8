package store

import (
	"bytes"

	"github.com/daybookq/daybook/job"
)

// writePages cuts a framed body into pages, and records in b where they end. The rows share the body's memory.
func (a *applying) writePages(b *batch, body []byte) {
	b.uneven = !evenBody(b, body)
	if len(body) <= newPageBytes {
		a.pages.add(cachedPage{seq: b.seq, last: b.lines - 1, framed: bytes.Clone(body)}) // the body may be part of a large buffer
	}
	for line := uint32(0); line < b.lines; {
		if line > 0 {
			b.pageEnds = append(b.pageEnds, line-1)
		}
		page, n := firstPage(b.frame, body, int(b.lines-line), a.rules.pageBytes)
		a.o.Set(pageKey(b.seq, line+uint32(n)-1, line), page)
		if b.uneven {
			a.o.Set(sizesKey(b.seq, line+uint32(n)-1, line), encodeSizes(b.frame, page, n, b.longest))
		}
		line += uint32(n)
		body = body[len(page):]
	}
}

// deletePages deletes the pages that overlap first … last and have no unpurged line left.
func (a *applying) deletePages(b *batch, first, last uint32) {
	if b.frame == job.NoFrame {
		return
	}
	if len(b.pageEnds) == 0 {
		if b.counts[job.Purged] == int64(b.lines) {
			a.deletePage(b, 0, b.lines-1)
		}
		return
	}
	for line := first; line <= last; {
		pageFirst, pageLast := b.pageOf(line)
		// Lines are mostly purged in order, so look at the later lines first: one unpurged line is enough to keep a
		// page.
		if (last >= pageLast || !a.anyLive(b.seq, last+1, pageLast)) && (first <= pageFirst || !a.anyLive(b.seq, pageFirst, first-1)) {
			a.deletePage(b, pageFirst, pageLast)
		}
		line = pageLast + 1
	}
}

func (a *applying) deletePage(b *batch, first, last uint32) {
	a.o.Delete(pageKey(b.seq, last, first))
	a.besideRows++
	if b.uneven {
		a.o.Delete(sizesKey(b.seq, last, first))
		a.besideRows++
	}
}

// anyLive reports whether any of the lines from … to has not been purged.
func (a *applying) anyLive(seq uint64, from, to uint32) bool {
	for line := from; line <= to; a.besideRows++ {
		sp := a.spanAt(seq, line)
		if sp.Status != job.Purged {
			return true
		}
		line = sp.last + 1
	}
	return false
}
