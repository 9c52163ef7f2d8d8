package store

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
)

// Document returns a job's document, as users see it.
func (m *model) Document(j *modelJob) job.Job {
	doc := job.Job{
		ID: j.id, Batch: j.batch.shown(), Client: j.attr.Client, Type: j.attr.Type, Attributes: j.attr.Attributes, Status: j.status,
		Payload: j.payload, Code: j.code, ExitCode: j.exitCode, Attempts: j.history, Progress: -1,
		Steps: j.steps, RunAttempts: j.attempts, CreatedAt: j.batch.at, UpdatedAt: j.movedAt, Redrives: j.redrives, UniqueKey: j.key,
	}
	if j.status.Terminal() {
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
	case j.status == job.Deferred:
		doc.RunAt = j.runAt
	case j.status == job.Active:
		doc.DeadlineAt, doc.LeaseMs = m.Deadline(j), j.tickle.lease
		doc.UpdatedAt = max(j.tickle.at, m.runners[j.claim.runner].at)
	case j.status.Terminal():
		doc.CompletedAt = j.endedAt
	}
	if j.claim != nil && (j.status == job.Active || j.status.Terminal()) {
		doc.Claim, doc.Runner = j.claim.id, j.claim.runner
		if j.resultClaim == j.claim {
			doc.Result = j.result
		}
		if j.progressClaim == j.claim {
			doc.Step, doc.Progress = j.step, j.progress
		}
	}
	return doc
}

func (m *model) batchDocument(b *modelBatch) document.Batch {
	doc := document.Batch{ID: b.id, CreatedAt: b.at, Lines: int64(len(b.lines)), Jobs: int64(len(b.lines)), Since: b.at, Failed: b.failed, EndedAt: b.endedAt}
	for _, j := range b.lines {
		doc.Counts[j.status]++
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

// queueDocuments returns the documents of all queues, by client and type.
func (m *model) queueDocuments() (docs []document.Queue) {
	for name, q := range m.queues {
		doc := document.Queue{Client: name.Client, Type: name.Typ, Paused: q.paused, CreatedAt: q.createdAt}
		for _, b := range m.batches {
			for _, j := range b.lines {
				if j.queue == q && j.status != job.Purged {
					doc.Counts[j.status]++
				}
			}
		}
		if line := slices.DeleteFunc(m.line([]string{name.Client}, []string{name.Typ}, true), func(j *modelJob) bool { return j.queue != q }); len(line) > 0 {
			doc.PendingSince = line[0].movedAt
		}
		docs = append(docs, doc)
	}
	slices.SortFunc(docs, func(a, b document.Queue) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Type, b.Type))
	})
	return docs
}

// takeReadied does what Store.TakeReadied does, by client and type.
func (m *model) takeReadied() (names []document.Readied) {
	for _, doc := range m.queueDocuments() {
		q := m.queues[row.QueueName{doc.Client, doc.Type}]
		if q.readied && !q.paused && !m.stopped && doc.Counts[job.Pending] > 0 {
			names = append(names, document.Readied{doc.Client, doc.Type, doc.Counts[job.Pending]})
		}
		q.readied = false
	}
	return names
}

func (j *modelJob) String() string {
	return fmt.Sprintf("%d/%d %v", j.batch.seq, j.id.Line(), j.status)
}
