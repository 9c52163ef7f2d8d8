package query

import (
	"cmp"
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// A list by the time of the last move is merged from several orders. Jobs that have ended, and jobs that wait and were moved since
// their create, have rows by time. Jobs that nothing has moved are in the order of their ids. Active jobs are in the order of their
// claims.

const (
	// maxSortedSpans bounds the spans that are read and sorted for a page: those of active jobs, and those of a claim or batch. If
	// there are more active ones, the claims are walked, of which many may have no active job any more.
	maxSortedSpans = 4000
	claimWindow    = 64
)

// noJob is in the place after some claims without active jobs.
var noJob = job.NewID(0, 0, 0)

// beginMoved finds the first place of a list by time.
func (l *lister) beginMoved() (from place, ok bool) {
	from = place{math.MaxInt64, lastPosition}
	switch after := l.f.After; {
	case after.IsZero():
	case after.ID == noJob:
		from.at = after.UpdatedAt - 1
	default:
		seq, _ := l.seqOf(after.ID)
		from = place{after.UpdatedAt, row.Position{seq, uint32(after.ID.Line()) - 1}}
		if after.ID.Line() == 0 {
			if from.Position, ok = before(seq); !ok { // no batch has this seq, so all of this time are behind it
				from = place{after.UpdatedAt - 1, lastPosition}
			}
		}
	}
	if end := l.f.UpdatedBefore; end != 0 && end <= from.at {
		from = place{end - 1, lastPosition}
	}
	return from, from.at >= 0
}

// walkMoved looks at the jobs that may match, the last move first.
func (l *lister) walkMoved() (atEnd bool) {
	var runs []row.Run
	narrow := false // runs has all jobs of the list
	if !l.f.Claim.IsZero() {
		runs, narrow = l.claimRuns(), true
	}
	if !l.f.Batch.IsZero() {
		if s := l.live.ReadSubmissionOf(l.v, l.f.Batch); s != nil {
			l.batch = s.Seq
		} else if b := l.live.ReadBatchOf(l.v, l.f.Batch); b != nil && b.IsBatch(l.f.Batch) {
			if l.batch = b.Seq; !narrow {
				runs, narrow = []row.Run{{Batch: b.Seq, Last: b.Lines - 1}}, true
			}
		} else {
			return true
		}
	}
	if !narrow && l.f.Runner != "" && l.f.Status == job.Active {
		runs, narrow = l.runnerRuns()
	}
	if narrow {
		if c, ok := l.ofRuns(runs); ok {
			return l.walkLists([]*spanCursor{c})
		}
	}
	queues, ok := l.queuesOf(maxMovedQueues)
	if !ok {
		l.err = ErrManyQueues
		return true
	}
	l.holder, l.holdsAs = l.held()
	created, anyCreated := l.createdBy(l.from)
	var list []*spanCursor
	for _, status := range job.Statuses {
		switch {
		case l.f.Status != 0 && status != l.f.Status:
		case status == job.Active:
			list = append(list, l.active(queues))
		default:
			for _, queue := range queues {
				list = append(list, l.moved(queue, status))
				if status.Waits() && anyCreated {
					list = append(list, l.listed(queue, status, created, true))
				}
			}
		}
	}
	l.rows -= len(list)
	return l.walkLists(list)
}

// ofRuns returns a cursor of the spans of some runs; not ok if there are too many to sort them.
func (l *lister) ofRuns(runs []row.Run) (c *spanCursor, ok bool) {
	c = &spanCursor{ended: true}
	left := cmp.Or(l.f.Sorted, maxSortedSpans)
	for _, r := range runs {
		row.EachSpan(l.v, r.Batch, r.First, r.Last, func(sp row.Span) bool {
			if sp.Status != job.Purged {
				l.addPlace(c, r.Batch, &sp)
			}
			l.rows--
			left--
			return left >= 0
		})
		if left < 0 {
			return nil, false
		}
	}
	slices.SortFunc(c.ahead, l.compare)
	c.ahead = slices.Compact(c.ahead) // a span can extend over two runs
	return c, true
}

// moved returns a cursor of the spans of a queue and status that have a row by time.
func (l *lister) moved(queue uint32, status job.Status) *spanCursor {
	from := row.MovedKey(queue, status, l.from.at, l.from.Seq, l.from.Line)
	return l.indexed(row.MovedPrefix(queue, status), from, l.holder == queue && l.holdsAs == status, func(key string) (p place) {
		p.at, p.Position = row.SplitMovedKey(key)
		return p
	})
}

// createdBy returns the last position of jobs that, if nothing has moved them since their create, are not before a place.
func (l *lister) createdBy(from place) (row.Position, bool) {
	if from.at == math.MaxInt64 {
		return lastPosition, true
	}
	first, firstAt, ok := firstOf(l.v, row.BatchTable, from.at)
	if !ok {
		return lastPosition, true
	}
	if firstAt > from.at || from.Seq < first {
		return before(first)
	}
	if later, _, ok := firstOf(l.v, row.BatchTable, from.at+1); ok && from.Seq >= later {
		return before(later)
	}
	return from.Position, true
}

// movedHere reports whether jobs of a span belong in the list at the place where it was found.
func (l *lister) movedHere(b *row.Batch, sp *row.Span, at int64) bool {
	return sp.UpdatedAt == at && b.At >= l.f.CreatedAfter && (l.f.CreatedBefore == 0 || b.At < l.f.CreatedBefore) &&
		(l.batch == 0 || b.Submission == l.batch || b.Submission == 0 && b.Seq == l.batch)
}

// active returns a cursor of the active spans of some queues.
func (l *lister) active(queues []uint32) *spanCursor {
	var found []row.Position
	for _, queue := range queues {
		prefix := row.ListPrefix(queue, job.Active)
		l.v.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
			found = append(found, row.EndOfListKey(key))
			return len(found) <= maxSortedSpans
		})
		if len(found) > cmp.Or(l.f.Sorted, maxSortedSpans) {
			return l.claimed()
		}
	}
	l.rows -= len(found)
	c := &spanCursor{ended: true}
	for _, end := range found {
		sp, ok := row.ReadSpan(l.v, end.Seq, end.Line)
		if !ok {
			lsm.Contradict("list", "line %d of batch %d is in a list and in no span", end.Line, end.Seq)
		}
		l.addPlace(c, end.Seq, &sp)
	}
	slices.SortFunc(c.ahead, l.compare)
	return c
}

// addPlace adds the place of a span, unless it is before the list.
func (l *lister) addPlace(c *spanCursor, seq uint64, sp *row.Span) {
	if at := (place{sp.UpdatedAt, row.Position{seq, sp.First}}); l.compare(at, l.from) >= 0 {
		c.ahead = append(c.ahead, place{at.at, row.Position{seq, sp.Last}})
	}
}

// claimed returns a cursor of the active spans of all claims, from the last claim to the first. After some claims without active
// spans it has a place of no span, so that a page can end there.
func (l *lister) claimed() *spanCursor {
	end := string(row.ClaimTable + 1)
	if l.from.at < math.MaxInt64 {
		if later, _, ok := firstOf(l.v, row.ClaimTable, l.from.at+1); ok {
			end = row.SeqKey(row.ClaimTable, later)
		}
	}
	c := &spanCursor{}
	c.read = func() bool {
		var seqs []uint64
		var times []int64
		passed, window := int64(0), max(2, cmp.Or(l.f.Sorted, claimWindow))
		l.v.ScanDown(string(row.ClaimTable), end, func(key string, value []byte) bool {
			seqs, times = append(seqs, row.SeqOfKey(key)), append(times, timeOf(value))
			n := len(times)
			return n < window || times[n-1] == times[n-2]
		})
		if len(seqs) == 0 {
			return false
		}
		for i, seq := range seqs {
			if i > 0 && times[i] != times[i-1] && (i >= window-1 || len(c.ahead) >= keyWindow || l.rows <= 0 || l.left <= 0) {
				break // the places of one time are read together
			}
			end, passed = row.SeqKey(row.ClaimTable, seq), times[i]
			var found []spanOf
			of := row.ReadClaim(l.v, seq)
			l.rows--
			if l.left -= of.Size(); of.Held == 0 {
				continue
			}
			for _, r := range of.Runs {
				row.EachSpan(l.v, r.Batch, r.First, r.Last, func(sp row.Span) bool {
					l.rows--
					if sp.Status == job.Active && sp.Claim == seq && sp.First >= r.First { // a span can extend over two runs
						found = append(found, spanOf{r.Batch, sp})
					}
					return true
				})
			}
			for i := range found {
				if l.inScope(found[i].batch, found[i].sp.First) {
					l.addPlace(c, found[i].batch, &found[i].sp)
				}
			}
		}
		if slices.SortFunc(c.ahead, l.compare); len(c.ahead) == 0 {
			c.ahead = []place{{at: passed}}
		}
		return true
	}
	return c
}

// spanOf is a span of a batch.
type spanOf struct {
	batch uint64
	sp    row.Span
}

// inScope reports whether the list may name a job: the claims of others are walked, too.
func (l *lister) inScope(batch uint64, line uint32) bool {
	s := &l.f.Scope
	if s.All() {
		return true
	}
	b := l.readBatch(batch)
	if b == nil {
		return false
	}
	name := l.queue(l.groupOf(b, line).QueueID)
	return s.Has(name.Client, name.Typ)
}
