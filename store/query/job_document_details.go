package query

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
)

// addKeys adds the unique keys of jobs of a batch.
func addKeys(r lsm.Rows, b *row.Batch, docs []job.Job) {
	for _, u := range machine.KeysOf(r, b, uint32(docs[0].ID.Line()), uint32(docs[len(docs)-1].ID.Line())) {
		if at, ok := slices.BinarySearchFunc(docs, u.Line, func(doc job.Job, line int) int { return doc.ID.Line() - line }); ok {
			docs[at].UniqueKey = u.Key
		}
	}
}

// addDetails adds all details of lines. claims has the claim of each.
func addDetails(v lsm.View, b *row.Batch, docs []job.Job, claims []uint64) {
	first, last := uint32(docs[0].ID.Line()), uint32(docs[len(docs)-1].ID.Line())
	for i := range docs { // an earlier read may have met damage after it added some details
		docs[i].Attempts, docs[i].Steps = nil, nil
	}
	at, oldest := 0, 0 // oldest is the slot of the oldest step, if the line's ring is full
	v.Scan(row.DetailKey(b.Seq, first, 0), row.DetailKey(b.Seq, last+1, 0), func(key string, value []byte) bool {
		line := row.LineOfKey(key)
		for at < len(docs) && uint32(docs[at].ID.Line()) < line {
			at++
		}
		if at == len(docs) {
			return false
		}
		doc := &docs[at]
		if uint32(doc.ID.Line()) != line {
			return true
		}
		switch row.KindOfDetail(key) {
		case row.HistoryDetail: // oldest first
			doc.Attempts = append(doc.Attempts, row.DecodeAttempt(value))
			if doc.Code != job.OK {
				doc.Error = doc.Attempts[len(doc.Attempts)-1].Error
			}
		case row.ResultDetail:
			if claim, result := row.DecodeResult(value); claims[at] != 0 && claim == claims[at] {
				doc.Result = result
			}
		case row.ProgressDetail:
			p := row.DecodeProgress(value)
			if claims[at] != 0 && p.Claim == claims[at] {
				doc.Step, doc.Progress = p.Step, p.Progress
			}
			oldest = int(p.Steps % job.MaxSteps)
		case row.StepDetail: // in the order of the slots; a full ring begins at its oldest step
			doc.Steps = append(doc.Steps, row.DecodeStep(value))
			if len(doc.Steps) == job.MaxSteps {
				doc.Steps = slices.Concat(doc.Steps[oldest:], doc.Steps[:oldest])
			}
		}
		return true
	})
}

// addBrief adds only the details that the next runner of a line needs: the newest attempt with the beginning of its
// error, and step and progress. It reads no other details, because a job may have megabytes of history, and jobs that a
// claim holds have no output yet.
func addBrief(v lsm.View, b *row.Batch, docs []job.Job, claims []uint64) {
	for i := range docs {
		doc := &docs[i]
		line := uint32(doc.ID.Line())
		if value := v.Newest(row.DetailKey(b.Seq, line, row.HistoryDetail)); value != nil {
			newest := row.DecodeAttemptBrief(value, MaxHandedError)
			doc.Attempts, doc.Error = []job.Attempt{newest}, newest.Error
		}
		if claims[i] == 0 {
			continue
		}
		if value := v.Get(row.DetailKey(b.Seq, line, row.ProgressDetail)); value != nil {
			if p := row.DecodeProgress(value); p.Claim == claims[i] {
				doc.Step, doc.Progress = p.Step, p.Progress
			}
		}
	}
}

// MaxHandedError bounds the error text that a runner gets with a job.
const MaxHandedError = 1 << 10
