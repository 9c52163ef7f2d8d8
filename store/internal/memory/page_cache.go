package memory

import (
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// pageCache holds pages of payloads that claims have read lately, because the next claim usually takes the following
// lines. It also holds the pages of small batches that were created lately. Otherwise each claim of a job created a
// moment ago would read one page from Pebble. Pages never change, so a cached page is never wrong.
type pageCache struct {
	mu     sync.Mutex
	Recent lsm.RecentOrdered[CachedPage]
}

type CachedPage struct {
	Seq         uint64
	First, Last uint32
	Framed      []byte
	// marks are the offsets of every lineStep-th line of an uneven batch. With them, finding the lines of a claim does
	// not take a walk over all lines before them. The first claim that reads the page makes them.
	Marks []uint32
}

// With this lineStep, marks take little memory compared to the lines, which have at least a byte each.
const lineStep = 64

func (c *CachedPage) mark(b *row.Batch) {
	rest := c.Framed
	c.Marks = make([]uint32, 0, (c.Last-c.First)/lineStep+1)
	for line := c.First; line <= c.Last; line += lineStep {
		c.Marks = append(c.Marks, uint32(len(c.Framed)-len(rest)))
		var err error
		rest, err = b.Frame.Skip(rest, int(min(lineStep, c.Last-line+1)))
		row.Framed(err)
	}
}

// offset returns the offset at which a line of a page of b begins, or at which the last line ends.
func (c *CachedPage) offset(b *row.Batch, line uint32) int {
	n := int(line - c.First)
	if line > c.Last {
		return len(c.Framed)
	}
	if !b.Uneven {
		return min(n*b.Frame.Size(b.Longest), len(c.Framed))
	}
	begin := 0
	if len(c.Marks) > 0 {
		begin = int(c.Marks[n/lineStep])
		n %= lineStep
	}
	rest, err := b.Frame.Skip(c.Framed[begin:], n)
	row.Framed(err)
	return len(c.Framed) - len(rest)
}

func NewPageCache() pageCache {
	return pageCache{Recent: lsm.NewRecentOrdered(func(a, b CachedPage) bool { return a.Seq < b.Seq || a.Seq == b.Seq && a.Last < b.Last }, CachedPage.Size)}
}

// PageCacheBytes is enough for the heads of some hundred queues.
const PageCacheBytes = 32 << 20

// Size is about the memory that a page takes in the cache. A page of one small job takes more memory for the overhead
// than for the payload.
func (c CachedPage) Size() int { return pageOverhead + len(c.Framed) + 4*len(c.Marks) }

const pageOverhead = 256

// Find returns the page that holds a line, from the cache or through a view.
func (p *pageCache) Find(open func() lsm.View, seq uint64, line uint32) (page CachedPage, ok bool) {
	p.mu.Lock()
	page, ok = p.Recent.Find(CachedPage{Seq: seq, Last: line}, func(c *CachedPage) bool {
		return c.Seq == seq && c.First <= line && line <= c.Last
	})
	p.Recent.Trim(PageCacheBytes)
	p.mu.Unlock()
	if ok {
		return page, true
	}
	pages := readPages(open(), seq, line)
	p.Add(pages...)
	if len(pages) == 0 {
		return page, false
	}
	return pages[0], true
}

// Add adds pages.
func (p *pageCache) Add(pages ...CachedPage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, page := range pages {
		p.Recent.Set(page)
		p.Recent.Trim(PageCacheBytes)
	}
}

const (
	// NewPageBytes bounds the bodies of creates whose pages enter the cache at once. If a claim has to read a larger
	// page, it reads it for many jobs.
	NewPageBytes = 64 << 10
	// aheadPages and aheadBytes bound the pages of following batches that are read along with a page of one line.
	// aheadSeqs bounds the commands between them, so that the read passes few deleted pages.
	aheadPages, aheadBytes, aheadSeqs = 64, 64 << 10, 256
)

// readPages returns the page that holds a line, or no page. Claims of single jobs mostly take batches of one job in
// order. So if the page has one line, readPages also returns pages of one line from the batches after it.
func readPages(v lsm.View, seq uint64, line uint32) (pages []CachedPage) {
	bytes := 0
	v.Scan(row.PageKey(seq, line, 0), row.SeqKey(row.PageTable, seq+aheadSeqs), func(key string, value []byte) bool {
		last, first := row.SplitPageKey(key)
		if len(pages) == 0 && (row.SeqOfKey(key) != seq || first > line) {
			return false
		}
		if len(pages) > 0 && first != last {
			return false
		}
		pages = append(pages, CachedPage{Seq: row.SeqOfKey(key), First: first, Last: last, Framed: append([]byte{}, value...)})
		bytes += len(value)
		return first == last && len(pages) < aheadPages && bytes < aheadBytes
	})
	return pages
}

// EachPart calls visit with the framed payloads of lines first … last, one part per page, in order, as far as they
// exist. Parts share memory with the page and must not be changed. Lines without payloads are one part, which is nil.
func (p *pageCache) EachPart(open func() lsm.View, b *row.Batch, first, last uint32, visit func(first, last uint32, part []byte)) {
	if b.Frame == job.NoFrame {
		visit(first, last, nil)
		return
	}
	for line := first; line <= last; {
		page, ok := p.Find(open, b.Seq, line)
		if !ok { // purged
			_, line = b.PageOf(line)
			line++
			continue
		}
		if b.Uneven && page.Marks == nil && page.Last-page.First >= lineStep {
			page.mark(b)
			p.mu.Lock()
			p.Recent.Set(page) // replaces the page without marks
			p.mu.Unlock()
		}
		end := min(page.Last, last)
		part := page.Framed[page.offset(b, line):page.offset(b, end+1)]
		if len(part) == 0 || part[len(part)-1] != '\n' {
			lsm.Contradict("read payloads", "lines %d-%d of batch %d do not end where their page says", line, end, b.Seq)
		}
		visit(line, end, part)
		line = end + 1
	}
}
