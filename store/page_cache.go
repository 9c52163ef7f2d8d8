package store

import (
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// pageCache holds pages of payloads that claims have read lately, because the next claim usually takes the following
// lines. It also holds the pages of small batches that were created lately. Otherwise each claim of a job created a
// moment ago would read one page from Pebble. Pages never change, so a cached page is never wrong.
type pageCache struct {
	mu     sync.Mutex
	recent lsm.RecentOrdered[cachedPage]
}

type cachedPage struct {
	seq         uint64
	first, last uint32
	framed      []byte
	// marks are the offsets of every lineStep-th line of an uneven batch. With them, finding the lines of a claim does
	// not take a walk over all lines before them. The first claim that reads the page makes them.
	marks []uint32
}

// With this lineStep, marks take little memory compared to the lines, which have at least a byte each.
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

// offset returns the offset at which a line of a page of b begins, or at which the last line ends.
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
	return pageCache{recent: lsm.NewRecentOrdered(func(a, b cachedPage) bool { return a.seq < b.seq || a.seq == b.seq && a.last < b.last }, cachedPage.size)}
}

// pageCacheBytes is enough for the heads of some hundred queues.
const pageCacheBytes = 32 << 20

// size is about the memory that a page takes in the cache. A page of one small job takes more memory for the overhead
// than for the payload.
func (c cachedPage) size() int { return pageOverhead + len(c.framed) + 4*len(c.marks) }

const pageOverhead = 256

// find returns the page that holds a line, from the cache or through a view.
func (p *pageCache) find(open func() lsm.View, seq uint64, line uint32) (page cachedPage, ok bool) {
	p.mu.Lock()
	page, ok = p.recent.Find(cachedPage{seq: seq, last: line}, func(c *cachedPage) bool {
		return c.seq == seq && c.first <= line && line <= c.last
	})
	p.recent.Trim(pageCacheBytes)
	p.mu.Unlock()
	if ok {
		return page, true
	}
	pages := readPages(open(), seq, line)
	p.add(pages...)
	if len(pages) == 0 {
		return page, false
	}
	return pages[0], true
}

// add adds pages.
func (p *pageCache) add(pages ...cachedPage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, page := range pages {
		p.recent.Set(page)
		p.recent.Trim(pageCacheBytes)
	}
}

const (
	// newPageBytes bounds the bodies of creates whose pages enter the cache at once. If a claim has to read a larger
	// page, it reads it for many jobs.
	newPageBytes = 64 << 10
	// aheadPages and aheadBytes bound the pages of following batches that are read along with a page of one line.
	// aheadSeqs bounds the commands between them, so that the read passes few deleted pages.
	aheadPages, aheadBytes, aheadSeqs = 64, 64 << 10, 256
)

// readPages returns the page that holds a line, or no page. Claims of single jobs mostly take batches of one job in
// order. So if the page has one line, readPages also returns pages of one line from the batches after it.
func readPages(v lsm.View, seq uint64, line uint32) (pages []cachedPage) {
	bytes := 0
	v.Scan(pageKey(seq, line, 0), seqKey(pageTable, seq+aheadSeqs), func(key string, value []byte) bool {
		last, first := splitPageKey(key)
		if len(pages) == 0 && (seqOfKey(key) != seq || first > line) {
			return false
		}
		if len(pages) > 0 && first != last {
			return false
		}
		pages = append(pages, cachedPage{seq: seqOfKey(key), first: first, last: last, framed: append([]byte{}, value...)})
		bytes += len(value)
		return first == last && len(pages) < aheadPages && bytes < aheadBytes
	})
	return pages
}

// eachPart calls visit with the framed payloads of lines first … last, one part per page, in order, as far as they
// exist. Parts share memory with the page and must not be changed. Lines without payloads are one part, which is nil.
func (p *pageCache) eachPart(open func() lsm.View, b *batch, first, last uint32, visit func(first, last uint32, part []byte)) {
	if b.frame == job.NoFrame {
		visit(first, last, nil)
		return
	}
	for line := first; line <= last; {
		page, ok := p.find(open, b.seq, line)
		if !ok { // purged
			_, line = b.pageOf(line)
			line++
			continue
		}
		if b.uneven && page.marks == nil && page.last-page.first >= lineStep {
			page.mark(b)
			p.mu.Lock()
			p.recent.Set(page) // replaces the page without marks
			p.mu.Unlock()
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
