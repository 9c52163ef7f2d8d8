package machine

import (
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// addSpan writes the first state of lines first … last of a group.
func (a *Applying) addSpan(b *row.Batch, g *row.Group, sp row.Span) {
	a.touchQueue(a.AllQueues.ByID[g.QueueID])
	a.putSpan(b, g, sp)
	a.countPending(b, g, &sp, 1)
	for _, key := range sp.Indexes(b, g) {
		a.putIndex(g, key)
	}
	a.followDistinct(b, g, nil, []row.Span{sp})
	begun := row.Part{b, g, sp, sp.First, sp.Last}
	begun.In.State = job.State{}
	a.Count(begun, sp.State, job.ReasonCreated)
}

// move changes the state of a part of a span. All changes of lines use it: it splits and merges spans, keeps their
// index rows, and changes the counters of batch, queue, claim and runner.
func (a *Applying) move(p row.Part, next job.State, why job.Reason) {
	b, g := p.B, p.Group()
	if !next.Status.Unfinished() {
		a.Ends.Ended(p.Run())
	}
	a.touchQueue(a.AllQueues.ByID[g.QueueID])
	olds, news := a.replace(p, g, next)
	for i := range olds {
		o := &olds[i]
		a.countPending(b, g, o, -1)
		heir := spanWithEnd(news, o.Last)
		if heir == nil {
			a.O.Delete(row.LineKey(row.SpanTable, b.Seq, o.Last))
			a.Spans.Delete(memory.CachedSpan{b.Seq, *o})
		}
		if heir == nil || heir.State != o.State {
			for _, key := range o.Indexes(b, g) {
				a.deleteIndex(g, key)
			}
		}
	}
	for i := range news {
		n := &news[i]
		a.putSpan(b, g, *n)
		a.countPending(b, g, n, 1)
		if o := spanWithEnd(olds, n.Last); o == nil || o.State != n.State {
			for _, key := range n.Indexes(b, g) {
				a.putIndex(g, key)
			}
		}
	}
	a.followDistinct(b, g, olds, news)
	a.Count(p, next, why)
}

// replace returns the spans that exist before a move and the spans that exist after it: the remainders of the span on
// both sides of the part, and the part, merged with a neighbour in the same state that the same command moved.
func (a *Applying) replace(p row.Part, g *row.Group, next job.State) (olds, news []row.Span) {
	mid := row.Span{p.First, p.Last, next, 0}
	if p.B.Separate() && next.Status != job.Purged {
		mid.Moved = a.Now.Seq
	}
	olds = append(make([]row.Span, 0, 3), p.In)
	news = make([]row.Span, 0, 3)
	if p.In.First < p.First {
		news = append(news, row.Span{p.In.First, p.First - 1, p.In.State, p.In.Moved})
	} else if g.First < p.First {
		if l := a.spanAt(p.B.Seq, p.First-1); l.State == next && l.Moved == mid.Moved {
			olds = append(olds, l)
			mid.First = l.First
		}
	}
	if p.Last < p.In.Last {
		news = append(news, row.Span{p.Last + 1, p.In.Last, p.In.State, p.In.Moved})
	} else if p.Last < g.Last {
		if r := a.spanAt(p.B.Seq, p.Last+1); r.State == next && r.Moved == mid.Moved {
			olds = append(olds, r)
			mid.Last = r.Last
		}
	}
	return olds, append(news, mid)
}

// spanWithEnd returns the span that ends at last, or nil.
func spanWithEnd(spans []row.Span, last uint32) *row.Span {
	for i := range spans {
		if spans[i].Last == last {
			return &spans[i]
		}
	}
	return nil
}

func (a *Applying) putSpan(b *row.Batch, g *row.Group, sp row.Span) {
	if sp.First < g.First || sp.Last > g.Last || sp.First > sp.Last {
		panic(fmt.Sprintf("store: span %d-%d leaves its group %d-%d of batch %d", sp.First, sp.Last, g.First, g.Last, b.Seq))
	}
	a.O.Set(row.LineKey(row.SpanTable, b.Seq, sp.Last), sp.Encode())
	a.Spans.Set(memory.CachedSpan{b.Seq, sp})
}

func (a *Applying) putIndex(g *row.Group, key string) {
	if key == "" {
		return
	}
	a.O.Set(key, nil)
	switch key[0] {
	case row.ReadyTable:
		_, lane, _ := row.SplitReadyKey(key)
		q := a.AllQueues.ByID[g.QueueID]
		q.Lane(lane).Insert(q.Id, a.AllQueues.Windows, key)
		a.queueMoved(q)
	case row.TimerTable:
		a.addTimer(key)
	}
}

func (a *Applying) deleteIndex(g *row.Group, key string) {
	if key == "" {
		return
	}
	a.O.Delete(key)
	switch key[0] {
	case row.ReadyTable:
		_, lane, _ := row.SplitReadyKey(key)
		q := a.AllQueues.ByID[g.QueueID]
		q.Lane(lane).Remove(q.Id, a.AllQueues.Windows, key)
		a.queueMoved(q)
	case row.TimerTable:
		a.removeTimer(key)
	}
}

// Count changes all counters of lines after a part of a span has changed its state.
func (a *Applying) Count(p row.Part, next job.State, why job.Reason) {
	a.countJobs(p, next)
	if a.Tally.Observed {
		a.Tally.Count(a.AllQueues.ByID[p.Group().QueueID], p.Lines(), &p.In.State, &next, why, a.Now.At)
	}
	a.countHeld(p, next)
	a.addEffect(p, next, why)
}

// countPayloads adds the payloads of jobs to what a queue and its client have, or takes them away.
func (a *Applying) countPayloads(p row.Part, q *memory.Queue, sign int64) {
	if p.B.Longest == 0 {
		return
	}
	bytes := sign * a.sizes.Sum(&a.O, p.B, p.First, p.Last)
	q.PayloadBytes += bytes
	q.Of.Bytes += bytes
}

// countJobs changes the counters of batch and queue, and the sums over all queues. Only batches count purged lines: a
// queue is deleted when all of its jobs are purged.
func (a *Applying) countJobs(p row.Part, next job.State) {
	n, b, g := p.Lines(), p.B, p.Group()
	old, q := p.In.State, a.AllQueues.ByID[g.QueueID]
	switch was, is := old.Status.Unfinished(), next.Status.Unfinished(); {
	case is && !was:
		q.Of.Unfinished += n
	case was && !is:
		q.Of.Unfinished -= n
	}
	switch {
	case old.Status == 0 && next.Status != job.Purged:
		a.countPayloads(p, q, 1)
	case old.Status != 0 && next.Status == job.Purged:
		a.countPayloads(p, q, -1)
	}
	if old.Status != 0 {
		b.Counts[old.Status] -= n
		q.Counts[old.Status] -= n
		a.Counts[old.Status] -= n
	}
	b.Counts[next.Status] += n
	if next.Status != job.Purged {
		q.Counts[next.Status] += n
		a.Counts[next.Status] += n
		if priority := next.PriorityIn(&g.Attributes); !q.Priorities.Has(priority) {
			a.AllQueues.SetPriorities(q, q.Priorities.With(priority))
		}
	} else if q.Empty() {
		a.AllQueues.SetPriorities(q, 0)
	}
	switch {
	case b.Submission != 0:
		a.countSubmission(p, next)
	case !b.Joined:
		a.noteEnds(p, next)
	}
	if q.IdleAt != 0 || q.Empty() {
		a.reviseIdle(q)
	}
	if next.Status == job.Pending {
		q.Lane(row.LaneOf(&next, g)).Pending += n
		a.gained(q)
		a.queueMoved(q)
	}
	if old.Status == job.Pending {
		l := q.Lane(row.LaneOf(&old, g))
		if l.Pending -= n; l.Pending == 0 {
			l.Clear()
		}
		a.queueMoved(q)
	}
	a.Touch(&b.Dirty, b)
}

// countHeld changes the counters of claims and runners: of the lines that they hold, and of the lines that name them.
func (a *Applying) countHeld(p row.Part, next job.State) {
	old, n := p.In.State, int(p.Lines())
	if stays := old.Status == next.Status && old.Claim == next.Claim; !stays && old.Status == job.Active {
		a.unhold(old.Claim, p.Run())
	} else if !stays && next.Status == job.Active {
		c := a.claim(next.Claim)
		c.Held += n
		a.hold(c.Runner, 0, n)
		a.Settle(c)
	}
	if old.Claim == next.Claim {
		return
	}
	if old.Claim != 0 {
		c := a.claim(old.Claim)
		c.Refs -= n
		a.Settle(c)
	}
	if next.Claim != 0 {
		a.claim(next.Claim).Refs += n
	}
}

// noteEnds records when the last job of a standalone batch ends, and which job failed first.
func (a *Applying) noteEnds(p row.Part, next job.State) {
	b := p.B
	switch line := b.Failed - 1; {
	case next.Status == job.Failed && b.Failed == 0:
		b.Failed = int64(p.First) + 1
	case p.In.Status == job.Failed && next.Status == job.Pending && int64(p.First) <= line && line <= int64(p.Last):
		b.Failed = 0
	}
	switch old := p.In.Status; {
	case next.Status != job.Purged || old == job.Completed || old == 0:
	case old == job.Failed:
		b.Purged |= row.FailedBit
	default:
		b.Purged |= row.CancelledBit
	}
	switch {
	case b.Unfinished() > 0:
		b.EndedAt = 0
	case p.In.Status.Unfinished():
		b.EndedAt = a.Now.At
		a.Ends.Ended(BatchEnd(b.Seq))
	}
}
