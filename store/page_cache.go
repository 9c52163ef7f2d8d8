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
	// marks are where each lineStep-th line of an uneven batch begins, so that the lines of a claim are found without a
	// walk over all lines before them. A page that is not in the cache has none.
	marks []uint32
}

// lineStep is large enough for marks to take little memory beside the lines, which have at least a byte.
const lineStep = 64

func (c *cachedPage) mark(b *batch) {
	rest := c.framed
	c.marks = make([]uint32, 0, (c.last-c.first)/lineStep+1)
	for line := c.first; line <= c.last; line += lineStep {
		c.marks = append(c.marks, uint32(len(c.framed)-len(rest)))
		var err error
		rest, err = b.frame.Skip(rest, int(min(lineStep, c.last-line+1)))
		framed(err)
	}
}

// offset returns where a line of a page of b, or the end of the last line, is.
func (c *cachedPage) offset(b *batch, line uint32) int {
	n := int(line - c.first)
	if line > c.last {
		return len(c.framed)
	}
	if !b.uneven {
		return min(n*b.frame.Size(b.longest), len(c.framed))
	}
	begin := 0
	if len(c.marks) > 0 {
		begin = int(c.marks[n/lineStep])
		n %= lineStep
	}
	rest, err := b.frame.Skip(c.framed[begin:], n)
	framed(err)
	return len(c.framed) - len(rest)
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
func (p *pageCache) find(open func() lsm.View, b *batch, line uint32) (page cachedPage, ok bool) {
	seq := b.seq
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
			page = cachedPage{seq: seq, first: first, last: last, framed: append([]byte{}, value...)}
		}
		return false
	})
	// A page with a single line is not needed again soon.
	if ok && page.first < page.last {
		if b.uneven {
			page.mark(b)
		}
		p.mu.Lock()
		p.recent.Set(page)
		p.count(len(page.framed))
		p.mu.Unlock()
	}
	return page, ok
}

// eachPart calls visit with the framed payloads of lines first … last of each page, in order, as far as they are there.
// They share memory with the page and must not be changed. Lines without payloads are one part, which is nil.
func (p *pageCache) eachPart(open func() lsm.View, b *batch, first, last uint32, visit func(first, last uint32, part []byte)) {
	if b.frame == job.NoFrame {
		visit(first, last, nil)
		return
	}
	for line := first; line <= last; {
		page, ok := p.find(open, b, line)
		if !ok { // purged
			_, line = b.pageOf(line)
			line++
			continue
		}
		end := min(page.last, last)
		part := page.framed[page.offset(b, line):page.offset(b, end+1)]
		if len(part) == 0 || part[len(part)-1] != '\n' {
			lsm.Contradict("read payloads", "lines %d-%d of batch %d do not end where their page says", line, end, b.seq)
		}
		visit(line, end, part)
		line = end + 1
	}
}
