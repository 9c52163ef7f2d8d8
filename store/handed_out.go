package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/lsm"
)

// HandedOut returns the jobs that a claim has just handed out, in their state at the claim. Jobs that have been purged
// since are left out. The payloads share memory with pages and must not be changed; the caller copies them. Apart from
// that, no work is done per job, unless the job has a unique key or a history.
func (q *Queries) HandedOut(c *Claimed) (handed []runs.Run, err error) {
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
	for i := range c.handouts {
		h := &c.handouts[i]
		q.failOnDamage(h)
		if !h.b.unique && !h.hasHistory() {
			doc := handedOutLine(h, c, h.sp.first)
			handed = q.addRun(handed, h, &doc, h.sp.last, open)
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
func (q *Queries) addRun(list []runs.Run, h *handout, first *job.Job, last uint32, open func() lsm.View) []runs.Run {
	q.live.pages.eachPart(open, h.b, uint32(first.ID.Line()), last, func(from, to uint32, part []byte) {
		first.ID = first.ID.WithLine(int(from))
		n := len(list)
		if n == 0 || list[n-1].Frame != h.b.frame || !list[n-1].Follows(first) {
			list = append(list, runs.Run{First: *first, Frame: h.b.frame})
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
func (q *Queries) failOnDamage(h *handout) {
	check := func(row damagedRow) {
		if known := q.damage(row); known != nil {
			panic(known)
		}
	}
	for line := h.sp.first; line <= h.sp.last; {
		_, pageLast := h.b.pageOf(line)
		check(pageRow(h.b, line))
		line = pageLast + 1
	}
	for line := h.sp.first; line <= h.sp.last && (h.b.unique || h.hasHistory()); line++ {
		check(damagedRow{lineKeyTable, h.b.seq, line})
		check(damagedRow{detailTable, h.b.seq, line})
	}
}

// SetAside returns the jobs of a claim whose documents need an unreadable row, and removes them from the result of
// HandedOut.
func (q *Queries) SetAside(c *Claimed) (ids []job.ID, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	if c.Replayed {
		for _, r := range c.Runs {
			if b := readBatch(v, r.Batch); b != nil {
				ids = append(ids, q.unreadable(v, b, span{first: r.First, last: r.Last}, b.details)...)
			}
		}
		return ids, nil
	}
	aside := map[job.ID]bool{}
	for i := range c.handouts {
		h := &c.handouts[i]
		for _, id := range q.unreadable(v, h.b, h.sp, h.hasHistory()) {
			aside[id] = true
			ids = append(ids, id)
		}
	}
	c.handouts = slices.Collect(func(yield func(handout) bool) {
		for _, h := range c.handouts {
			for rest := range h.without(aside) {
				yield(rest)
			}
		}
	})
	return ids, nil
}

// unreadable returns the jobs of a span whose page, unique key or, if details is set, history or progress is
// unreadable.
func (q *Queries) unreadable(v lsm.View, b *batch, sp span, details bool) (ids []job.ID) {
	found := map[uint32]bool{}
	unread := func(line uint32, _ error) { found[line] = true }
	for line := sp.first; line <= sp.last && b.frame != job.NoFrame; {
		_, pageLast := b.pageOf(line)
		err := q.readPage(v, b, line)
		for ; line <= min(pageLast, sp.last); line++ {
			if lsm.Unreadable(err) {
				unread(line, err)
			}
		}
	}
	lines := Run{b.seq, sp.first, sp.last}
	if b.unique {
		q.readLines(lineKeyTable, lines, func(first, last uint32) { keysOf(v, b, first, last) }, unread)
	}
	if details {
		q.readLines(detailTable, lines, func(first, last uint32) {
			for line := first; line <= last; line++ {
				v.Newest(detailKey(b.seq, line, historyDetail))
				v.Get(detailKey(b.seq, line, progressDetail))
			}
		}, unread)
	}
	for line := sp.first; line <= sp.last; line++ {
		if found[line] {
			ids = append(ids, job.NewID(b.at, b.seq, int(line)))
		}
	}
	return ids
}

// handedOutLine returns the document of a line that a claim handed out, without the fields from separate rows.
func handedOutLine(h *handout, c *Claimed, line uint32) job.Job {
	doc := h.b.document(h.g, &h.sp, line)
	doc.Client, doc.Type = h.name.client, h.name.typ
	doc.Claim, doc.Runner, doc.LeaseMs = c.Claim, c.runner, c.LeaseMs
	doc.DeadlineAt = h.sp.deadline(c.Claim.At() + c.LeaseMs)
	return doc
}

// handedOutLines returns the documents of all lines, with their keys and histories.
func handedOutLines(h *handout, c *Claimed, open func() lsm.View) []job.Job {
	docs := make([]job.Job, 0, h.sp.last-h.sp.first+1)
	for line := h.sp.first; line <= h.sp.last; line++ {
		docs = append(docs, handedOutLine(h, c, line))
	}
	if h.b.unique {
		addKeys(open(), h.b, docs)
	}
	if h.hasHistory() {
		addBrief(open(), h.b, docs, make([]uint64, len(docs)))
	}
	return docs
}
