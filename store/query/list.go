package query

import (
	"cmp"
	"errors"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Order is the order of a list.
type Order uint8

const (
	Oldest  Order = iota // by id
	Newest               // by id, the last one first
	Updated              // by the time of the last move, and then by id, the last one first
)

// JobPlace is where a page of a list ends.
type JobPlace struct {
	ID        job.ID // of the last job that was looked at
	UpdatedAt int64  // of it, if the list is in the order Updated; else 0
}

func (p JobPlace) IsZero() bool { return p == JobPlace{} }

// ErrManyQueues: a list in the order Updated is merged from the lists of too many queues.
var ErrManyQueues = errors.New("too many queues for a list by time")

// List returns a page of the jobs that f names, all as of one moment. next is the place that the next page begins after, or zero at
// the end of the list. A page may hold fewer documents than the limit, or none, even if more follow: see maxListRows.
func (q *Queries) List(f Filter) (docs []job.Job, next JobPlace, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	l := lister{
		Queries: q, v: v, f: f, rows: cmp.Or(f.Rows, maxListRows), left: cmp.Or(f.Read, MaxListReadBytes), room: cmp.Or(f.Bytes, maxListBytes),
		names: names{map[uint32]row.QueueName{}, map[uint64]string{}},
	}
	if !l.filterInScope() || !l.Begin() {
		return nil, JobPlace{}, nil
	}
	atEnd := l.walk()
	l.Fill()
	switch {
	case l.err != nil:
		return nil, JobPlace{}, l.err
	case l.full || l.cut:
		last := &l.docs[len(l.docs)-1]
		if next.ID = last.ID; l.f.Order == Updated {
			next.UpdatedAt = last.UpdatedAt
		}
	case !atEnd:
		next = l.shown(l.last)
	}
	return l.docs, next, nil
}

// walk looks at the jobs that may match, in order, by the shortest way that the filter allows. It reports whether it
// reached the end.
func (l *lister) walk() (atEnd bool) {
	if l.f.Order == Updated {
		return l.walkMoved()
	}
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
