package memory

import (
	"cmp"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Lane is the waiting line of one priority and class of a queue.
type Lane struct {
	row.LaneID
	Divided bool // into cells
	// headGone and tailGone: the span at that end was removed, and settle must find the new one.
	headGone, tailGone bool
	Pending            int64 // jobs
	Spans              int64 // pending ones
	// head and tail are the first and the last pending span, or zero if there is none. If such a span is gone, no span
	// precedes the head, or follows the tail.
	Head, Tail Place
	windows    *laneWindows // nil: the spans between head and tail are not known
	Next       *Lane        // of the queue, in the order of service
}

// Place is the place of a pending span in its lane: the part of its ready key after the lane.
type Place struct {
	Order, Seq uint64
	Last       uint32
}

func placeOf(ready string) Place {
	return Place{lsm.U64At(ready, row.OrderAt), lsm.U64At(ready, row.SeqAt), lsm.U32At(ready, row.LastAt)}
}

func (p *Place) End() row.Position { return row.Position{p.Seq, p.Last} }

func comparePlaces(a, b *Place) int {
	switch { // cmp.Or would compare all fields, and this is called often
	case a.Order != b.Order:
		return cmp.Compare(a.Order, b.Order)
	case a.Seq != b.Seq:
		return cmp.Compare(a.Seq, b.Seq)
	}
	return cmp.Compare(a.Last, b.Last)
}

// laneWindows remember spans at the ends of a lane. Only lanes in use have windows, and windows may be dropped at any
// time.
type laneWindows struct {
	first lsm.Window
	last  *lsm.Window // from the end, if that was ever looked for
	gap   *lsm.Gap    // where spans between others were removed; nil if none is known
}

func compareLanes(a, b row.LaneID) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Class, b.Class))
}

// Key returns the ready key of a place in the lane, which belongs to a queue.
func (l *Lane) Key(queueID uint32, at *Place) string {
	return row.ReadyKey(queueID, l.LaneID, at.Order, at.End())
}

// Insert and remove report that a span was added to, or removed from, the lane of a queue.
func (l *Lane) Insert(queueID uint32, of *lsm.Windows, key string) {
	at := placeOf(key)
	if l.Head == (Place{}) || l.Head == l.Tail && l.headGone { // it is the only span
		l.Head, l.Tail, l.headGone, l.tailGone = at, at, false, false
		l.Drop()
		return
	}
	if l.windows == nil && l.Head == l.Tail { // with the second span, all are known
		from := row.LaneKey(queueID, l.LaneID)
		l.windows = &laneWindows{first: lsm.NewWindow(of, from, lsm.After(from))}
		l.windows.first.Insert(l.Key(queueID, &l.Head))
	}
	if comparePlaces(&at, &l.Head) <= 0 {
		l.Head, l.headGone = at, false
	}
	if comparePlaces(&at, &l.Tail) >= 0 {
		l.Tail, l.tailGone = at, false
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

func (l *Lane) Remove(queueID uint32, of *lsm.Windows, key string) {
	at := placeOf(key)
	isTail := at == l.Tail && !l.tailGone
	l.headGone = l.headGone || at == l.Head
	l.tailGone = l.tailGone || at == l.Tail
	if l.windows == nil && at != l.Head && at != l.Tail {
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
func (l *Lane) openWindows(queueID uint32, of *lsm.Windows) {
	from := row.LaneKey(queueID, l.LaneID)
	l.windows = &laneWindows{first: lsm.StoredWindow(of, from, lsm.After(from))}
	l.windows.first.Begin(l.Key(queueID, &l.Head))
}

// setGap notes where spans were removed after the spans that are known to be next in line; nil forgets the gap. Spans
// there expire or are cancelled, and Newest takes them.
func (l *Lane) setGap(g *lsm.Gap) {
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

// Gap returns the known gap of removed spans between others, or nil.
func (l *Lane) Gap() *lsm.Gap {
	if l.windows == nil {
		return nil
	}
	return l.windows.gap
}

// Clear empties a lane that lost its last span.
func (l *Lane) Clear() {
	l.Head, l.Tail, l.headGone, l.tailGone = Place{}, Place{}, false, false
	l.Drop()
}

// Settle finds the first and the last span of the lane if they were removed.
func (l *Lane) Settle(queueID uint32, of *lsm.Windows, o *lsm.Overlay) {
	if l.Pending == 0 {
		return
	}
	if g := l.Gap(); !g.Settled() {
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
		l.Head, l.headGone = l.found(w.first.First(o)), false
		if w.gap != nil && l.Key(queueID, &l.Head) >= w.gap.From() { // the whole gap is before the head
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
			last.Begin(l.Key(queueID, &l.Tail))
			last.Pass(w.gap)
			w.last = &last
		}
		key = w.last.First(o)
	}
	l.Tail, l.tailGone = l.found(key), false
}

func (l *Lane) found(key string) Place {
	if key == "" {
		lsm.Contradict("find span", "none is pending in a lane that counts %d jobs", l.Pending)
	}
	return placeOf(key)
}

// Drop drops the windows.
func (l *Lane) Drop() {
	if w := l.windows; w != nil {
		w.first.Close()
		if w.last != nil {
			w.last.Close()
		}
		l.setGap(nil)
		l.windows = nil
	}
}

// Ahead returns the ends of up to n of the first spans of the lane, as far as they are known.
func (l *Lane) Ahead(n int) []row.Position {
	if l.windows == nil {
		return []row.Position{l.Head.End()}
	}
	return knownEnds(&l.windows.first, n)
}

// Behind is ahead from the end of the lane.
func (l *Lane) Behind(n int) []row.Position {
	if l.windows == nil || l.windows.last == nil {
		return []row.Position{l.Tail.End()}
	}
	return knownEnds(l.windows.last, n)
}

func knownEnds(w *lsm.Window, n int) (ends []row.Position) {
	keys := w.Known()
	for _, key := range keys[:min(len(keys), n)] {
		_, _, end := row.SplitReadyKey(key)
		ends = append(ends, end)
	}
	return ends
}

func (l *Lane) Encode(e *lsm.Encoder) {
	e.Uint(uint64(l.Priority))
	e.Uint(uint64(l.Class))
	e.Uint(uint64(l.Pending))
	e.Uint(uint64(l.Spans))
	e.Bool(l.Divided)
	l.Head.Encode(e)
	if l.Spans > 1 {
		l.Tail.Encode(e)
	}
}

func decodeLane(d *lsm.Decoder) *Lane {
	l := &Lane{LaneID: row.LaneID{uint32(d.Uint()), job.Class(d.Uint())}, Pending: int64(d.Uint()), Spans: int64(d.Uint()), Divided: d.Bool()}
	l.Head = decodePlace(d)
	l.Tail = l.Head
	if l.Spans > 1 {
		l.Tail = decodePlace(d)
	}
	return l
}

func (p *Place) Encode(e *lsm.Encoder) {
	e.Uint(p.Order)
	e.Uint(p.Seq)
	e.Uint(uint64(p.Last))
}

func decodePlace(d *lsm.Decoder) Place { return Place{d.Uint(), d.Uint(), uint32(d.Uint())} }
