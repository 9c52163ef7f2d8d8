package query

import (
	"container/heap"
	"math"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// spanCursor reads the places of some spans in the order of a list, some at a time.
type spanCursor struct {
	ahead []place // the last positions of spans
	ended bool    // there are no more than those
	// read reads places into ahead, and reports whether there may be more.
	read func() (more bool)
}

// head returns the first place of the cursor. It reads more places only if it has none.
func (c *spanCursor) head() (at place, ok bool) {
	for len(c.ahead) == 0 && !c.ended {
		c.ended = !c.read()
	}
	if len(c.ahead) == 0 {
		return place{}, false
	}
	return c.ahead[0], true
}

// listed returns a cursor of the spans of a queue with a status, in the order of ids. at: the time of the creates is part of their
// places.
func (l *lister) listed(queue uint32, status job.Status, from row.Position, at bool) *spanCursor {
	var of uint64
	var ofAt int64
	holds := l.holder == queue && l.holdsAs == status && from == l.from.Position
	return l.indexed(row.ListPrefix(queue, status), row.ListKey(queue, status, from.Seq, from.Line), holds, func(key string) (p place) {
		if p.Position = row.EndOfListKey(key); at {
			if of != p.Seq {
				value := l.v.Get(row.SeqKey(row.BatchTable, p.Seq))
				if value == nil {
					lsm.Contradict("list", "batch %d is in a list and has no row", p.Seq)
				}
				of, ofAt = p.Seq, timeOf(value)
			}
			p.at = ofAt
		}
		return p
	})
}

// indexed returns a cursor of the rows with a prefix, from a key onwards. holds: the first place of the list is in a span of this
// queue and status.
func (l *lister) indexed(prefix, from string, holds bool, placeOf func(key string) place) *spanCursor {
	c := &spanCursor{}
	window := 1 // many cursors need few places
	c.read = func() bool {
		keys := make([]string, 0, window)
		add := func(key string, _ []byte) bool {
			keys = append(keys, key)
			return len(keys) < window
		}
		if l.down() {
			l.v.ScanDown(prefix, from, add)
		} else {
			l.v.Scan(from, lsm.After(prefix), add)
		}
		for _, key := range keys {
			c.ahead = append(c.ahead, placeOf(key))
		}
		if len(keys) < window {
			return false
		}
		if from = keys[len(keys)-1]; !l.down() {
			from += "\x00"
		}
		window = min(4*window, keyWindow)
		return true
	}
	if !holds {
		return c
	}
	// A key has the last line of a span. So the row of the span that has the place can be behind the key.
	behind := ""
	l.v.Scan(from, lsm.After(prefix), func(key string, _ []byte) bool {
		behind = key
		return false
	})
	if lineAt := len(from) - 4; behind != "" && behind[:lineAt] == from[:lineAt] {
		at := placeOf(behind)
		if sp, ok := row.ReadSpan(l.v, at.Seq, at.Line); ok && sp.First <= lsm.U32At(from, lineAt) {
			c.ahead = []place{at}
		}
	}
	return c
}

// held returns the queue and status of the span that has the first place of a list in the opposite order, or zeros.
func (l *lister) held() (queue uint32, status job.Status) {
	if !l.down() || l.from.Line == math.MaxUint32 {
		return 0, 0
	}
	b := row.ReadBatch(l.v, l.from.Seq)
	if b == nil || l.from.Line >= b.Lines {
		return 0, 0
	}
	sp, _ := row.ReadSpan(l.v, b.Seq, l.from.Line)
	return l.groupOf(b, l.from.Line).QueueID, sp.Status
}

// cursors returns the cursors of all queues and statuses that the filter allows; not ok if there are too many.
func (l *lister) cursors() (list []*spanCursor, ok bool) {
	statuses := job.Statuses
	if l.f.Status != 0 {
		statuses = []job.Status{l.f.Status}
	}
	queues, ok := l.queuesOf(maxLists / len(statuses))
	if !ok {
		return nil, false
	}
	l.holder, l.holdsAs = l.held()
	for _, queue := range queues {
		for _, status := range statuses {
			list = append(list, l.listed(queue, status, l.from.Position, false))
		}
	}
	return list, true
}

// queuesOf returns the numbers of the queues that the filter allows; not ok if there are more than most. It reads memory, while the
// list reads a view. That is safe: a queue that was created after the view was opened has no rows in it, and the jobs of a queue
// that was deleted since then no longer exist.
func (l *lister) queuesOf(most int) (queues []uint32, ok bool) {
	clients, types := l.f.Scope.Clients, l.f.Scope.Types
	if l.f.Client != "" {
		clients = []string{l.f.Client}
	}
	if l.f.Type != "" {
		types = []string{l.f.Type}
	}
	l.live.Read()
	defer l.live.Mu.RUnlock()
	all := &l.live.AllQueues
	add := func(q *memory.Queue) bool {
		if l.f.Scope.Has(q.Client, q.Typ) {
			queues = append(queues, q.Id)
		}
		return len(queues) <= most
	}
	switch {
	case clients != nil && types != nil:
		for _, client := range clients {
			for _, typ := range types {
				if q := all.ByName[row.QueueName{client, typ}]; q != nil {
					add(q)
				}
			}
		}
	case clients != nil:
		for _, client := range clients {
			all.ByClient.Ascend(&row.QueueName{Client: client}, func(q *memory.Queue) bool { return q.Client == client && add(q) })
		}
	case types != nil:
		for _, typ := range types {
			all.ByType.Ascend(&row.QueueName{Typ: typ}, func(q *memory.Queue) bool { return q.Typ == typ && add(q) })
		}
	default:
		all.ByClient.Ascend(&row.QueueName{}, add)
	}
	return queues, len(queues) <= most
}

// cursorHeap has the cursor with the first place on top.
type cursorHeap struct {
	list []*spanCursor // that have a place
	l    *lister
}

func (h *cursorHeap) Len() int { return len(h.list) }
func (h *cursorHeap) Less(i, j int) bool {
	return h.l.compare(h.list[i].ahead[0], h.list[j].ahead[0]) < 0
}
func (h *cursorHeap) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *cursorHeap) Push(x any)    { h.list = append(h.list, x.(*spanCursor)) }
func (h *cursorHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// next returns the first place of all cursors, and takes it away. ok is false at the end.
func (h *cursorHeap) next() (at place, ok bool) {
	if len(h.list) == 0 {
		return at, false
	}
	first := h.list[0]
	at, first.ahead = first.ahead[0], first.ahead[1:]
	if _, ok := first.head(); ok {
		heap.Fix(h, 0)
	} else {
		heap.Pop(h)
	}
	return at, true
}

// walkLists looks at the spans of several cursors, merged in the order of the list.
func (l *lister) walkLists(cursors []*spanCursor) (atEnd bool) {
	h := &cursorHeap{l: l}
	for _, c := range cursors {
		if _, ok := c.head(); ok {
			h.list = append(h.list, c)
		}
	}
	heap.Init(h)
	var b *row.Batch
	for {
		at, ok := h.next()
		if !ok {
			return true
		}
		if l.f.Order == Updated && at.at < max(l.f.UpdatedAfter, l.f.CreatedAfter) {
			return true
		}
		if at.Seq == 0 { // some claims without active jobs
			l.rows--
			if l.last = (JobPlace{noJob, at.at}); l.rows <= 0 || l.left <= 0 {
				return false
			}
			continue
		}
		if b == nil || b.Seq != at.Seq {
			if b = l.readBatch(at.Seq); b == nil {
				lsm.Contradict("list", "batch %d is in a list and has no row", at.Seq)
			}
		}
		if l.f.Order != Updated && l.beyond(b) {
			return true
		}
		sp, ok := row.ReadSpan(l.v, at.Seq, at.Line)
		if !ok {
			lsm.Contradict("list", "line %d of batch %d is in a list and in no span", at.Line, at.Seq)
		}
		passed := sp.Last
		if l.down() {
			passed = sp.First
		}
		if g := l.groupOf(b, at.Line); !l.Group(g) || l.f.Order == Updated && !l.movedHere(b, &sp, at.at) {
			l.rows--
			if !l.goOn(b, passed, at.at) {
				return false
			}
		} else if !l.Take(b, g, sp) {
			return false
		}
	}
}
