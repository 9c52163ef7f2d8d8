package store

import (
	"sync"

	"github.com/tidwall/btree"

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
			v.close()
		}
	}()
	docs = make([]job.Job, 0, c.Jobs())
	for i := range c.handouts {
		h := &c.handouts[i]
		start := len(docs)
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
		// A line that is claimed for the first time has no history, and results and progress are of other claims.
		if h.details && (h.sp.attempts > 1 || h.sp.redrives > 0) && len(docs) > start {
			addBrief(open(), h.b, docs[start:], make([]uint64, len(docs)-start))
		}
	}
	return docs, nil
}

// pageCache holds pages of payloads that were claimed from lately: the next claim usually takes the lines that follow. Pages never
// change, so what it holds is never wrong; when it is full it is dropped as a whole.
type pageCache struct {
	mu    sync.Mutex
	pages *btree.BTreeG[cachedPage]
	bytes int
}

type cachedPage struct {
	seq         uint64
	first, last uint32
	framed      []byte
}

// pageCacheBytes is enough for the heads of some hundred queues.
const pageCacheBytes = 32 << 20

func (p *pageCache) clear() {
	p.bytes = 0
	p.pages = btree.NewBTreeGOptions(func(a, b cachedPage) bool {
		return a.seq < b.seq || a.seq == b.seq && a.last < b.last
	}, btree.Options{NoLocks: true, Degree: 16})
}

// find returns the page that holds a line, from the cache or through a view.
func (p *pageCache) find(open func() view, seq uint64, line uint32) (page cachedPage, ok bool) {
	p.mu.Lock()
	p.pages.Ascend(cachedPage{seq: seq, last: line}, func(c cachedPage) bool {
		page = c
		return false
	})
	p.mu.Unlock()
	if page.seq == seq && page.first <= line && line <= page.last && page.framed != nil {
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
		if p.bytes += len(page.framed); p.bytes > pageCacheBytes {
			p.clear()
			p.bytes = len(page.framed)
		}
		p.pages.Set(page)
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
