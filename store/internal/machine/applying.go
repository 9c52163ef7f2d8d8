package machine

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Applying is one command while it is applied. It lives from begin to end; only the memory of its lists is reused.
type Applying struct {
	*Machine
	Now job.Now
	By  *job.Actor // who sent the command
	Due int64      // of a tick: things due by then happen
	// Lists that end goes through.
	moved    []*memory.Queue   // queues whose heads may have changed
	resized  []*row.Cell       // cells that may have too many spans, or too few
	settling []*row.Claim      // claims that may hold no job any more, or that no line may name
	counted  []*row.Submission // submissions whose counts have changed
	RestRows int               // how many more rows the first steps over the jobs of submissions may write
	// BesideRows is how many rows the command has looked at besides the spans that it moved: details, unique keys,
	// pages, and other spans of their pages.
	BesideRows int
	// PointDeletes is how many more details may be deleted one by one.
	PointDeletes int
	effects      []row.Effect
	listed       []uint64   // of effects: see row.Listed
	cause        row.Cause  // of effects
	sweeping     uint64     // the sweep that moves jobs now; 0: none
	own          *row.Claim // of a completion: the claim of the jobs that it ended without a claim; nil: there are none
	chain        chain      // the jobs that a completion creates
}

// queueMoved makes end look at the head and the lanes of a queue.
func (a *Applying) queueMoved(q *memory.Queue) {
	q.Misplaced = true
	if !q.Moved {
		q.Moved = true
		a.moved = append(a.moved, q)
	}
}

// touchClaim records that the state of a claim has changed.
func (a *Applying) touchClaim(c *row.Claim) {
	if c.Seq != a.Now.Seq {
		c.Changed = true
	}
	a.Touch(&c.Dirty, c)
}

// gained records that a queue has more jobs to hand out.
func (m *Machine) gained(q *memory.Queue) {
	if !q.Readied {
		q.Readied = true
		m.Readied = append(m.Readied, q)
	}
}
