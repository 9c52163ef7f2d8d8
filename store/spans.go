package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// batch returns the batch that the command seq made, or nil when there is none (any more).
func (s *Store) batch(seq uint64) *batch {
	if b := s.batches.get(seq); b != nil {
		return b
	}
	b := readBatch(&s.o, seq)
	if b != nil {
		s.batches.set(seq, b)
	}
	return b
}

// spanAt returns the span that holds a line. The cache needs no note of which stretches it knows: exactly one span holds a
// line, so a cached one that does is the one.
func (s *Store) spanAt(seq uint64, line uint32) span {
	if found, ok, _ := s.spans.find(cachedSpan{seq: seq, span: span{last: line}}, func(c *cachedSpan) bool {
		return c.seq == seq && c.first <= line && line <= c.last
	}); ok {
		return found.span
	}
	sp, ok := readSpan(&s.o, seq, line)
	if !ok {
		contradict("find span", "line %d of batch %d is in none", line, seq)
	}
	s.spans.set(cachedSpan{seq, sp})
	return sp
}

// spanEnding is spanAt for a line that is known to be the last of its span, as index rows tell: a plain look where the other seeks.
func (s *Store) spanEnding(seq uint64, last uint32) span {
	if found, ok := s.spans.get(cachedSpan{seq: seq, span: span{last: last}}); ok {
		return found.span
	}
	value := s.o.get(lineKey(spanTable, seq, last))
	if value == nil {
		contradict("find span", "none ends at line %d of batch %d", last, seq)
	}
	sp := decodeSpan(last, value)
	s.spans.set(cachedSpan{seq, sp})
	return sp
}

// indexes returns the keys of the index rows that a span must have: by status, in its place in line or for what time brings it, and for
// the time by which it must have been started.
func (s *Store) indexes(b *batch, g *group, sp *span) (keys [3]string) {
	if sp.Status == job.Purged {
		return keys
	}
	keys[0] = listKey(g.queue, sp.Status, b.seq, sp.last)
	switch {
	case sp.Status == job.Pending:
		keys[1] = sp.readyKey(b, g)
	case sp.Status == job.Deferred:
		keys[1] = timerKey(sp.At, runAtTimer, b.seq, 0, sp.last)
	case sp.Status == job.Active && sp.At > 0:
		keys[1] = timerKey(sp.At, timeoutTimer, b.seq, 0, sp.last)
	case sp.Status.Terminal():
		keys[1] = timerKey(sp.At+g.RetentionMs, purgeTimer, b.seq, 0, sp.last)
	}
	if sp.Expires(&g.Attributes) {
		keys[2] = timerKey(g.ExpiresAt, expireTimer, b.seq, 0, sp.last)
	}
	return keys
}

// addSpan writes the first state of lines first … last.
func (s *Store) addSpan(b *batch, g *group, first, last uint32, st job.State) {
	sp := span{first, last, st}
	s.putSpan(b, g, sp)
	s.countPending(b, g, &sp, 1)
	for _, key := range s.indexes(b, g, &sp) {
		s.putIndex(g, key)
	}
	s.count(b, g, job.State{}, st, sp.first, sp.last, created)
}

// move gives the lines first … last of span old, which holds them all, another state. It is the only way in which lines change:
// it splits and merges spans, keeps their index rows, and moves the counters of batch, queue, claim and runner along.
func (s *Store) move(b *batch, old span, first, last uint32, next job.State, why reason) {
	g := b.group(first)
	mid := span{first, last, next}
	olds := append(make([]span, 0, 3), old)
	news := make([]span, 0, 3)
	if old.first < first {
		news = append(news, span{old.first, first - 1, old.State})
	} else if g.first < first {
		if l := s.spanAt(b.seq, first-1); l.State == next {
			olds = append(olds, l)
			mid.first = l.first
		}
	}
	if last < old.last {
		news = append(news, span{last + 1, old.last, old.State})
	} else if last < g.last {
		if r := s.spanAt(b.seq, last+1); r.State == next {
			olds = append(olds, r)
			mid.last = r.last
		}
	}
	news = append(news, mid)

	for i := range olds {
		o := &olds[i]
		s.countPending(b, g, o, -1)
		heir := findLast(news, o.last)
		if heir == nil {
			s.o.del(lineKey(spanTable, b.seq, o.last))
			s.spans.del(cachedSpan{b.seq, *o})
		}
		if heir == nil || heir.State != o.State {
			for _, key := range s.indexes(b, g, o) {
				s.dropIndex(g, key)
			}
		}
	}
	for i := range news {
		n := &news[i]
		s.putSpan(b, g, *n)
		s.countPending(b, g, n, 1)
		if o := findLast(olds, n.last); o == nil || o.State != n.State {
			for _, key := range s.indexes(b, g, n) {
				s.putIndex(g, key)
			}
		}
	}
	s.count(b, g, old.State, next, first, last, why)
}

// findLast returns the span that ends at last, or nil.
func findLast(spans []span, last uint32) *span {
	for i := range spans {
		if spans[i].last == last {
			return &spans[i]
		}
	}
	return nil
}

func (s *Store) putSpan(b *batch, g *group, sp span) {
	if sp.first < g.first || sp.last > g.last || sp.first > sp.last {
		panic(fmt.Sprintf("store: span %d-%d leaves its group %d-%d of batch %d", sp.first, sp.last, g.first, g.last, b.seq))
	}
	s.o.set(lineKey(spanTable, b.seq, sp.last), sp.encode())
	s.spans.set(cachedSpan{b.seq, sp})
}

func (s *Store) putIndex(g *group, key string) {
	if key == "" {
		return
	}
	s.o.set(key, nil)
	switch key[0] {
	case readyTable:
		q := s.queues.byID[g.queue]
		_, lane, _ := splitReadyKey(key)
		q.lane(lane).insert(key)
		s.queueMoved(q)
	case timerTable:
		s.timers.insert(key)
	}
}

func (s *Store) dropIndex(g *group, key string) {
	if key == "" {
		return
	}
	s.o.del(key)
	switch key[0] {
	case readyTable:
		q := s.queues.byID[g.queue]
		_, lane, _ := splitReadyKey(key)
		q.lane(lane).remove(key)
		s.queueMoved(q)
	case timerTable:
		s.timers.remove(key)
	}
}

func (s *Store) setTimer(key string)  { s.o.set(key, nil); s.timers.insert(key) }
func (s *Store) dropTimer(key string) { s.o.del(key); s.timers.remove(key) }

func (s *Store) queueMoved(q *queue) {
	if !q.moved {
		q.moved = true
		s.moved = append(s.moved, q)
	}
}

// count moves the counters of everything that counts lines.
func (s *Store) count(b *batch, g *group, old, next job.State, first, last uint32, why reason) {
	n := int64(last-first) + 1
	q := s.queues.byID[g.queue]
	if old.Status != 0 {
		b.counts[old.Status] -= n
		q.counts[old.Status] -= n
		s.counts[old.Status] -= n
		q.jobs -= n
	}
	b.counts[next.Status] += n
	if next.Status != job.Purged { // which only batches count: a queue is deleted when all its jobs are purged
		q.counts[next.Status] += n
		s.counts[next.Status] += n
		q.jobs += n
	}
	if q.jobs == 0 || q.idleAt != 0 {
		s.reviseIdle(q)
	}
	if next.Status == job.Pending {
		q.lane(laneOf(&next, g)).pending += n
		s.gained(q)
		s.queueMoved(q)
	}
	if old.Status == job.Pending {
		l := q.lane(laneOf(&old, g))
		if l.pending -= n; l.pending == 0 {
			l.newest = ""
		}
		s.queueMoved(q)
	}
	s.touch(&b.dirty, b)
	s.touch(&q.dirty, q)

	if stays := old.Status == next.Status && old.Claim == next.Claim; !stays && old.Status == job.Active {
		s.unhold(old.Claim, b.seq, first, last)
	} else if !stays && next.Status == job.Active {
		c := s.claim(next.Claim)
		c.held += int(n)
		s.hold(c.runner, 0, int(n))
		s.leaseMoved(c)
	}
	if old.Claim != next.Claim {
		if old.Claim != 0 {
			c := s.claim(old.Claim)
			c.refs -= int(n)
			s.leaseMoved(c)
		}
		if next.Claim != 0 {
			s.claim(next.Claim).refs += int(n)
		}
	}
	if last := len(s.effects) - 1; last >= 0 {
		e := &s.effects[last]
		if e.run.Batch == b.seq && e.run.Last+1 == first && e.from == old.Status && e.to == next.Status && e.reason == why {
			e.run.Last += uint32(n)
			return
		}
	}
	s.effects = append(s.effects, effect{Run{b.seq, first, last}, old.Status, next.Status, why})
}

func (s *Store) gained(q *queue) {
	if !q.readied {
		q.readied = true
		s.readied = append(s.readied, q)
	}
}

// each calls visit with the parts, within first … last, of the spans of a batch. visit may move the lines it was given.
func (s *Store) each(seq uint64, first, last uint32, visit func(sp span, first, last uint32)) {
	for line := first; ; {
		sp := s.spanAt(seq, line)
		end := min(sp.last, last)
		visit(sp, line, end)
		if end == last {
			return
		}
		line = end + 1
	}
}

// eachIfThere is each for lines whose batch may be gone, or go while they are visited.
func (s *Store) eachIfThere(r Run, visit func(b *batch, sp span, first, last uint32)) {
	for line := r.First; ; {
		b := s.batch(r.Batch)
		if b == nil {
			return
		}
		sp := s.spanAt(r.Batch, line)
		end := min(sp.last, r.Last)
		visit(b, sp, line, end)
		if end == r.Last {
			return
		}
		line = end + 1
	}
}
