package query

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// AwaitEnd begins to wait for the end of a job. It misses ends in commands that were applied before the call, so the
// caller must look at the job afterwards, when queries show these commands. The error is job.NotFound if the job does
// not exist.
func (q *Queries) AwaitEnd(id job.ID) (w *memory.JobEnd, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	b := q.live.ReadBatchOf(v, id)
	if b == nil || id.Line() >= int(b.Lines) {
		return nil, job.NotFound
	}
	return q.live.Ends.Await(row.Position{b.Seq, uint32(id.Line())}), nil
}

// EndsAwaited returns how many callers wait for the end of a job.
func (q *Queries) EndsAwaited() int { return int(q.live.Ends.Waiting.Load()) }
