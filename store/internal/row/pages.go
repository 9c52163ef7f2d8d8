package row

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// The payloads of a batch are stored in pages of whole lines. The row of the batch says where pages end, and other rows
// say how long the payloads are. So Apply need not read pages: whether a page can be read depends on a disk, and
// Apply's decisions must not.

// FirstPage returns the first page, of about the given size, of a framed body, and the number of lines in it.
func FirstPage(frame job.Frame, body []byte, lines, pageBytes int) (page []byte, n int) {
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
		lsm.Fail("cut page", err)
		rest = next
		n++
	}
	end := len(body) - len(rest)
	return body[:end:end], n
}

var newline = []byte{'\n'}

// EvenBody reports whether all payloads of b are known to have the same length. They are if the body is as long as it
// would be with all payloads of the greatest length.
func EvenBody(b *Batch, body []byte) bool {
	return len(body) == int(b.Lines)*b.Frame.Size(b.Longest)
}

// EncodeSizes returns the lengths of the n payloads of a page. None is longer than longest.
func EncodeSizes(frame job.Frame, page []byte, n, longest int) []byte {
	if frame == job.LineFrame && longest < 1<<7 { // each in a byte
		return sizesOfShortLines(page, n)
	}
	e := make(lsm.Encoder, 0, 2*n)
	for range n {
		payload, rest, err := frame.Next(page)
		lsm.Fail("measure payloads", err)
		e.Uint(uint64(len(payload)))
		page = rest
	}
	return e
}

// sizesOfShortLines is EncodeSizes for lines of less than 128 bytes. It looks at eight bytes at a time, because a body
// may have millions of lines and Apply does no other work during that time. Searching for the end of each line takes
// three times as long if lines have one to three bytes.
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
		lsm.Contradict("measure payloads", "%d bytes that end at %d have %d lines, not %d", len(page), begin, len(sizes), n)
	}
	return sizes
}

// PageSizes has the decoded lengths of the payloads of one page. A claim keeps the lengths of the page that it measured
// last, because it may take a page's lines from many spans.
type PageSizes struct {
	batch uint64 // 0: no page yet
	first uint32
	sizes []int64
}

// Each calls visit with the lengths of the payloads of lines first … last, in order, until it returns false. It does
// not read the pages.
func (p *PageSizes) Each(r lsm.Rows, b *Batch, first, last uint32, visit func(bytes int64) bool) {
	if !b.Uneven {
		for line := first; line <= last && visit(int64(b.Longest)); line++ {
		}
		return
	}
	for line := first; line <= last; {
		pageFirst, pageLast := b.PageOf(line)
		if p.batch != b.Seq || p.first != pageFirst {
			p.Read(r, b, pageFirst, pageLast)
		}
		for ; line <= min(pageLast, last); line++ {
			if !visit(p.sizes[line-pageFirst]) {
				return
			}
		}
	}
}

// Sum returns how many bytes the payloads of lines first … last have.
func (p *PageSizes) Sum(r lsm.Rows, b *Batch, first, last uint32) (bytes int64) {
	if !b.Uneven {
		return int64(last-first+1) * int64(b.Longest)
	}
	if b.Longest >= 1<<7 {
		p.Each(r, b, first, last, func(size int64) bool {
			bytes += size
			return true
		})
		return bytes
	}
	for line := first; line <= last; { // each length is a byte
		pageFirst, pageLast := b.PageOf(line)
		to := min(pageLast, last)
		sizes := r.Get(SizesKey(b.Seq, pageLast, pageFirst))
		if len(sizes) != int(pageLast-pageFirst)+1 {
			lsm.Contradict("measure payloads", "batch %d has %d lengths for lines %d to %d", b.Seq, len(sizes), pageFirst, pageLast)
		}
		for _, size := range sizes[line-pageFirst : to-pageFirst+1] {
			bytes += int64(size)
		}
		line = to + 1
	}
	return bytes
}

func (p *PageSizes) Read(r lsm.Rows, b *Batch, first, last uint32) {
	d := lsm.Decoder(r.Get(SizesKey(b.Seq, last, first)))
	p.batch, p.first, p.sizes = b.Seq, first, p.sizes[:0]
	for line := first; line <= last; line++ {
		p.sizes = append(p.sizes, int64(d.Uint()))
	}
}

// EachPayload calls visit with the payloads of lines first … last, in order, until it returns false. A payload is valid
// during the visit.
func EachPayload(r lsm.Rows, b *Batch, first, last uint32, visit func(line uint32, payload []byte) bool) {
	line := first
	if b.Frame == job.NoFrame {
		for ; line <= last && visit(line, nil); line++ {
		}
		return
	}
	r.Scan(PageKey(b.Seq, first, 0), lsm.After(SeqKey(PageTable, b.Seq)), func(key string, page []byte) bool {
		pageLast, pageFirst := SplitPageKey(key)
		if pageFirst > line {
			lsm.Contradict("read payload", "line %d of batch %d is in no page", line, b.Seq)
		}
		page, err := b.Frame.Skip(page, int(line-pageFirst))
		Framed(err)
		for ; line <= min(pageLast, last); line++ {
			var payload []byte
			payload, page, err = b.Frame.Next(page)
			Framed(err)
			if !visit(line, payload) {
				line = last
				return false
			}
		}
		return line <= last
	})
}

// Framed fails if a page does not hold the payloads that its key promises.
func Framed(err error) {
	if err != nil {
		lsm.Contradict("read payload", "%v", err)
	}
}

// PageOf returns the ends of the page that holds a line.
func (b *Batch) PageOf(line uint32) (first, last uint32) {
	at, _ := slices.BinarySearch(b.PageEnds, line)
	if last = b.Lines - 1; at < len(b.PageEnds) {
		last = b.PageEnds[at]
	}
	if at > 0 {
		first = b.PageEnds[at-1] + 1
	}
	return first, last
}
