package store

import (
	"errors"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// partOf is a create of n lines that opens a submission or, if into is not zero, adds a part to one.
func partOf(into job.ID, n int) *job.Create {
	c := plainCreate("a", "x", n, 3)
	if c.Into = into; into.IsZero() {
		c.Submission = &job.Submission{Open: true}
	}
	return c
}

// TestLinesOfBatches: a job of any part of a submission has a line, the line has that job, and lines beyond all parts
// are refused.
func TestLinesOfBatches(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, job.SetLevel{Level: job.Level})
	mustApply(t, s, 2, 0, plainCreate("a", "x", 3, 3))
	mustApply(t, s, 3, 0, partOf(job.ID{}, 5))
	batch := job.NewID(startAt, 3, 0)
	mustApply(t, s, 4, 1, partOf(batch, 2))
	mustApply(t, s, 5, 1, partOf(batch, 4))
	mustCommit(t, s)
	first := []job.ID{batch, job.NewID(startAt+1, 4, 0), job.NewID(startAt+1, 5, 0)}
	line := int64(0)
	same := func(part, of int) {
		t.Helper()
		id := first[part].WithLine(of)
		if of, got, err := s.LineOf(id); err != nil || of != batch || got != line {
			t.Errorf("job %v is line %d of %v: %v", id, got, of, err)
		}
		if got, err := s.JobOf(batch, line); err != nil || got != id {
			t.Errorf("line %d is job %v: %v", line, got, err)
		}
		line++
	}
	for part, lines := range []int{5, 2, 4} {
		for of := range lines {
			same(part, of)
		}
	}
	for _, id := range []job.ID{{}, job.NewID(startAt, 2, 1), batch.WithLine(5), first[1].WithLine(2), job.NewID(startAt, 4, 0), job.NewID(startAt, 9, 0)} {
		if of, line, err := s.LineOf(id); !errors.Is(err, job.NotFound) {
			t.Errorf("job %v is line %d of %v: %v", id, line, of, err)
		}
	}
	for _, line := range []int64{-1, 11, 1 << 62} {
		if id, err := s.JobOf(batch, line); !errors.Is(err, job.NotFound) {
			t.Errorf("line %d is job %v: %v", line, id, err)
		}
	}
	for _, id := range []job.ID{{}, job.NewID(startAt, 2, 0), first[1], batch.WithLine(1), job.NewID(startAt+1, 3, 0)} {
		if got, err := s.JobOf(id, 0); !errors.Is(err, job.BatchNotFound) {
			t.Errorf("line 0 of %v is job %v: %v", id, got, err)
		}
	}
	t.Run("purged part", func(t *testing.T) {
		for _, line := range []int{0, 1} {
			mustApply(t, s, uint64(6+line), 2, job.Move{Op: job.Delete, Job: first[1].WithLine(line)})
		}
		mustCommit(t, s)
		testkit.Fails(s.JobOf(batch, 5))(t, job.NotFound)
		testkit.Fails2(s.LineOf(first[1]))(t, job.NotFound) // a job of a purged part
		line = 7
		same(2, 0)
	})
}
