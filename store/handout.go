package store

import (
	"iter"

	"github.com/daybookq/daybook/job"
)

// handout is a range of lines as a claim handed it out. It has everything that their documents need except the
// payloads, so that the database need not be read. Code outside of Apply may read only the fixed part of the batch.
type handout struct {
	b       *batch
	g       *group
	sp      span
	name    queueName
	details bool
	of      batchProgress
}

// batchProgress is the progress of a batch with attributes at the time when a claim handed out some of its jobs.
type batchProgress struct {
	batch            job.ID // zero: the jobs belong to no batch
	lines, completed int64
}

// hasHistory reports whether the lines may have a history. A line that is claimed for the first time does not, and
// results and progress belong to other claims.
func (h *handout) hasHistory() bool { return h.details && (h.sp.Attempts > 1 || h.sp.Redrives > 0) }

// without yields the ranges of a handout between some of its jobs.
func (h handout) without(aside map[job.ID]bool) iter.Seq[handout] {
	return func(yield func(handout) bool) {
		rest := h
		for line := h.sp.first; line <= h.sp.last; line++ {
			if !aside[job.NewID(h.b.at, h.b.seq, int(line))] {
				continue
			}
			if rest.sp.first < line {
				before := rest
				before.sp.last = line - 1
				if !yield(before) {
					return
				}
			}
			rest.sp.first = line + 1
		}
		if rest.sp.first <= rest.sp.last {
			yield(rest)
		}
	}
}
