package store

import (
	"bytes"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/daybookq/daybook/job"
)

// rows is what both Apply, through its overlay, and queries, through a view, read from.
type rows interface {
	// get returns the value of key, or nil.
	get(key string) []byte
	// scan calls visit with the rows from … to (not included), in order, until it returns false. The value is valid during
	// the visit.
	scan(from, to string, visit func(key string, value []byte) bool)
}

// view reads one moment of the database through one iterator.
type view struct {
	it    *pebble.Iterator
	leave func()
}

// view opens a view; close it. Like overlay, it fails by panicking with *Error.
func (s *Store) view() view { return s.viewWith(&pebble.IterOptions{UseL6Filters: true}) }

func (s *Store) viewWith(o *pebble.IterOptions) view {
	if !s.readers.enter() {
		fail("open view", ErrClosed)
	}
	it, err := s.db.NewIter(o)
	if err != nil {
		s.readers.leave()
		fail("open view", err)
	}
	return view{it, s.readers.leave}
}

func (v view) close() {
	err := v.it.Close()
	v.leave()
	fail("close view", err)
}

// discard closes a view whatever it has met, which whoever used it has reported.
func (v view) discard() {
	v.it.Close()
	v.leave()
}

// gate lets readers in until it is shut, and whoever shuts it waits for those inside. A lock would not do: who is inside may enter
// again.
type gate struct {
	mu     sync.Mutex
	inside int
	shut   chan struct{} // made when it is shut; closed when nobody is inside any more
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.shut != nil {
		close(g.shut)
	}
}

func (g *gate) close() {
	g.mu.Lock()
	if g.shut == nil {
		if g.shut = make(chan struct{}); g.inside == 0 {
			close(g.shut)
		}
	}
	g.mu.Unlock()
	<-g.shut
}

// get looks for the one key: a prefix of a key is all of it. Where the key is absent the filters of the tables say so, and no deleted
// neighbours are passed in search of the next key.
func (v view) get(key string) []byte {
	if v.it.SeekPrefixGE([]byte(key)) && string(v.it.Key()) == key {
		return append([]byte{}, v.it.Value()...) // not nil, though it be empty
	}
	fail("read", v.it.Error())
	return nil
}

// hasPage reports whether a line's page is there. It is deleted when all its lines are purged. Lines that are purged one after the other
// leave as many deleted spans, which a look for the span of the first would pass; of pages they leave few.
func (v view) hasPage(b *batch, line uint32) (there bool) {
	if b.frame == job.NoFrame {
		return true
	}
	v.scan(pageKey(b.seq, line, 0), after(seqKey(pageTable, b.seq)), func(key string, _ []byte) bool {
		_, first := splitPageKey(key)
		there = first <= line
		return false
	})
	return there
}

// newest returns the value of the last key that begins with prefix, or nil. It is valid until the view is used again.
func (v view) newest(prefix string) []byte {
	if v.it.SeekLTWithLimit([]byte(after(prefix)), []byte(prefix)) == pebble.IterValid && strings.HasPrefix(string(v.it.Key()), prefix) {
		return v.it.Value()
	}
	fail("read", v.it.Error())
	return nil
}

// scan stops at the end of the range, also among deleted keys.
func (v view) scan(from, to string, visit func(key string, value []byte) bool) {
	limit := []byte(to)
	for at := v.it.SeekGEWithLimit([]byte(from), limit); at == pebble.IterValid && string(v.it.Key()) < to; at = v.it.NextWithLimit(limit) {
		if !visit(string(v.it.Key()), v.it.Value()) {
			return
		}
	}
	fail("scan", v.it.Error())
}

func readBatch(r rows, seq uint64) *batch {
	value := r.get(seqKey(batchTable, seq))
	if value == nil {
		return nil
	}
	b := decodeBatch(seq, value)
	b.batchCounts = decodeBatchCounts(r.get(seqKey(countsTable, seq)))
	return b
}

func readClaim(r rows, seq uint64) *claim {
	value := r.get(seqKey(claimTable, seq))
	if value == nil {
		return nil
	}
	c := decodeClaim(seq, value)
	c.lease = decodeLease(r.get(seqKey(leaseTable, seq)))
	c.closed = c.held == 0
	return c
}

func readRunner(r rows, name string) *runner {
	if value := r.get(runnerKey(runnerTable, name)); value != nil {
		return decodeRunner(name, value)
	}
	return &runner{name: name}
}

func readSpan(r rows, seq uint64, line uint32) (sp span, ok bool) {
	r.scan(lineKey(spanTable, seq, line), after(seqKey(spanTable, seq)), func(key string, value []byte) bool {
		sp = decodeSpan(lineOfKey(key), value)
		ok = sp.first <= line
		return false
	})
	return sp, ok
}

// eachSpan calls visit with the spans that reach into first … last, in order, until it returns false.
func eachSpan(r rows, seq uint64, first, last uint32, visit func(sp span) bool) {
	r.scan(lineKey(spanTable, seq, first), after(seqKey(spanTable, seq)), func(key string, value []byte) bool {
		sp := decodeSpan(lineOfKey(key), value)
		return sp.first <= last && visit(sp) && sp.last < last // beyond lie, perhaps, very many versions of this one
	})
}

// writePages cuts a framed body into pages of whole lines, and has b know where they end. The rows share the body's memory.
func (s *Store) writePages(b *batch, body []byte) {
	for line := uint32(0); line < b.lines; {
		if line > 0 {
			b.pageEnds = append(b.pageEnds, line-1)
		}
		page, n := cutPage(b.frame, body, int(b.lines-line), s.rules.pageBytes)
		s.o.set(pageKey(b.seq, line+uint32(n)-1, line), page)
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
