package store

import (
	"slices"
	"sync"

	"github.com/daybookq/daybook/job"
)

// handout is a run of lines as a claim handed it out: all that their documents need, but the payloads, without a look at the
// database. Of the batch only the fixed part may be read outside of Apply.
type handout struct {
	b           *batch
	sp          span
	client, typ string
	details     bool
}

// HandedOut returns the documents of what a claim has just handed out, as of the claim. Jobs that have been purged since are left
// out.
func (s *Store) HandedOut(c *Claimed) (docs []job.Job, err error) {
	defer catch(&err)
	var v *view
	open := func() view {
		if v == nil {
			opened := s.view()
			v = &opened
		}
		return *v
	}
	defer func() {
		if v != nil {
			v.discard()
		}
	}()
	docs = make([]job.Job, 0, c.Jobs())
	for i := range c.handouts {
		h := &c.handouts[i]
		start := len(docs)
		s.failOnDamage(h)
		s.pages.each(open, h.b, h.sp.first, h.sp.last, func(line uint32, payload []byte) {
			doc := h.b.document(&h.sp, line)
			doc.Client, doc.Type = h.client, h.typ
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

// SetAside returns the jobs of a claim of which a row cannot be read that their documents need, and takes them out of what HandedOut returns.
func (s *Store) SetAside(c *Claimed) (ids []job.ID, err error) {
	defer catch(&err)
	v := s.view()
	defer v.discard()
	aside := map[job.ID]bool{}
	look := func(b *batch, first, last uint32, details bool) {
		unread := func(line uint32, _ error) { aside[job.NewID(b.at, b.seq, int(line))] = true }
		if b.frame != job.NoFrame {
			for line := first; line <= last; {
				_, pageLast := b.pageOf(line)
				err := s.readPage(v, b, line)
				for ; line <= min(pageLast, last); line++ {
					if unreadable(err) {
						unread(line, err)
					}
				}
			}
		}
		if b.unique {
			s.readLines(lineKeyTable, b.seq, first, last, func(first, last uint32) { keysOf(v, b, first, last) }, unread)
		}
		if details {
			s.readLines(detailTable, b.seq, first, last, func(first, last uint32) {
				for line := first; line <= last; line++ {
					v.newest(detailKey(b.seq, line, historyDetail))
					v.get(detailKey(b.seq, line, progressDetail))
				}
			}, unread)
		}
		for line := first; line <= last; line++ {
			if id := job.NewID(b.at, b.seq, int(line)); aside[id] {
				ids = append(ids, id)
			}
		}
	}
	if c.Replayed {
		for _, r := range c.Runs {
			if b := readBatch(v, r.Batch); b != nil {
				look(b, r.First, r.Last, b.details)
			}
		}
		return ids, nil
	}
	for i := range c.handouts {
		h := &c.handouts[i]
		look(h.b, h.sp.first, h.sp.last, h.hasHistory())
	}
	c.handouts = slices.Collect(func(yield func(handout) bool) {
		for _, h := range c.handouts {
			first := h.sp.first
			for line := h.sp.first; line <= h.sp.last; line++ {
				if !aside[job.NewID(h.b.at, h.b.seq, int(line))] {
					continue
				}
				if part := h; first < line {
					part.sp.first, part.sp.last = first, line-1
					yield(part)
				}
				first = line + 1
			}
			if part := h; first <= h.sp.last {
				part.sp.first = first
				yield(part)
			}
		}
	})
	return ids, nil
}

// hasHistory reports whether the lines may have one. A line that is claimed for the first time has none, and results and progress are of
// other claims.
func (h *handout) hasHistory() bool { return h.details && (h.sp.Attempts > 1 || h.sp.Redrives > 0) }

// readPage reads the page of a line, and returns why that cannot be done.
func (s *Store) readPage(v view, b *batch, line uint32) error {
	first, _ := b.pageOf(line)
	if known := s.damage(pageTable, b.seq, first); known != nil {
		return known
	}
	err := try(func() { eachPayload(v, b, line, line, func(uint32, []byte) bool { return true }) })
	if unreadable(err) {
		s.damaged.Store(damagedRow{pageTable, b.seq, first}, err)
	}
	return err
}

// failOnDamage fails when something that the documents of a handout need is known to be damaged.
func (s *Store) failOnDamage(h *handout) {
	check := func(table byte, line uint32) {
		if known := s.damage(table, h.b.seq, line); known != nil {
			panic(known)
		}
	}
	for line := h.sp.first; line <= h.sp.last; {
		pageFirst, pageLast := h.b.pageOf(line)
		check(pageTable, pageFirst)
		line = pageLast + 1
	}
	for line := h.sp.first; line <= h.sp.last && (h.b.unique || h.hasHistory()); line++ {
		check(lineKeyTable, line)
		check(detailTable, line)
	}
}

// pageCache holds pages of payloads that were claimed from lately: the next claim usually takes the lines that follow. Pages never
// change, so what it holds is never wrong.
type pageCache struct {
	mu     sync.Mutex
	recent recentLines[cachedPage]
	bytes  int // in the younger generation
}

type cachedPage struct {
	seq         uint64
	first, last uint32
	framed      []byte
}

// pageCacheBytes is enough for the heads of some hundred queues.
const pageCacheBytes = 32 << 20

// count adds to what the younger generation holds, and ends it when that is half of what the cache may hold.
func (p *pageCache) count(bytes int) {
	if p.bytes += bytes; p.bytes > pageCacheBytes/2 {
		p.recent.age()
		p.bytes = 0
	}
}

// find returns the page that holds a line, from the cache or through a view.
func (p *pageCache) find(open func() view, seq uint64, line uint32) (page cachedPage, ok bool) {
	p.mu.Lock()
	page, ok, moved := p.recent.find(cachedPage{seq: seq, last: line}, func(c *cachedPage) bool {
		return c.seq == seq && c.first <= line && line <= c.last
	})
	if moved {
		p.count(len(page.framed))
	}
	p.mu.Unlock()
	if ok {
		return page, true
	}
	open().scan(pageKey(seq, line, 0), after(seqKey(pageTable, seq)), func(key string, value []byte) bool {
		last, first := splitPageKey(key)
		if ok = first <= line; ok {
			page = cachedPage{seq, first, last, append([]byte{}, value...)}
		}
		return false
	})
	// A page that this line is all of will not be asked for again soon.
	if ok && page.first < page.last {
		p.mu.Lock()
		p.recent.set(page)
		p.count(len(page.framed))
		p.mu.Unlock()
	}
	return page, ok
}

// each calls visit with the payloads of lines first … last, in order, as far as they are there. The payloads share memory with the
// pages and must not be changed.
func (p *pageCache) each(open func() view, b *batch, first, last uint32, visit func(line uint32, payload []byte)) {
	for line := first; line <= last; {
		if b.frame == job.NoFrame {
			visit(line, nil)
			line++
			continue
		}
		page, ok := p.find(open, b.seq, line)
		if !ok { // purged
			line++
			continue
		}
		rest, err := b.frame.Skip(page.framed, int(line-page.first))
		framed(err)
		for ; line <= min(page.last, last); line++ {
			var payload []byte
			payload, rest, err = b.frame.Next(rest)
			framed(err)
			visit(line, payload)
		}
	}
}
