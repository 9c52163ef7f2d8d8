package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// addSpan writes the first state of lines first … last of a group.
func (a *applying) addSpan(b *batch, g *group, sp span) {
	a.touchQueue(a.queues.byID[g.queueID])
	a.putSpan(b, g, sp)
	a.countPending(b, g, &sp, 1)
	for _, key := range sp.indexes(b, g) {
		a.putIndex(g, key)
	}
	a.followDistinct(b, g, nil, []span{sp})
	begun := part{b, g, sp, sp.first, sp.last}
	begun.in.State = job.State{}
	a.count(begun, sp.State, reasonCreated)
}

// move changes the state of a part of a span. All changes of lines use it: it splits and merges spans, keeps their
// index rows, and changes the counters of batch, queue, claim and runner.
func (a *applying) move(p part, next job.State, why reason) {
	b, g := p.b, p.group()
	if !next.Status.Unfinished() {
		a.ends.ended(p.run())
	}
	a.touchQueue(a.queues.byID[g.queueID])
	olds, news := a.replace(p, g, next)
	for i := range olds {
		o := &olds[i]
		a.countPending(b, g, o, -1)
		heir := spanWithEnd(news, o.last)
		if heir == nil {
			a.o.Delete(lineKey(spanTable, b.seq, o.last))
			a.spans.Delete(cachedSpan{b.seq, *o})
		}
		if heir == nil || heir.State != o.State {
			for _, key := range o.indexes(b, g) {
				a.deleteIndex(g, key)
			}
		}
	}
	for i := range news {
		n := &news[i]
		a.putSpan(b, g, *n)
		a.countPending(b, g, n, 1)
		if o := spanWithEnd(olds, n.last); o == nil || o.State != n.State {
			for _, key := range n.indexes(b, g) {
				a.putIndex(g, key)
			}
		}
	}
	a.followDistinct(b, g, olds, news)
	a.count(p, next, why)
}

// replace returns the spans that exist before a move and the spans that exist after it: the remainders of the span on
// both sides of the part, and the part, merged with a neighbour in the same state.
func (a *applying) replace(p part, g *group, next job.State) (olds, news []span) {
	mid := span{p.first, p.last, next}
	olds = append(make([]span, 0, 3), p.in)
	news = make([]span, 0, 3)
	if p.in.first < p.first {
		news = append(news, span{p.in.first, p.first - 1, p.in.State})
	} else if g.first < p.first {
		if l := a.spanAt(p.b.seq, p.first-1); l.State == next {
			olds = append(olds, l)
			mid.first = l.first
		}
	}
	if p.last < p.in.last {
		news = append(news, span{p.last + 1, p.in.last, p.in.State})
	} else if p.last < g.last {
		if r := a.spanAt(p.b.seq, p.last+1); r.State == next {
			olds = append(olds, r)
			mid.last = r.last
		}
	}
	return olds, append(news, mid)
}

// spanWithEnd returns the span that ends at last, or nil.
func spanWithEnd(spans []span, last uint32) *span {
	for i := range spans {
		if spans[i].last == last {
			return &spans[i]
		}
	}
	return nil
}

func (a *applying) putSpan(b *batch, g *group, sp span) {
	if sp.first < g.first || sp.last > g.last || sp.first > sp.last {
		panic(fmt.Sprintf("store: span %d-%d leaves its group %d-%d of batch %d", sp.first, sp.last, g.first, g.last, b.seq))
	}
	a.o.Set(lineKey(spanTable, b.seq, sp.last), sp.encode())
	a.spans.Set(cachedSpan{b.seq, sp})
}

func (a *applying) putIndex(g *group, key string) {
	if key == "" {
		return
	}
	a.o.Set(key, nil)
	switch key[0] {
	case readyTable:
		_, lane, _ := splitReadyKey(key)
		q := a.queues.byID[g.queueID]
		q.lane(lane).insert(q.id, a.queues.windows, key)
		a.queueMoved(q)
	case timerTable:
		a.addTimer(key)
	}
}

func (a *applying) deleteIndex(g *group, key string) {
	if key == "" {
		return
	}
	a.o.Delete(key)
	switch key[0] {
	case readyTable:
		_, lane, _ := splitReadyKey(key)
		q := a.queues.byID[g.queueID]
		q.lane(lane).remove(q.id, a.queues.windows, key)
		a.queueMoved(q)
	case timerTable:
		a.removeTimer(key)
	}
}

// count changes all counters of lines after a part of a span has changed its state.
func (a *applying) count(p part, next job.State, why reason) {
	a.countJobs(p, next)
	if a.tally.observed {
		a.tally.count(a.queues.byID[p.group().queueID], p.lines(), &p.in.State, &next, why, a.now.At)
	}
	a.countHeld(p, next)
	a.addEffect(effect{p.run(), p.in.Status, next.Status, why})
}

// countJobs changes the counters of batch and queue, and the sums over all queues. Only batches count purged lines: a
// queue is deleted when all of its jobs are purged.
func (a *applying) countJobs(p part, next job.State) {
	n, b, g := p.lines(), p.b, p.group()
	old, q := p.in.State, a.queues.byID[g.queueID]
	if old.Status != 0 {
		b.counts[old.Status] -= n
		q.counts[old.Status] -= n
		a.counts[old.Status] -= n
	}
	b.counts[next.Status] += n
	if next.Status != job.Purged {
		q.counts[next.Status] += n
		a.counts[next.Status] += n
		if priority := next.PriorityIn(&g.Attributes); !q.priorities.Has(priority) {
			a.queues.setPriorities(q, q.priorities.With(priority))
		}
	} else if q.empty() {
		a.queues.setPriorities(q, 0)
	}
	switch {
	case b.submission != 0:
		a.countSubmission(p, next)
	case a.meta.level >= 4 && !b.joined:
		a.noteEnds(p, next)
	}
	if q.idleAt != 0 || q.empty() {
		a.reviseIdle(q)
	}
	if next.Status == job.Pending {
		q.lane(laneOf(&next, g)).pending += n
		a.gained(q)
		a.queueMoved(q)
	}
	if old.Status == job.Pending {
		l := q.lane(laneOf(&old, g))
		if l.pending -= n; l.pending == 0 {
			l.clear()
		}
		a.queueMoved(q)
	}
	a.touch(&b.dirty, b)
}

// countHeld changes the counters of claims and runners: of the lines that they hold, and of the lines that name them.
func (a *applying) countHeld(p part, next job.State) {
	old, n := p.in.State, int(p.lines())
	if stays := old.Status == next.Status && old.Claim == next.Claim; !stays && old.Status == job.Active {
		a.unhold(old.Claim, p.run())
	} else if !stays && next.Status == job.Active {
		c := a.claim(next.Claim)
		c.held += n
		a.hold(c.runner, 0, n)
		a.settle(c)
	}
	if old.Claim == next.Claim {
		return
	}
	if old.Claim != 0 {
		c := a.claim(old.Claim)
		c.refs -= n
		a.settle(c)
	}
	if next.Claim != 0 {
		a.claim(next.Claim).refs += n
	}
}

// noteEnds records when the last job of a standalone batch ends, and which job failed first.
func (a *applying) noteEnds(p part, next job.State) {
	b := p.b
	switch line := b.failed - 1; {
	case next.Status == job.Failed && b.failed == 0:
		b.failed = int64(p.first) + 1
	case p.in.Status == job.Failed && next.Status == job.Pending && int64(p.first) <= line && line <= int64(p.last):
		b.failed = 0
	}
	switch old := p.in.Status; {
	case next.Status != job.Purged || old == job.Completed || old == 0:
	case old == job.Failed:
		b.purged |= failedBit
	default:
		b.purged |= cancelledBit
	}
	switch {
	case b.unfinished() > 0:
		b.endedAt = 0
	case p.in.Status.Unfinished():
		b.endedAt = a.now.At
		a.ends.ended(batchEnd(b.seq))
	}
}
