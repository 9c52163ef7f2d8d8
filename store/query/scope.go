package query

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// The functions of this file say whether something is in a scope. What does not exist is in none.

// JobInScope reports whether a job is in a scope.
func (q *Queries) JobInScope(s *job.Scope, id job.ID) (bool, error) {
	client, typ, err := q.QueueOf(id)
	return typ != "" && s.Has(client, typ), err
}

// BatchInScope reports whether all jobs of a batch are in a scope. A batch with jobs of very many queues is only in a scope with
// all of them.
func (q *Queries) BatchInScope(s *job.Scope, id job.ID) (in bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	in, _ = q.batchInScope(v, s, id)
	return in, nil
}

// batchInScope is BatchInScope, and also reports whether there is such a batch.
func (q *Queries) batchInScope(v lsm.View, s *job.Scope, id job.ID) (in, there bool) {
	if of := q.live.ReadSubmissionOf(v, id); of != nil {
		return q.submissionInScope(v, s, of), true
	}
	b := q.live.ReadBatchOf(v, id)
	if b == nil || !b.IsBatch(id) {
		return false, false
	}
	return q.linesInScope(v, s, b, 0, b.Lines-1), true
}

func (q *Queries) submissionInScope(v lsm.View, s *job.Scope, of *row.Submission) bool {
	return s.All() || s.Has(of.Client, of.Typ) && of.InQueues(func(id uint32) bool { return q.queueInScope(v, s, id) })
}

// queueInScope reports whether a queue is in a scope. A queue that was deleted has no jobs, and does not count.
func (q *Queries) queueInScope(v lsm.View, s *job.Scope, id uint32) bool {
	name := q.QueueName(v, id)
	return name.Typ == "" || s.Has(name.Client, name.Typ)
}

// linesInScope reports whether all lines from first to last of a batch are in a scope.
func (q *Queries) linesInScope(v lsm.View, s *job.Scope, b *row.Batch, first, last uint32) bool {
	if s.All() {
		return true
	}
	var groups row.GroupReader
	for line := first; line <= last && line < b.Lines; {
		g := groups.Group(v, b, line)
		if !q.queueInScope(v, s, g.QueueID) {
			return false
		}
		line = g.Last + 1
	}
	return true
}

// ClaimInScope reports whether all jobs that a claim has handed out are in a scope.
func (q *Queries) ClaimInScope(s *job.Scope, id job.ID) (in bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	c := q.live.ReadClaimOf(v, id)
	if c == nil || c.Refs == 0 {
		return false, nil
	}
	return q.claimInScope(v, s, c), nil
}

func (q *Queries) claimInScope(v lsm.View, s *job.Scope, c *row.Claim) bool {
	return !slices.ContainsFunc(c.Runs, func(r row.Run) bool {
		b := row.ReadBatch(v, r.Batch)
		return b != nil && !q.linesInScope(v, s, b, r.First, r.Last)
	})
}

// SweepInScope reports whether the queue or the batch of a sweep is in a scope. The batch must still exist.
func (q *Queries) SweepInScope(s *job.Scope, doc *document.Sweep) (bool, error) {
	if doc.Batch.IsZero() {
		return s.Has(doc.Client, doc.Type), nil
	}
	return q.BatchInScope(s, doc.Batch)
}

// filterInScope reports whether the batch and the claim of a filter are in its scope, or do not exist.
func (l *lister) filterInScope() bool {
	s := &l.f.Scope
	if s.All() {
		return true
	}
	if !l.f.Batch.IsZero() {
		if in, there := l.batchInScope(l.v, s, l.f.Batch); there && !in {
			return false
		}
	}
	if !l.f.Claim.IsZero() {
		if c := l.live.ReadClaimOf(l.v, l.f.Claim); c != nil && !l.claimInScope(l.v, s, c) {
			return false
		}
	}
	return true
}

// shown returns the place where the next page begins, as the answer shows it: if it is in a batch of others, its last possible
// line, which is the id of no job, or that of the batch before it.
func (l *lister) shown(last JobPlace) JobPlace {
	s := &l.f.Scope
	b := l.live.ReadBatchOf(l.v, last.ID)
	if s.All() || b == nil || l.f.Order == Updated { // which looks at no job of others
		return last
	}
	var groups row.GroupReader
	for line := uint32(0); line < b.Lines; {
		g := groups.Group(l.v, b, line)
		if name := l.queue(g.QueueID); s.Has(name.Client, name.Typ) {
			return last
		}
		line = g.Last + 1
	}
	if l.down() {
		return JobPlace{ID: job.NewID(b.At, b.Seq-1, job.MaxLines-1)}
	}
	return JobPlace{ID: last.ID.WithLine(job.MaxLines - 1)}
}
