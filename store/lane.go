package store

import (
	"cmp"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// lane is the waiting line of one priority and class of a queue.
type lane struct {
	laneID
	divided bool // into cells
	// headGone and tailGone: the span at that end was removed, and settle must find the new one.
	headGone, tailGone bool
	pending            int64 // jobs
	spans              int64 // pending ones
	// head and tail are the first and the last pending span, or zero if there is none. If such a span is gone, no span
	// precedes the head, or follows the tail.
	head, tail place
	windows    *laneWindows // nil: the spans between head and tail are not known
	next       *lane        // of the queue, in the order of service
}

// place is the place of a pending span in its lane: the part of its ready key after the lane.
type place struct {
	order, seq uint64
	last       uint32
}

func placeOf(ready string) place {
	return place{lsm.U64At(ready, orderAt), lsm.U64At(ready, seqAt), lsm.U32At(ready, lastAt)}
}

func (p *place) end() position { return position{p.seq, p.last} }

func comparePlaces(a, b *place) int {
	switch { // cmp.Or would compare all fields, and this is called often
	case a.order != b.order:
		return cmp.Compare(a.order, b.order)
	case a.seq != b.seq:
		return cmp.Compare(a.seq, b.seq)
	}
	return cmp.Compare(a.last, b.last)
}

// laneWindows remember spans at the ends of a lane. Only lanes in use have windows, and windows may be dropped at any
// time.
type laneWindows struct {
	first lsm.Window
	last  *lsm.Window // from the end, if that was ever looked for
	gap   *lsm.Gap    // where spans between others were removed; nil if none is known
}

func compareLanes(a, b laneID) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.class, b.class))
}

// key returns the ready key of a place in the lane, which belongs to a queue.
func (l *lane) key(queueID uint32, at *place) string {
	return readyKey(queueID, l.laneID, at.order, at.end())
}

// insert and remove report that a span was added to, or removed from, the lane of a queue.
func (l *lane) insert(queueID uint32, of *lsm.Windows, key string) {
	at := placeOf(key)
	if l.head == (place{}) || l.head == l.tail && l.headGone { // it is the only span
		l.head, l.tail, l.headGone, l.tailGone = at, at, false, false
		l.drop()
		return
	}
	if l.windows == nil && l.head == l.tail { // with the second span, all are known
		from := laneKey(queueID, l.laneID)
		l.windows = &laneWindows{first: lsm.NewWindow(of, from, lsm.After(from))}
		l.windows.first.Insert(l.key(queueID, &l.head))
	}
	if comparePlaces(&at, &l.head) <= 0 {
		l.head, l.headGone = at, false
	}
	if comparePlaces(&at, &l.tail) >= 0 {
		l.tail, l.tailGone = at, false
	}
	if w := l.windows; w != nil {
		w.first.Insert(key)
		if w.last != nil {
			w.last.Insert(key)
		}
		if w.gap != nil {
			w.gap.Insert(key)
		}
	}
}

func (l *lane) remove(queueID uint32, of *lsm.Windows, key string) {
	at := placeOf(key)
	isTail := at == l.tail && !l.tailGone
	l.headGone = l.headGone || at == l.head
	l.tailGone = l.tailGone || at == l.tail
	if l.windows == nil && at != l.head && at != l.tail {
		l.openWindows(queueID, of)
	}
	if w := l.windows; w != nil {
		if w.gap != nil {
			w.gap.Remove(key, isTail)
		}
		if !w.first.Knows(key) && (w.gap == nil || w.gap.Surpassed()) {
			l.setGap(lsm.NewGap(of, key, w.first.To()))
		}
		w.first.Remove(key)
		if w.last != nil {
			w.last.Remove(key)
		}
	}
}

// openWindows begins to remember spans. No span precedes the head.
func (l *lane) openWindows(queueID uint32, of *lsm.Windows) {
	from := laneKey(queueID, l.laneID)
	l.windows = &laneWindows{first: lsm.StoredWindow(of, from, lsm.After(from))}
	l.windows.first.Begin(l.key(queueID, &l.head))
}

// setGap notes where spans were removed after the spans that are known to be next in line; nil forgets the gap. Spans
// there expire or are cancelled, and Newest takes them.
func (l *lane) setGap(g *lsm.Gap) {
	w := l.windows
	if w.gap != nil {
		w.gap.Close()
	}
	w.gap = g
	w.first.Pass(g)
	if w.last != nil {
		w.last.Pass(g)
	}
}

// gap returns the known gap of removed spans between others, or nil.
func (l *lane) gap() *lsm.Gap {
	if l.windows == nil {
		return nil
	}
	return l.windows.gap
}

// clear empties a lane that lost its last span.
func (l *lane) clear() {
	l.head, l.tail, l.headGone, l.tailGone = place{}, place{}, false, false
	l.drop()
}

// settle finds the first and the last span of the lane if they were removed.
func (l *lane) settle(queueID uint32, of *lsm.Windows, o *lsm.Overlay) {
	if l.pending == 0 {
		return
	}
	if g := l.gap(); !g.Settled() {
		g.Settle(o)
	}
	if !l.headGone && !l.tailGone {
		return
	}
	if l.windows == nil {
		l.openWindows(queueID, of)
	}
	w := l.windows
	if l.headGone {
		l.head, l.headGone = l.found(w.first.First(o)), false
		if w.gap != nil && l.key(queueID, &l.head) >= w.gap.From() { // the whole gap is before the head
			l.setGap(nil)
		}
	}
	if !l.tailGone {
		return
	}
	key, known := w.first.Last()
	if !known {
		if w.last == nil {
			last := lsm.DownWindow(of, w.first.From(), w.first.To())
			last.Begin(l.key(queueID, &l.tail))
			last.Pass(w.gap)
			w.last = &last
		}
		key = w.last.First(o)
	}
	l.tail, l.tailGone = l.found(key), false
}

func (l *lane) found(key string) place {
	if key == "" {
		lsm.Contradict("find span", "none is pending in a lane that counts %d jobs", l.pending)
	}
	return placeOf(key)
}

// drop drops the windows.
func (l *lane) drop() {
	if w := l.windows; w != nil {
		w.first.Close()
		if w.last != nil {
			w.last.Close()
		}
		l.setGap(nil)
		l.windows = nil
	}
}

// ahead returns the ends of up to n of the first spans of the lane, as far as they are known.
func (l *lane) ahead(n int) []position {
	if l.windows == nil {
		return []position{l.head.end()}
	}
	return knownEnds(&l.windows.first, n)
}

// behind is ahead from the end of the lane.
func (l *lane) behind(n int) []position {
	if l.windows == nil || l.windows.last == nil {
		return []position{l.tail.end()}
	}
	return knownEnds(l.windows.last, n)
}

func knownEnds(w *lsm.Window, n int) (ends []position) {
	keys := w.Known()
	for _, key := range keys[:min(len(keys), n)] {
		_, _, end := splitReadyKey(key)
		ends = append(ends, end)
	}
	return ends
}

func (l *lane) encode(e *lsm.Encoder) {
	e.Uint(uint64(l.priority))
	e.Uint(uint64(l.class))
	e.Uint(uint64(l.pending))
	e.Uint(uint64(l.spans))
	e.Bool(l.divided)
	l.head.encode(e)
	if l.spans > 1 {
		l.tail.encode(e)
	}
}

func decodeLane(d *lsm.Decoder) *lane {
	l := &lane{laneID: laneID{uint32(d.Uint()), job.Class(d.Uint())}, pending: int64(d.Uint()), spans: int64(d.Uint()), divided: d.Bool()}
	l.head = decodePlace(d)
	l.tail = l.head
	if l.spans > 1 {
		l.tail = decodePlace(d)
	}
	return l
}

func (p *place) encode(e *lsm.Encoder) {
	e.Uint(p.order)
	e.Uint(p.seq)
	e.Uint(uint64(p.last))
}

func decodePlace(d *lsm.Decoder) place { return place{d.Uint(), d.Uint(), uint32(d.Uint())} }
