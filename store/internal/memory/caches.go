package memory

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Caches hold rows that Apply has read or written lately, by key. Apply's decisions never depend on their contents.
// Spans and hints are written through. For all other rows, the commit writes the changes, from the machine's list of
// dirty rows.
type Caches struct {
	Batches     lsm.Recent[uint64, *row.Batch]
	Groups      lsm.Recent[row.GroupPageName, *row.GroupPage]
	Claims      lsm.Recent[uint64, *row.Claim]
	Submissions lsm.Recent[uint64, *row.Submission]
	Runners     lsm.Recent[string, *row.Runner]
	Spans       lsm.RecentOrdered[CachedSpan]
	Sessions    lsm.Recent[uint64, *row.Session]
	Slots       lsm.Recent[row.SlotName, *row.Slot]
	Cells       lsm.Recent[string, *row.Cell]
	Hints       lsm.Recent[string, *HintRow]
}

type CachedSpan struct {
	Seq uint64 // of the batch
	row.Span
}

// HintRow is the row of a unique key; nil: there is none.
type HintRow struct{ Value []byte }

// HintBytes is about the memory that a hint takes in the cache, with its key of up to job.MaxKeyBytes.
const HintBytes = 150 + job.MaxKeyBytes

func NewCaches() Caches {
	return Caches{
		Batches:     lsm.NewRecent[uint64]((*row.Batch).Size),
		Groups:      lsm.NewRecent[row.GroupPageName]((*row.GroupPage).Size),
		Claims:      lsm.NewRecent[uint64]((*row.Claim).Size),
		Submissions: lsm.NewRecent[uint64]((*row.Submission).Size),
		Runners:     lsm.NewRecent[string]((*row.Runner).Size),
		Spans: lsm.NewRecentOrdered(func(a, b CachedSpan) bool { return a.Seq < b.Seq || a.Seq == b.Seq && a.Last < b.Last },
			func(CachedSpan) int { return CachedSpanBytes }),
		Sessions: lsm.NewRecent[uint64]((*row.Session).Size),
		Slots:    lsm.NewRecent[row.SlotName]((*row.Slot).Size),
		Cells:    lsm.NewRecent[string]((*row.Cell).Size),
		Hints:    lsm.NewRecent[string](func(*HintRow) int { return HintBytes }),
	}
}

// Full reports whether trim would end a generation.
func (c *Caches) Full(b *Bounds) bool {
	return c.Spans.Full(b.SpanBytes) || c.Batches.Full(b.BatchBytes) || c.Groups.Full(b.BatchBytes) || c.Claims.Full(b.RowBytes) ||
		c.Submissions.Full(b.RowBytes) || c.Runners.Full(b.RowBytes) || c.Cells.Full(b.RowBytes) || c.Sessions.Full(b.RowBytes) ||
		c.Hints.Full(b.RowBytes) || c.Slots.Full(b.SlotBytes)
}

// Trim ends the generations of caches that are full. It may be called only after a commit.
func (c *Caches) Trim(b *Bounds) {
	c.Spans.Trim(b.SpanBytes)
	c.Batches.Trim(b.BatchBytes)
	c.Groups.Trim(b.BatchBytes)
	c.Claims.Trim(b.RowBytes)
	c.Submissions.Trim(b.RowBytes)
	c.Runners.Trim(b.RowBytes)
	c.Cells.Trim(b.RowBytes)
	c.Sessions.Trim(b.RowBytes)
	c.Hints.Trim(b.RowBytes)
	c.Slots.Trim(b.SlotBytes)
}

// SharedWindows are the windows of all queues, and of timers and sessions.
type SharedWindows struct {
	lsm.Windows
	// shrunk is the last queue whose windows were shrunk since the windows became full.
	Shrunk row.QueueName
}
