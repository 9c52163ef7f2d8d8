package row

import (
	"iter"

	"github.com/daybookq/daybook/job"
)

// Handout is a range of lines as a claim handed it out. It has everything that their documents need except the
// payloads, so that the database need not be read. Code outside of Apply may read only the fixed part of the batch.
type Handout struct {
	B       *Batch
	G       *Group
	Sp      Span
	Name    QueueName
	Details bool
	Of      batchProgress
}

// batchProgress is the progress of a batch with attributes at the time when a claim handed out some of its jobs.
type batchProgress struct {
	Batch            job.ID // zero: the jobs belong to no batch
	Lines, Completed int64
}

// HasHistory reports whether the lines may have a history. A line that is claimed for the first time does not, and
// results and progress belong to other claims.
func (h *Handout) HasHistory() bool { return h.Details && (h.Sp.Attempts > 1 || h.Sp.Redrives > 0) }

// Without yields the ranges of a handout between some of its jobs.
func (h Handout) Without(aside map[job.ID]bool) iter.Seq[Handout] {
	return func(yield func(Handout) bool) {
		rest := h
		for line := h.Sp.First; line <= h.Sp.Last; line++ {
			if !aside[job.NewID(h.B.At, h.B.Seq, int(line))] {
				continue
			}
			if rest.Sp.First < line {
				before := rest
				before.Sp.Last = line - 1
				if !yield(before) {
					return
				}
			}
			rest.Sp.First = line + 1
		}
		if rest.Sp.First <= rest.Sp.Last {
			yield(rest)
		}
	}
}
