package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// addKeys adds the unique keys of jobs of a batch.
func addKeys(r lsm.Rows, b *batch, docs []job.Job) {
	for _, u := range keysOf(r, b, uint32(docs[0].ID.Line()), uint32(docs[len(docs)-1].ID.Line())) {
		if at, ok := slices.BinarySearchFunc(docs, u.Line, func(doc job.Job, line int) int { return doc.ID.Line() - line }); ok {
			docs[at].UniqueKey = u.Key
		}
	}
}

// addDetails adds all details of lines. claims has the claim of each.
func addDetails(v lsm.View, b *batch, docs []job.Job, claims []uint64) {
	first, last := uint32(docs[0].ID.Line()), uint32(docs[len(docs)-1].ID.Line())
	for i := range docs { // an earlier read may have met damage after it added some details
		docs[i].Attempts, docs[i].Steps = nil, nil
	}
	at := 0
	v.Scan(detailKey(b.seq, first, 0), detailKey(b.seq, last+1, 0), func(key string, value []byte) bool {
		line := lineOfKey(key)
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
		switch kindOfDetail(key) {
		case historyDetail: // oldest first
			doc.Attempts = append(doc.Attempts, decodeAttempt(value))
			if doc.Code != job.OK {
				doc.Error = doc.Attempts[len(doc.Attempts)-1].Error
			}
		case resultDetail:
			if claim, result := decodeResult(value); claims[at] != 0 && claim == claims[at] {
				doc.Result = result
			}
		case progressDetail:
			if claim, step, progress := decodeProgress(value); claims[at] != 0 && claim == claims[at] {
				doc.Step, doc.Progress = step, progress
			}
		case stepDetail: // oldest first
			_, step := decodeStep(value)
			doc.Steps = append(doc.Steps, step)
		}
		return true
	})
}

// addBrief adds only the details that the next runner of a line needs: the newest attempt with the beginning of its
// error, and step and progress. It reads no other details, because a job may have megabytes of history, and jobs that a
// claim holds have no output yet.
func addBrief(v lsm.View, b *batch, docs []job.Job, claims []uint64) {
	for i := range docs {
		doc := &docs[i]
		line := uint32(doc.ID.Line())
		if value := v.Newest(detailKey(b.seq, line, historyDetail)); value != nil {
			newest := decodeAttemptBrief(value, maxHandedError)
			doc.Attempts, doc.Error = []job.Attempt{newest}, newest.Error
		}
		if claims[i] == 0 {
			continue
		}
		if value := v.Get(detailKey(b.seq, line, progressDetail)); value != nil {
			if claim, step, progress := decodeProgress(value); claim == claims[i] {
				doc.Step, doc.Progress = step, progress
			}
		}
	}
}

// maxHandedError bounds the error text that a runner gets with a job.
const maxHandedError = 1 << 10
