package query

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
)

// HandedOut returns the jobs that a claim has just handed out, in their state at the claim. Jobs that have been purged
// since are left out. The payloads share memory with pages and must not be changed; the caller copies them. Apart from
// that, no work is done per job, unless the job has a unique key or a history.
func (q *Queries) HandedOut(c *applied.Claimed) (handed []runs.Run, err error) {
	defer lsm.Catch(&err)
	var v *lsm.View
	open := func() lsm.View {
		if v == nil {
			opened := q.db.View()
			v = &opened
		}
		return *v
	}
	defer func() {
		if v != nil {
			v.Discard()
		}
	}()
	for i := range c.Handouts {
		h := &c.Handouts[i]
		q.failOnDamage(h)
		if !h.B.Unique && !h.HasHistory() {
			doc := handedOutLine(h, c, h.Sp.First)
			handed = q.addRun(handed, h, &doc, h.Sp.Last, open)
			continue
		}
		docs := handedOutLines(h, c, open)
		for n := 0; n < len(docs); {
			r := runs.Run{First: docs[n], N: 1}
			for n++; n < len(docs) && r.Follows(&docs[n]); n++ {
				r.N++
			}
			handed = q.addRun(handed, h, &r.First, uint32(docs[n-1].ID.Line()), open)
		}
	}
	return handed, nil
}

// addRun adds jobs of a handout to a list of runs: the job of the document, and the following jobs up to the line last,
// which differ from it only in id and payload.
func (q *Queries) addRun(list []runs.Run, h *row.Handout, first *job.Job, last uint32, open func() lsm.View) []runs.Run {
	q.live.Pages.EachPart(open, h.B, uint32(first.ID.Line()), last, func(from, to uint32, part []byte) {
		first.ID = first.ID.WithLine(int(from))
		n := len(list)
		if n == 0 || list[n-1].Frame != h.B.Frame || !list[n-1].Follows(first) {
			list = append(list, runs.Run{First: *first, Frame: h.B.Frame})
			n++
		}
		r := &list[n-1]
		r.N += int(to-from) + 1
		if part != nil {
			r.Parts = append(r.Parts, part)
		}
	})
	return list
}

// failOnDamage fails if a row that the documents of a handout need is known to be damaged.
func (q *Queries) failOnDamage(h *row.Handout) {
	check := func(row damagedRow) {
		if known := q.damage(row); known != nil {
			panic(known)
		}
	}
	for line := h.Sp.First; line <= h.Sp.Last; {
		_, pageLast := h.B.PageOf(line)
		check(pageRow(h.B, line))
		line = pageLast + 1
	}
	for line := h.Sp.First; line <= h.Sp.Last && (h.B.Unique || h.HasHistory()); line++ {
		check(damagedRow{row.LineKeyTable, h.B.Seq, line})
		check(damagedRow{row.DetailTable, h.B.Seq, line})
	}
}

// SetAside returns the jobs of a claim whose documents need an unreadable row, and removes them from the result of
// HandedOut.
func (q *Queries) SetAside(c *applied.Claimed) (ids []job.ID, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	if c.Replayed {
		for _, r := range c.Runs {
			if b := row.ReadBatch(v, r.Batch); b != nil {
				ids = append(ids, q.unreadable(v, b, row.Span{First: r.First, Last: r.Last}, b.Details)...)
			}
		}
		return ids, nil
	}
	aside := map[job.ID]bool{}
	for i := range c.Handouts {
		h := &c.Handouts[i]
		for _, id := range q.unreadable(v, h.B, h.Sp, h.HasHistory()) {
			aside[id] = true
			ids = append(ids, id)
		}
	}
	c.Handouts = slices.Collect(func(yield func(row.Handout) bool) {
		for _, h := range c.Handouts {
			for rest := range h.Without(aside) {
				yield(rest)
			}
		}
	})
	return ids, nil
}

// unreadable returns the jobs of a span whose page, unique key or, if details is set, history or progress is
// unreadable.
func (q *Queries) unreadable(v lsm.View, b *row.Batch, sp row.Span, details bool) (ids []job.ID) {
	found := map[uint32]bool{}
	unread := func(line uint32, _ error) { found[line] = true }
	for line := sp.First; line <= sp.Last && b.Frame != job.NoFrame; {
		_, pageLast := b.PageOf(line)
		err := q.readPage(v, b, line)
		for ; line <= min(pageLast, sp.Last); line++ {
			if lsm.Unreadable(err) {
				unread(line, err)
			}
		}
	}
	lines := row.Run{b.Seq, sp.First, sp.Last}
	if b.Unique {
		q.readLines(row.LineKeyTable, lines, func(first, last uint32) { machine.KeysOf(v, b, first, last) }, unread)
	}
	if details {
		q.readLines(row.DetailTable, lines, func(first, last uint32) {
			for line := first; line <= last; line++ {
				v.Newest(row.DetailKey(b.Seq, line, row.HistoryDetail))
				v.Get(row.DetailKey(b.Seq, line, row.ProgressDetail))
			}
		}, unread)
	}
	for line := sp.First; line <= sp.Last; line++ {
		if found[line] {
			ids = append(ids, job.NewID(b.At, b.Seq, int(line)))
		}
	}
	return ids
}

// handedOutLine returns the document of a line that a claim handed out, without the fields from separate rows.
func handedOutLine(h *row.Handout, c *applied.Claimed, line uint32) job.Job {
	doc := h.B.Document(h.G, &h.Sp, line)
	doc.Client, doc.Type = h.Name.Client, h.Name.Typ
	doc.Claim, doc.Runner, doc.LeaseMs = c.Claim, c.Runner, c.LeaseMs
	doc.TickledAt, doc.DeadlineAt = c.Claim.At(), h.Sp.Deadline(c.Claim.At()+c.LeaseMs)
	return doc
}

// handedOutLines returns the documents of all lines, with their keys and histories.
func handedOutLines(h *row.Handout, c *applied.Claimed, open func() lsm.View) []job.Job {
	docs := make([]job.Job, 0, h.Sp.Last-h.Sp.First+1)
	for line := h.Sp.First; line <= h.Sp.Last; line++ {
		docs = append(docs, handedOutLine(h, c, line))
	}
	if h.B.Unique {
		addKeys(open(), h.B, docs)
	}
	if h.HasHistory() {
		addBrief(open(), h.B, docs, make([]uint64, len(docs)))
	}
	return docs
}
