package store

import (
	"strings"
	"unicode/utf8"

	"github.com/daybookq/daybook/job"
)

// runEnds are the ends of runs in the commands applied since TakeRunEnds was last called, for an observer. Apply writes
// them but never reads them. They cost nothing while no observer is set.
type runEnds struct {
	observed bool
	list     []job.RunEnd
}

// add adds the end of some runs. It merges it with the previous end if that is of the jobs just before.
func (r *runEnds) add(e *job.RunEnd) {
	if last := len(r.list) - 1; last >= 0 && r.list[last].Extend(e) {
		return
	}
	r.list = append(r.list, *e)
}

// batchEnds are the batches that have ended since TakeBatchEnds was last called, for an observer, like runEnds.
type batchEnds struct {
	observed bool
	list     []job.BatchEnd
}

func (b *batchEnds) add(s *submission) {
	if b.observed {
		b.list = append(b.list, job.BatchEnd{
			ID: s.id(), Client: s.client, Type: s.typ, Status: s.status, CreatedAt: s.at, EndedAt: s.endedAt, Unfinished: s.unfinished(),
		})
	}
}

func (b *batchEnds) take() []job.BatchEnd {
	list := b.list
	b.list = nil
	return list
}

// maxRunEndsKept bounds the memory that is kept for the next ends.
const maxRunEndsKept = 1000

// take returns the list, which is valid until add is called again.
func (r *runEnds) take() []job.RunEnd {
	list := r.list
	if r.list = list[:0]; cap(list) > maxRunEndsKept {
		r.list = nil
	}
	return list
}

// briefError returns the beginning of an error text, cut where a character begins. If the text is longer, the beginning
// is a copy, so that the rest is not kept in memory.
func briefError(text string) string {
	if len(text) <= job.MaxRunEndError {
		return text
	}
	end := job.MaxRunEndError
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}
