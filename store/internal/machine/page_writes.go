package machine

import (
	"bytes"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// writePages cuts a framed body into pages, and records in b where they end. The rows share the body's memory.
func (a *Applying) writePages(b *row.Batch, body []byte) {
	b.Uneven = !row.EvenBody(b, body)
	if len(body) <= memory.NewPageBytes {
		a.Pages.Add(memory.CachedPage{Seq: b.Seq, Last: b.Lines - 1, Framed: bytes.Clone(body)}) // the body may be part of a large buffer
	}
	for line := uint32(0); line < b.Lines; {
		if line > 0 {
			b.PageEnds = append(b.PageEnds, line-1)
		}
		page, n := row.FirstPage(b.Frame, body, int(b.Lines-line), a.Rules.PageBytes)
		a.O.Set(row.PageKey(b.Seq, line+uint32(n)-1, line), page)
		if b.Uneven {
			a.O.Set(row.SizesKey(b.Seq, line+uint32(n)-1, line), row.EncodeSizes(b.Frame, page, n, b.Longest))
		}
		line += uint32(n)
		body = body[len(page):]
	}
}

// deletePages deletes the pages that overlap first … last and have no unpurged line left.
func (a *Applying) deletePages(b *row.Batch, first, last uint32) {
	if b.Frame == job.NoFrame {
		return
	}
	if len(b.PageEnds) == 0 {
		if b.Counts[job.Purged] == int64(b.Lines) {
			a.deletePage(b, 0, b.Lines-1)
		}
		return
	}
	for line := first; line <= last; {
		pageFirst, pageLast := b.PageOf(line)
		// Lines are mostly purged in order, so look at the later lines first: one unpurged line is enough to keep a
		// page.
		if (last >= pageLast || !a.anyLive(b.Seq, last+1, pageLast)) && (first <= pageFirst || !a.anyLive(b.Seq, pageFirst, first-1)) {
			a.deletePage(b, pageFirst, pageLast)
		}
		line = pageLast + 1
	}
}

func (a *Applying) deletePage(b *row.Batch, first, last uint32) {
	a.O.Delete(row.PageKey(b.Seq, last, first))
	a.BesideRows++
	if b.Uneven {
		a.O.Delete(row.SizesKey(b.Seq, last, first))
		a.BesideRows++
	}
}

// anyLive reports whether any of the lines from … to has not been purged.
func (a *Applying) anyLive(seq uint64, from, to uint32) bool {
	for line := from; line <= to; a.BesideRows++ {
		sp := a.spanAt(seq, line)
		if sp.Status != job.Purged {
			return true
		}
		line = sp.Last + 1
	}
	return false
}
