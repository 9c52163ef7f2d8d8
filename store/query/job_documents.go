package query

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Job returns the document of a job, or job.NotFound if the job does not exist.
func (q *Queries) Job(id job.ID) (doc job.Job, err error) {
	doc, _, err = q.JobWithin(id, Unbounded)
	return doc, err
}

// JobWithin is Job for a caller that bounds its memory. If the job's payload, output and history have more than room
// bytes together, it reads none of them, and fits is false.
func (q *Queries) JobWithin(id job.ID, room int64) (doc job.Job, fits bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	return q.JobIn(v, id, room)
}

func (q *Queries) JobIn(v lsm.View, id job.ID, room int64) (doc job.Job, fits bool, err error) {
	line := uint32(id.Line())
	b := q.live.ReadBatchOf(v, id)
	if b == nil || line >= b.Lines || !q.hasPage(v, b, line) {
		return job.Job{}, false, job.NotFound
	}
	r := Reader{Queries: q, V: v, B: b, Parts: Everything, Room: room}
	docs, all := r.Documents(row.Run{b.Seq, line, line}, 0)
	switch {
	case !all:
		return job.Job{}, false, nil
	case len(docs) == 0:
		return job.Job{}, false, job.NotFound
	}
	return docs[0], true, nil
}

// Held returns the jobs that a claim handed out and still holds, as a claim shows them.
func (q *Queries) Held(c *applied.Claimed) (held []runs.Run, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	return runs.Of(q.heldDocuments(v, c.Seq, c.Runs, Payloads|Brief|mustRead)), nil
}

// heldDocuments returns the documents of the jobs in runs that a claim holds.
func (q *Queries) heldDocuments(v lsm.View, claim uint64, runs []row.Run, parts Parts) (docs []job.Job) {
	for _, run := range runs {
		if b := row.ReadBatch(v, run.Batch); b != nil {
			r := Reader{Queries: q, V: v, B: b, Parts: parts, Room: Unbounded}
			of, _ := r.Documents(run, claim)
			docs = append(docs, of...)
		}
	}
	return docs
}

// Documents returns the documents of lines, without purged lines. If claim is not 0, it returns only lines that the
// claim holds. all is false if there was no room for all of them.
func (r *Reader) Documents(run row.Run, claim uint64) (docs []job.Job, all bool) {
	var spans []row.Span
	row.EachSpan(r.V, r.B.Seq, run.First, run.Last, func(sp row.Span) bool {
		if sp.Status != job.Purged && (claim == 0 || sp.Status == job.Active && sp.Claim == claim) {
			spans = append(spans, sp)
		}
		return true
	})
	names := map[uint32]row.QueueName{}
	for i := range spans {
		sp := &spans[i]
		first, last := max(run.First, sp.First), min(run.Last, sp.Last)
		g := r.groups.Group(r.V, r.B, first)
		name, ok := names[g.QueueID]
		if !ok {
			name = r.QueueName(r.V, g.QueueID)
			names[g.QueueID] = name
		}
		for line := first; line <= last; line++ {
			doc := r.B.Document(g, sp, line)
			doc.Client, doc.Type = name.Client, name.Typ
			docs = append(docs, doc)
		}
	}
	n, _ := r.Fill(docs)
	return docs[:n], n == len(docs)
}
