package memory

import (
	"strings"
	"unicode/utf8"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// RunEnds are the ends of runs in the commands applied since TakeRunEnds was last called, for an observer. Apply writes
// them but never reads them. They cost nothing while no observer is set.
type RunEnds struct {
	Observed bool
	list     []job.RunEnd
}

// Add adds the end of some runs. It merges it with the previous end if that is of the jobs just before.
func (r *RunEnds) Add(e *job.RunEnd) {
	if last := len(r.list) - 1; last >= 0 && r.list[last].Extend(e) {
		return
	}
	r.list = append(r.list, *e)
}

// BatchEnds are the batches that have ended since TakeBatchEnds was last called, for an observer, like RunEnds.
type BatchEnds struct {
	Observed bool
	list     []job.BatchEnd
}

func (b *BatchEnds) Add(s *row.Submission) {
	if b.Observed {
		b.list = append(b.list, job.BatchEnd{
			ID: s.Id(), Client: s.Client, Type: s.Typ, Status: s.Status, CreatedAt: s.At, EndedAt: s.EndedAt, Unfinished: s.Unfinished(),
		})
	}
}

func (b *BatchEnds) Take() []job.BatchEnd {
	list := b.list
	b.list = nil
	return list
}

// maxRunEndsKept bounds the memory that is kept for the next ends.
const maxRunEndsKept = 1000

// Take returns the list, which is valid until add is called again.
func (r *RunEnds) Take() []job.RunEnd {
	list := r.list
	if r.list = list[:0]; cap(list) > maxRunEndsKept {
		r.list = nil
	}
	return list
}

// BriefError returns the beginning of an error text, cut where a character begins. If the text is longer, the beginning
// is a copy, so that the rest is not kept in memory.
func BriefError(text string) string {
	if len(text) <= job.MaxRunEndError {
		return text
	}
	end := job.MaxRunEndError
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}
