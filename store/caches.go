package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// caches hold rows that Apply has read or written lately, by key. Apply's decisions never depend on their contents.
// Spans and hints are written through. For all other rows, the commit writes the changes, from the machine's list of
// dirty rows.
type caches struct {
	batches     lsm.Recent[uint64, *batch]
	groups      lsm.Recent[groupPageName, *groupPage]
	claims      lsm.Recent[uint64, *claim]
	submissions lsm.Recent[uint64, *submission]
	runners     lsm.Recent[string, *runner]
	spans       lsm.RecentOrdered[cachedSpan]
	sessions    lsm.Recent[uint64, *session]
	slots       lsm.Recent[slotName, *slot]
	cells       lsm.Recent[string, *cell]
	hints       lsm.Recent[string, *hintRow]
}

type cachedSpan struct {
	seq uint64 // of the batch
	span
}

// hintRow is the row of a unique key; nil: there is none.
type hintRow struct{ value []byte }

// hintBytes is about the memory that a hint takes in the cache, with its key of up to job.MaxKeyBytes.
const hintBytes = 150 + job.MaxKeyBytes

func newCaches() caches {
	return caches{
		batches:     lsm.NewRecent[uint64]((*batch).size),
		groups:      lsm.NewRecent[groupPageName]((*groupPage).size),
		claims:      lsm.NewRecent[uint64]((*claim).size),
		submissions: lsm.NewRecent[uint64]((*submission).size),
		runners:     lsm.NewRecent[string]((*runner).size),
		spans: lsm.NewRecentOrdered(func(a, b cachedSpan) bool { return a.seq < b.seq || a.seq == b.seq && a.last < b.last },
			func(cachedSpan) int { return cachedSpanBytes }),
		sessions: lsm.NewRecent[uint64]((*session).size),
		slots:    lsm.NewRecent[slotName]((*slot).size),
		cells:    lsm.NewRecent[string]((*cell).size),
		hints:    lsm.NewRecent[string](func(*hintRow) int { return hintBytes }),
	}
}

// full reports whether trim would end a generation.
func (c *caches) full(b *bounds) bool {
	return c.spans.Full(b.spanBytes) || c.batches.Full(b.batchBytes) || c.groups.Full(b.batchBytes) || c.claims.Full(b.rowBytes) ||
		c.submissions.Full(b.rowBytes) || c.runners.Full(b.rowBytes) || c.cells.Full(b.rowBytes) || c.sessions.Full(b.rowBytes) ||
		c.hints.Full(b.rowBytes) || c.slots.Full(b.slotBytes)
}

// trim ends the generations of caches that are full. It may be called only after a commit.
func (c *caches) trim(b *bounds) {
	c.spans.Trim(b.spanBytes)
	c.batches.Trim(b.batchBytes)
	c.groups.Trim(b.batchBytes)
	c.claims.Trim(b.rowBytes)
	c.submissions.Trim(b.rowBytes)
	c.runners.Trim(b.rowBytes)
	c.cells.Trim(b.rowBytes)
	c.sessions.Trim(b.rowBytes)
	c.hints.Trim(b.rowBytes)
	c.slots.Trim(b.slotBytes)
}

// sharedWindows are the windows of all queues, and of timers and sessions.
type sharedWindows struct {
	lsm.Windows
	// shrunk is the last queue whose windows were shrunk since the windows became full.
	shrunk queueName
}
