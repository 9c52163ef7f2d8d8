package memory

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// An id has the low bits of a seq, and the time of the seq's command. Rows are keyed by the whole seq. An epoch is a
// range of seqs that have the same high bits. The store records the time at which each epoch began. Since time never
// goes back, the time in an id determines the epoch of its command. Only commands of the millisecond in which an epoch
// began may be in that epoch or in the one before.

// candidates are one or two seqs. They are kept off the heap, because each job that a command names is looked up.
type candidates struct {
	Seqs [2]uint64
	n    int
}

func (c *candidates) All() []uint64 { return c.Seqs[:c.n] }

// RowOf returns the row, among the candidates' rows, that has the id, or nil. row reads the row of a seq.
func RowOf[R interface {
	comparable
	Id() job.ID
}](c candidates, id job.ID, row func(seq uint64) R) R {
	var none R
	for _, seq := range c.All() {
		if r := row(seq); r != none && r.Id() == id {
			return r
		}
	}
	return none
}

// SeqsIn returns the seqs that the command of an id may have, the likeliest first. There is one. If the id has the
// time at which an epoch began, there are two. The caller compares the whole id with the row of each. Two epochs are
// enough, because 2^40 commands do not fit into one millisecond.
func SeqsIn(epochs []row.Epoch, id job.ID) (c candidates) {
	at, low := id.At(), id.LowSeq()
	newest := len(epochs) - 1
	for newest >= 0 && epochs[newest].At > at {
		newest--
	}
	number := func(i int) uint64 {
		if i < 0 {
			return 0
		}
		return epochs[i].Number
	}
	c.Seqs[0], c.n = low.In(number(newest)), 1
	if newest >= 0 && epochs[newest].At == at {
		c.Seqs[1], c.n = low.In(number(newest-1)), 2
		if low.Late() { // the first commands of an epoch have low bits near 0, and the last commands of the epoch before do not
			c.Seqs[0], c.Seqs[1] = c.Seqs[1], c.Seqs[0]
		}
	}
	return c
}
