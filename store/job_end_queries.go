package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// AwaitEnd begins to wait for the end of a job. It misses ends in commands that were applied before the call, so the
// caller must look at the job afterwards, when queries show these commands. The error is job.NotFound if the job does
// not exist.
func (q *Queries) AwaitEnd(id job.ID) (w *JobEnd, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	b := q.live.readBatchOf(v, id)
	if b == nil || id.Line() >= int(b.lines) {
		return nil, job.NotFound
	}
	return q.live.ends.await(position{b.seq, uint32(id.Line())}), nil
}

// EndsAwaited returns how many callers wait for the end of a job.
func (q *Queries) EndsAwaited() int { return int(q.live.ends.waiting.Load()) }
