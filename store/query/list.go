package query

import (
	"cmp"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// List returns a page of the jobs that f names, in the order of ids, all as of one moment. next is the id that the next
// page begins after, or zero at the end of the list. A page may hold fewer documents than the limit, or none, even if
// more follow: see maxListRows.
func (q *Queries) List(f Filter) (docs []job.Job, next job.ID, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	l := lister{
		Queries: q, v: v, f: f, rows: cmp.Or(f.Rows, maxListRows), left: cmp.Or(f.Read, MaxListReadBytes), room: cmp.Or(f.Bytes, maxListBytes),
		names: names{map[uint32]row.QueueName{}, map[uint64]string{}},
	}
	if !l.filterInScope() || !l.Begin() {
		return nil, job.ID{}, nil
	}
	atEnd := l.walk()
	l.Fill()
	switch {
	case l.full || l.cut:
		next = l.docs[len(l.docs)-1].ID
	case !atEnd:
		next = l.shown(l.last)
	}
	return l.docs, next, nil
}

// walk looks at the jobs that may match, in order, by the shortest way that the filter allows. It reports whether it
// reached the end.
func (l *lister) walk() (atEnd bool) {
	if !l.f.Batch.IsZero() {
		return l.walkBatch()
	}
	if !l.f.Claim.IsZero() {
		return l.walkRuns(l.claimRuns())
	}
	if l.f.Runner != "" && l.f.Status == job.Active {
		if runs, ok := l.runnerRuns(); ok {
			return l.walkRuns(runs)
		}
	}
	if l.f.Status != 0 || l.f.Client != "" || l.f.Type != "" || !l.f.Scope.All() {
		if cursors, ok := l.cursors(); ok {
			return l.walkLists(cursors)
		}
	}
	return l.walkBatches()
}
