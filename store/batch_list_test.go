package store

import (
	"testing"

	"github.com/daybookq/daybook/job"
)

// TestListOfAttributedBatches: a list that can have only batches with attributes looks at no others, however many there are.
func TestListOfAttributedBatches(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, job.SetLevel{Level: job.Level})
	const plain = 50
	for i := range uint64(plain) {
		mustApply(t, s, 2+i, 0, plainCreate("a", "x", 1, 3))
	}
	paused := plainCreate("a", "x", 1, 3)
	paused.Submission = &job.Submission{Paused: true}
	mustApply(t, s, 2+plain, 0, paused)
	mustApply(t, s, 3+plain, 0, partOf(job.ID{}, 1))
	mustCommit(t, s)
	for _, c := range []struct {
		name string
		f    BatchFilter
		want uint64 // the seq of the first batch
	}{
		{"attributed", BatchFilter{Attributed: true, Client: "a", Type: "x"}, 2 + plain},
		{"attributed, in progress", BatchFilter{Attributed: true, Status: job.BatchInProgress}, 3 + plain},
		{"paused", BatchFilter{Status: job.BatchPaused}, 2 + plain},
	} {
		c.f.Limit = 1
		docs, _, err := s.batchesWithin(c.f, 4)
		if want := job.NewID(startAt, c.want, 0); err != nil || len(docs) != 1 || docs[0].ID != want {
			t.Errorf("%s: %+v, %v; want %v", c.name, docs, err, want)
		}
	}
}
