package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// HandedOut returns the documents of the jobs that a claim has just handed out, as of the claim. Jobs that have been
// purged since are left out.
func (q *Queries) HandedOut(c *Claimed) (docs []job.Job, err error) {
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
	docs = make([]job.Job, 0, c.Jobs())
	for i := range c.handouts {
		h := &c.handouts[i]
		start := len(docs)
		q.failOnDamage(h)
		q.pages.each(open, h.b, h.sp.first, h.sp.last, func(line uint32, payload []byte) {
			doc := h.b.document(&h.sp, line)
			doc.Client, doc.Type = h.name.client, h.name.typ
			doc.Claim, doc.Runner, doc.LeaseMs = c.Claim, c.runner, c.LeaseMs
			doc.DeadlineAt = h.sp.deadline(c.Claim.At() + c.LeaseMs)
			doc.Payload = payload
			docs = append(docs, doc)
		})
		if h.b.unique && len(docs) > start {
			addKeys(open(), h.b, docs[start:])
		}
		if h.hasHistory() && len(docs) > start {
			addBrief(open(), h.b, docs[start:], make([]uint64, len(docs)-start))
		}
	}
	return docs, nil
}

// failOnDamage fails if something that the documents of a handout need is known to be damaged.
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

// SetAside returns the jobs of a claim whose documents need a row that cannot be read, and removes them from what
// HandedOut returns.
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

// unreadable returns the jobs of a span whose page, unique key or, with details, history or progress cannot be read.
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
