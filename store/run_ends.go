package store

import (
	"strings"
	"unicode/utf8"

	"github.com/daybookq/daybook/job"
)

// runEnds are the ends of runs that commands have applied since TakeRunEnds was last called, for an observer. Apply
// writes them and reads none. It costs nothing while nobody observes.
type runEnds struct {
	observed bool
	list     []job.RunEnd
}

// add adds the end of some runs, together with the one before if that is of the jobs before.
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

// briefError returns the beginning of an error text, in memory of its own if the text is longer: the rest need not be
// kept. It cuts where a character begins.
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
