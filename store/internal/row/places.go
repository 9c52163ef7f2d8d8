package row

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
)

// Position is the place of a line among all lines. A span has the position of its last line.
type Position struct {
	Seq  uint64 // of the batch
	Line uint32
}

func ComparePositions(a, b Position) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Line, b.Line))
}

// LaneID names one of the lanes of a queue.
type LaneID struct {
	Priority uint32
	Class    job.Class
}

// Run is a range of consecutive lines of one batch, both ends included.
type Run struct {
	Batch       uint64 // the seq of the batch's create
	First, Last uint32
}

// Lines returns the number of lines in r.
func (r Run) Lines() int { return int(r.Last-r.First) + 1 }

// QueueName is the name of a queue.
type QueueName struct{ Client, Typ string }

// LineSet is a set of lines, in order.
type LineSet []Position

func (l LineSet) Sorted() LineSet {
	slices.SortFunc(l, ComparePositions)
	return slices.Compact(l)
}

// Within returns the lines of l that are in r.
func (l LineSet) Within(r Run) LineSet {
	first, _ := slices.BinarySearchFunc(l, Position{r.Batch, r.First}, ComparePositions)
	end, _ := slices.BinarySearchFunc(l, Position{r.Batch, r.Last + 1}, ComparePositions)
	return l[first:end]
}

// Without calls visit with the ranges of r between the lines of l.
func (l LineSet) Without(r Run, visit func(r Run)) {
	first := r.First
	for _, at := range l.Within(r) {
		if first < at.Line {
			visit(Run{r.Batch, first, at.Line - 1})
		}
		first = at.Line + 1
	}
	if first <= r.Last {
		visit(Run{r.Batch, first, r.Last})
	}
}

// Priorities is a set of priorities.
type Priorities uint16

// With returns the set with another priority.
func (p Priorities) With(priority int) Priorities { return p | 1<<priority }

// Has reports whether the set has a priority.
func (p Priorities) Has(priority int) bool { return p&(1<<priority) != 0 }
