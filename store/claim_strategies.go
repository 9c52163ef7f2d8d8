package store

import (
	"math"
	"slices"
)

// takeHead takes up to n jobs from the head of a queue, and reports whether the claim may continue. Nil is an empty
// choice.
func (t *claiming) takeHead(q *queue, n int) bool {
	if q == nil {
		return false
	}
	t.readAhead(q)
	return t.takeFirst(q, t.spanOf(q.head), n)
}

// aheadSpans is how many spans are read together from the head of a queue.
const aheadSpans = 64

// readAhead reads the spans at the head of a queue and their batches into the caches, if those of the first one are not
// there. The claims that follow usually take the next ones.
func (m *machine) readAhead(q *queue) {
	_, _, head := splitReadyKey(q.head)
	if m.batches.Get(head.seq) != nil {
		return
	}
	for _, l := range q.lanes {
		keys := l.window.Known()
		if len(keys) == 0 {
			continue
		}
		var ends []position
		for _, key := range keys[:min(len(keys), aheadSpans)] {
			_, _, end := splitReadyKey(key)
			ends = append(ends, end)
		}
		if len(ends) > 1 {
			slices.SortFunc(ends, comparePositions)
			m.prefetch(ends)
		}
		return
	}
}

// takeTail takes jobs from the end of a queue.
func (t *claiming) takeTail(q *queue) bool {
	return q != nil && t.takeLast(q, t.spanOf(q.findTail(&t.o)), math.MaxInt)
}

// drawAll draws a job, takes it and its neighbours to the end of its lane and then from the lane's beginning, and draws
// again.
func (t *claiming) drawAll() {
	for draw := uint64(0); ; draw++ {
		q, l, place := t.queues.samples.draw(t.choice, mix(t.seed, t.now.Seq, draw, math.MaxUint32))
		if q == nil {
			return
		}
		key, before := t.locate(l, place)
		for walk := (laneWalk{m: t.machine, l: l, at: key}); key != ""; key = walk.next() {
			for taken := false; !taken; before = 0 {
				p := t.spanOf(key)
				first, had := p.first+uint32(before), t.left
				p.first = first
				if !t.takeFirst(q, p, math.MaxInt) {
					return
				}
				n := uint32(had - t.left) // none of a span that has expired, which is gone as a whole
				taken = n == 0 || first+n > p.last
			}
		}
	}
}

// serveInTurn gives each client with jobs of the highest priority its turn, beginning after the one that was served
// last. Whole rounds are taken at once: a client that gets ten turns gets ten jobs, which touches fewer spans than one
// job ten times.
func (t *claiming) serveInTurn() {
	for t.left > 0 {
		first := t.queues.best(t.queues.heads, t.choice)
		if first == nil {
			return
		}
		priority := priorityOfRank(first.rank)
		clients := t.queues.inTurn(t.choice, priority, t.meta.served, t.left)
		turns := t.left / len(clients)
		for _, client := range clients {
			own := t.queues.choice([]string{client}, t.choice.types)
			for want := turns; want > 0; {
				q := t.queues.best(t.queues.heads, own)
				if q == nil || priorityOfRank(q.rank) != priority {
					break
				}
				had := t.left
				more := t.takeHead(q, want)
				if t.left < had { // a client that gets nothing, because the claim ends there, is the first next time
					t.meta.served = client
				}
				if !more {
					return
				}
				want -= had - t.left
			}
		}
	}
}
