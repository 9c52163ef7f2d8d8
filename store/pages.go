package store

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/daybookq/daybook/job"
)

// The payloads of a batch are stored in pages of whole lines. The row of the batch says where they end, and rows beside them how long the
// payloads are, so that Apply needs to read no page: whether a page can be read depends on a disk, and what Apply does must not.

// writePages cuts a framed body into pages, and has b know where they end. The rows share the body's memory.
func (s *Store) writePages(b *batch, body []byte) {
	b.uneven = !evenBody(b, body)
	for line := uint32(0); line < b.lines; {
		if line > 0 {
			b.pageEnds = append(b.pageEnds, line-1)
		}
		page, n := cutPage(b.frame, body, int(b.lines-line), s.rules.pageBytes)
		s.o.set(pageKey(b.seq, line+uint32(n)-1, line), page)
		if b.uneven {
			s.o.set(sizesKey(b.seq, line+uint32(n)-1, line), encodeSizes(b.frame, page, n, b.longest))
		}
		line += uint32(n)
		body = body[len(page):]
	}
}

// cutPage returns the first page, of about the given size, of a framed body, and the number of lines in it.
func cutPage(frame job.Frame, body []byte, lines, pageBytes int) (page []byte, n int) {
	if frame == job.LineFrame {
		if len(body) <= pageBytes {
			return body, lines
		}
		end := bytes.LastIndexByte(body[:pageBytes], '\n') + 1
		if end == 0 {
			end = pageBytes + bytes.IndexByte(body[pageBytes:], '\n') + 1
		}
		page = body[:end:end]
		return page, bytes.Count(page, newline)
	}
	rest := body
	for n < lines && len(body)-len(rest) < pageBytes {
		_, next, err := frame.Next(rest)
		fail("cut page", err)
		rest = next
		n++
	}
	end := len(body) - len(rest)
	return body[:end:end], n
}

var newline = []byte{'\n'}

// evenBody reports whether all payloads of b are known to have the same length. It is so if the body is as long as payloads of the greatest
// length make it.
func evenBody(b *batch, body []byte) bool {
	return len(body) == int(b.lines)*b.frame.Size(b.longest)
}

// encodeSizes returns the lengths, of which none is more than longest, of the n payloads of a page.
func encodeSizes(frame job.Frame, page []byte, n, longest int) []byte {
	if frame == job.LineFrame && longest < 1<<7 { // each in a byte
		return sizesOfShortLines(page, n)
	}
	e := make(encoder, 0, 2*n)
	for range n {
		payload, rest, err := frame.Next(page)
		fail("measure payloads", err)
		e.uint(uint64(len(payload)))
		page = rest
	}
	return e
}

// sizesOfShortLines is encodeSizes for lines of less than 128 bytes. It looks at eight bytes at a time: a body may have millions of lines, and
// nothing else is applied meanwhile. A search for the end of each line takes three times as long where lines have one to three bytes.
func sizesOfShortLines(page []byte, n int) []byte {
	const newlines, low7 = 0x0a0a0a0a0a0a0a0a, 0x7f7f7f7f7f7f7f7f
	sizes := make([]byte, 0, n)
	begin, at := 0, 0
	for ; at+8 <= len(page); at += 8 {
		x := binary.LittleEndian.Uint64(page[at:]) ^ newlines
		ends := ^((x&low7 + low7) | x | low7) // the highest bit of each byte that is a newline
		for ; ends != 0; ends &= ends - 1 {
			end := at + bits.TrailingZeros64(ends)/8
			sizes = append(sizes, byte(end-begin))
			begin = end + 1
		}
	}
	for ; at < len(page); at++ {
		if page[at] == '\n' {
			sizes = append(sizes, byte(at-begin))
			begin = at + 1
		}
	}
	if len(sizes) != n || begin != len(page) {
		contradict("measure payloads", "%d bytes that end at %d have %d lines, not %d", len(page), begin, len(sizes), n)
	}
	return sizes
}

// pageSizes are the lengths of the payloads of one page, decoded. A claim keeps those of the page that it measured last: it may take a page's
// lines from many spans.
type pageSizes struct {
	batch uint64 // 0: of none
	first uint32
	sizes []int64
}

// each calls visit with the lengths of the payloads of lines first … last, in order, until it returns false. It reads no page.
func (p *pageSizes) each(r rows, b *batch, first, last uint32, visit func(bytes int64) bool) {
	if !b.uneven {
		for line := first; line <= last && visit(int64(b.longest)); line++ {
		}
		return
	}
	for line := first; line <= last; {
		pageFirst, pageLast := b.pageOf(line)
		if p.batch != b.seq || p.first != pageFirst {
			p.read(r, b, pageFirst, pageLast)
		}
		for ; line <= min(pageLast, last); line++ {
			if !visit(p.sizes[line-pageFirst]) {
				return
			}
		}
	}
}

func (p *pageSizes) read(r rows, b *batch, first, last uint32) {
	d := decoder(r.get(sizesKey(b.seq, last, first)))
	p.batch, p.first, p.sizes = b.seq, first, p.sizes[:0]
	for line := first; line <= last; line++ {
		p.sizes = append(p.sizes, int64(d.uint()))
	}
}

// eachPayload calls visit with the payloads of lines first … last, in order, until it returns false. A payload is valid during
// the visit.
func eachPayload(r rows, b *batch, first, last uint32, visit func(line uint32, payload []byte) bool) {
	line := first
	if b.frame == job.NoFrame {
		for ; line <= last && visit(line, nil); line++ {
		}
		return
	}
	r.scan(pageKey(b.seq, first, 0), after(seqKey(pageTable, b.seq)), func(key string, page []byte) bool {
		pageLast, pageFirst := splitPageKey(key)
		if pageFirst > line {
			contradict("read payload", "line %d of batch %d is in no page", line, b.seq)
		}
		page, err := b.frame.Skip(page, int(line-pageFirst))
		framed(err)
		for ; line <= min(pageLast, last); line++ {
			var payload []byte
			payload, page, err = b.frame.Next(page)
			framed(err)
			if !visit(line, payload) {
				line = last
				return false
			}
		}
		return line <= last
	})
}

// framed fails when a page does not hold the payloads that its key promises.
func framed(err error) {
	if err != nil {
		contradict("read payload", "%v", err)
	}
}

// hasPage reports whether a line's page is there. It is deleted when all its lines are purged. Lines that are purged one after the other
// leave as many deleted spans, which a look for the span of the first would pass; of pages they leave few. A page that cannot be read may be there.
func (s *Store) hasPage(v view, b *batch, line uint32) (there bool) {
	pageFirst, _ := b.pageOf(line)
	if b.frame == job.NoFrame || s.damage(pageTable, b.seq, pageFirst) != nil {
		return true
	}
	err := try(func() {
		v.scan(pageKey(b.seq, line, 0), after(seqKey(pageTable, b.seq)), func(key string, _ []byte) bool {
			_, first := splitPageKey(key)
			there = first <= line
			return false
		})
	})
	if unreadable(err) {
		s.damaged.Store(damagedRow{pageTable, b.seq, pageFirst}, err)
		return true
	}
	if err != nil {
		panic(err)
	}
	return there
}

// pageOf returns the ends of the page that holds a line.
func (b *batch) pageOf(line uint32) (first, last uint32) {
	at, _ := slices.BinarySearch(b.pageEnds, line)
	if last = b.lines - 1; at < len(b.pageEnds) {
		last = b.pageEnds[at]
	}
	if at > 0 {
		first = b.pageEnds[at-1] + 1
	}
	return first, last
}

// dropPages deletes the pages that reach into first … last and have no line left.
func (s *Store) dropPages(b *batch, first, last uint32) {
	if b.frame == job.NoFrame {
		return
	}
	if len(b.pageEnds) == 0 {
		if b.counts[job.Purged] == int64(b.lines) {
			s.dropPage(b, 0, b.lines-1)
		}
		return
	}
	for line := first; line <= last; {
		pageFirst, pageLast := b.pageOf(line)
		// Lines mostly go in order, so those after them are looked at first: one is enough to keep a page.
		if (last >= pageLast || !s.live(b.seq, last+1, pageLast)) && (first <= pageFirst || !s.live(b.seq, pageFirst, first-1)) {
			s.dropPage(b, pageFirst, pageLast)
		}
		line = pageLast + 1
	}
}

func (s *Store) dropPage(b *batch, first, last uint32) {
	s.o.del(pageKey(b.seq, last, first))
	if b.uneven {
		s.o.del(sizesKey(b.seq, last, first))
	}
}

// live reports whether any of the lines from … to has not been purged.
func (s *Store) live(seq uint64, from, to uint32) bool {
	for line := from; line <= to; {
		sp := s.spanAt(seq, line)
		if sp.Status != job.Purged {
			return true
		}
		line = sp.last + 1
	}
	return false
}
