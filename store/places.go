package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
)

// position is the place of a line among all lines. A span has the position of its last line.
type position struct {
	seq  uint64 // of the batch
	line uint32
}

func comparePositions(a, b position) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.line, b.line))
}

// laneID names one of the lanes of a queue.
type laneID struct {
	priority uint32
	class    job.Class
}

// Run is a range of consecutive lines of one batch, both ends included.
type Run struct {
	Batch       uint64 // the seq of the batch's create
	First, Last uint32
}

// Lines returns the number of lines in r.
func (r Run) Lines() int { return int(r.Last-r.First) + 1 }

// queueName is the name of a queue.
type queueName struct{ client, typ string }

// filesetName identifies a fileset.
type filesetName struct{ client, name string }

// lineSet is a set of lines, in order.
type lineSet []position

func (l lineSet) sorted() lineSet {
	slices.SortFunc(l, comparePositions)
	return slices.Compact(l)
}

// within returns the lines of l that are in r.
func (l lineSet) within(r Run) lineSet {
	first, _ := slices.BinarySearchFunc(l, position{r.Batch, r.First}, comparePositions)
	end, _ := slices.BinarySearchFunc(l, position{r.Batch, r.Last + 1}, comparePositions)
	return l[first:end]
}

// without calls visit with the ranges of r between the lines of l.
func (l lineSet) without(r Run, visit func(r Run)) {
	first := r.First
	for _, at := range l.within(r) {
		if first < at.line {
			visit(Run{r.Batch, first, at.line - 1})
		}
		first = at.line + 1
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
