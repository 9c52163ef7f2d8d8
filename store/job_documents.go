package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/lsm"
)

// Job returns the document of a job, or job.NotFound if the job does not exist.
func (q *Queries) Job(id job.ID) (doc job.Job, err error) {
	doc, _, err = q.JobWithin(id, unbounded)
	return doc, err
}

// JobWithin is Job for a caller that bounds its memory. If the job's payload, output and history have more than room
// bytes together, it reads none of them, and fits is false.
func (q *Queries) JobWithin(id job.ID, room int64) (doc job.Job, fits bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	return q.jobIn(v, id, room)
}

func (q *Queries) jobIn(v lsm.View, id job.ID, room int64) (doc job.Job, fits bool, err error) {
	line := uint32(id.Line())
	b := q.live.readBatchOf(v, id)
	if b == nil || line >= b.lines || !q.hasPage(v, b, line) {
		return job.Job{}, false, job.NotFound
	}
	r := reader{Queries: q, v: v, b: b, parts: Everything, room: room}
	docs, all := r.documents(Run{b.seq, line, line}, 0)
	switch {
	case !all:
		return job.Job{}, false, nil
	case len(docs) == 0:
		return job.Job{}, false, job.NotFound
	}
	return docs[0], true, nil
}

// Held returns the jobs that a claim handed out and still holds, as a claim shows them.
func (q *Queries) Held(c *Claimed) (held []runs.Run, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	return runs.Of(q.heldDocuments(v, c.Seq, c.Runs, Payloads|Brief|mustRead)), nil
}

// heldDocuments returns the documents of the jobs in runs that a claim holds.
func (q *Queries) heldDocuments(v lsm.View, claim uint64, runs []Run, parts Parts) (docs []job.Job) {
	for _, run := range runs {
		if b := readBatch(v, run.Batch); b != nil {
			r := reader{Queries: q, v: v, b: b, parts: parts, room: unbounded}
			of, _ := r.documents(run, claim)
			docs = append(docs, of...)
		}
	}
	return docs
}

// documents returns the documents of lines, without purged lines. If claim is not 0, it returns only lines that the
// claim holds. all is false if there was no room for all of them.
func (r *reader) documents(run Run, claim uint64) (docs []job.Job, all bool) {
	var spans []span
	eachSpan(r.v, r.b.seq, run.First, run.Last, func(sp span) bool {
		if sp.Status != job.Purged && (claim == 0 || sp.Status == job.Active && sp.Claim == claim) {
			spans = append(spans, sp)
		}
		return true
	})
	names := map[uint32]queueName{}
	for i := range spans {
		sp := &spans[i]
		first, last := max(run.First, sp.first), min(run.Last, sp.last)
		g := r.groups.group(r.v, r.b, first)
		name, ok := names[g.queueID]
		if !ok {
			name = r.queueName(r.v, g.queueID)
			names[g.queueID] = name
		}
		for line := first; line <= last; line++ {
			doc := r.b.document(g, sp, line)
			doc.Client, doc.Type = name.client, name.typ
			docs = append(docs, doc)
		}
	}
	n, _ := r.fill(docs)
	return docs[:n], n == len(docs)
}
