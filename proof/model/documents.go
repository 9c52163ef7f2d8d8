package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// Document returns a job's document, as users see it.
func (m *Model) Document(j *Job) job.Job {
	doc := job.Job{
		ID: j.ID, Batch: j.Batch.shown(), Client: j.Attr.Client, Type: j.Attr.Type, Attributes: j.Attr.Attributes, Status: j.Status,
		Payload: j.payload, Code: j.code, ExitCode: j.exitCode, Attempts: j.history, Progress: -1,
		Steps: j.steps, RunAttempts: j.attempts, CreatedAt: j.Batch.At, UpdatedAt: j.movedAt, Redrives: j.redrives, UniqueKey: j.key,
	}
	if j.Status.Terminal() {
		doc.Why = j.why
	}
	if j.code == job.Unget {
		doc.Code = job.NoCode
	}
	if j.code != job.OK && len(j.history) > 0 {
		doc.Error = j.history[len(j.history)-1].Error
	}
	if j.code == job.Damaged {
		doc.Error = job.DamagedText
	}
	switch {
	case j.Status == job.Deferred:
		doc.RunAt = j.runAt
	case j.Status == job.Active:
		doc.DeadlineAt, doc.LeaseMs = m.Deadline(j), j.Tickle.lease
		doc.TickledAt = max(j.Tickle.At, m.Runners[j.claim.Runner].At)
	case j.Status.Terminal():
		doc.CompletedAt = j.endedAt
	}
	if j.claim != nil && (j.Status == job.Active || j.Status.Terminal()) {
		doc.Claim, doc.Runner = j.claim.ID, j.claim.Runner
		if j.resultClaim == j.claim {
			doc.Result = j.result
		}
		if j.progressClaim == j.claim {
			doc.Step, doc.Progress = j.step, j.progress
		}
	}
	return doc
}

func (m *Model) BatchDocument(b *Batch) document.Batch {
	doc := document.Batch{ID: b.ID, CreatedAt: b.At, Lines: int64(len(b.Lines)), Jobs: int64(len(b.Lines)), Since: b.At, Failed: b.failed, EndedAt: b.endedAt}
	for _, j := range b.Lines {
		doc.Counts[j.Status]++
		if !j.Unfinished() {
			doc.Ended++
		}
	}
	if doc.Status = job.BatchInProgress; doc.Ended == doc.Jobs {
		l := &b.lost
		doc.Status = job.BatchStatusOf(doc.Counts[job.Failed]+l[job.Failed], doc.Counts[job.Cancelled]+l[job.Cancelled]+l[job.Deferred]+l[job.Pending]+l[job.Active])
	}
	return doc
}

// QueueDocuments returns the documents of all queues, by client and type.
func (m *Model) QueueDocuments() (docs []document.Queue) {
	for name, q := range m.Queues {
		doc := document.Queue{Client: name.Client, Type: name.Name, Paused: q.Paused, CreatedAt: q.createdAt}
		for _, b := range m.Batches {
			for _, j := range b.Lines {
				if j.Queue == q && j.Status != job.Purged {
					doc.Counts[j.Status]++
				}
			}
		}
		if line := slices.DeleteFunc(m.Line([]string{name.Client}, []string{name.Name}, true), func(j *Job) bool { return j.Queue != q }); len(line) > 0 {
			doc.PendingSince = line[0].movedAt
		}
		docs = append(docs, doc)
	}
	slices.SortFunc(docs, func(a, b document.Queue) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Type, b.Type))
	})
	return docs
}

// TakeReadied does what Store.TakeReadied does, by client and type.
func (m *Model) TakeReadied() (names []document.Readied) {
	for _, doc := range m.QueueDocuments() {
		q := m.Queues[Name{doc.Client, doc.Type}]
		if q.readied && !q.Paused && !m.Stopped && doc.Counts[job.Pending] > 0 {
			names = append(names, document.Readied{doc.Client, doc.Type, doc.Counts[job.Pending]})
		}
		q.readied = false
	}
	return names
}

func (j *Job) String() string {
	return fmt.Sprintf("%d/%d %v", j.Batch.Seq, j.ID.Line(), j.Status)
}

// MadeBy returns the jobs that a command has made and that are not purged.
func (m *Model) MadeBy(seq uint64) []*Job {
	return m.AllJobs(func(j *Job) bool { return j.Batch.Seq == seq && j.Status != job.Purged })
}
