package store

import (
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// pageCache holds pages of payloads that claims have read lately: the next claim usually takes the lines that follow.
// Pages never change, so what it holds is never wrong.
type pageCache struct {
	mu     sync.Mutex
	recent lsm.RecentOrdered[cachedPage]
	bytes  int // in the younger generation
}

type cachedPage struct {
	seq         uint64
	first, last uint32
	framed      []byte
}

func newPageCache() pageCache {
	return pageCache{recent: lsm.NewRecentOrdered(func(a, b cachedPage) bool { return a.seq < b.seq || a.seq == b.seq && a.last < b.last })}
}

// pageCacheBytes is enough for the heads of some hundred queues.
const pageCacheBytes = 32 << 20

// count adds to what the younger generation holds, and ends it when that is half of what the cache may hold.
func (p *pageCache) count(bytes int) {
	if p.bytes += bytes; p.bytes > pageCacheBytes/2 {
		p.recent.Age()
		p.bytes = 0
	}
}

// find returns the page that holds a line, from the cache or through a view.
func (p *pageCache) find(open func() lsm.View, seq uint64, line uint32) (page cachedPage, ok bool) {
	p.mu.Lock()
	page, ok, moved := p.recent.Find(cachedPage{seq: seq, last: line}, func(c *cachedPage) bool {
		return c.seq == seq && c.first <= line && line <= c.last
	})
	if moved {
		p.count(len(page.framed))
	}
	p.mu.Unlock()
	if ok {
		return page, true
	}
	open().Scan(pageKey(seq, line, 0), lsm.After(seqKey(pageTable, seq)), func(key string, value []byte) bool {
		last, first := splitPageKey(key)
		if ok = first <= line; ok {
			page = cachedPage{seq, first, last, append([]byte{}, value...)}
		}
		return false
	})
	// A page with a single line is not needed again soon.
	if ok && page.first < page.last {
		p.mu.Lock()
		p.recent.Set(page)
		p.count(len(page.framed))
		p.mu.Unlock()
	}
	return page, ok
}

// each calls visit with the payloads of lines first … last, in order, as far as they are there. The payloads share
// memory with the pages and must not be changed.
func (p *pageCache) each(open func() lsm.View, b *batch, first, last uint32, visit func(line uint32, payload []byte)) {
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
