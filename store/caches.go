package store

import "github.com/daybookq/daybook/store/lsm"

// caches hold rows that Apply has read or written lately, by key. What Apply decides never depends on what they hold.
// Spans and hints are written through. Changes of the others are written by the commit, from the machine's list of
// dirty rows.
type caches struct {
	batches     lsm.Recent[uint64, *batch]
	claims      lsm.Recent[uint64, *claim]
	submissions lsm.Recent[uint64, *submission]
	runners     lsm.Recent[string, *runner]
	spans       lsm.RecentOrdered[cachedSpan]
	sessions    lsm.Recent[uint64, *session]
	slots       lsm.Recent[slotName, *slot]
	cells       lsm.Recent[string, *cell]
	hints       lsm.Recent[string, *hintRow]
	// slotBytes is about what the younger generation of slots takes.
	slotBytes int
}

type cachedSpan struct {
	seq uint64 // of the batch
	span
}

// hintRow is the row of a unique key; nil: there is none.
type hintRow struct{ value []byte }

func newCaches() caches {
	return caches{
		batches:     lsm.NewRecent[uint64, *batch](),
		claims:      lsm.NewRecent[uint64, *claim](),
		submissions: lsm.NewRecent[uint64, *submission](),
		runners:     lsm.NewRecent[string, *runner](),
		spans:       lsm.NewRecentOrdered(func(a, b cachedSpan) bool { return a.seq < b.seq || a.seq == b.seq && a.last < b.last }),
		sessions:    lsm.NewRecent[uint64, *session](),
		slots:       lsm.NewRecent[slotName, *slot](),
		cells:       lsm.NewRecent[string, *cell](),
		hints:       lsm.NewRecent[string, *hintRow](),
	}
}

// trim ends the generations of caches that are full. It may be called after a commit only.
func (c *caches) trim(b *bounds) {
	c.spans.Trim(b.cachedSpans)
	c.batches.Trim(b.cachedBatches)
	c.claims.Trim(b.cachedClaims)
	c.submissions.Trim(b.cachedClaims)
	c.runners.Trim(b.cachedClaims)
	c.cells.Trim(b.cachedClaims)
	c.sessions.Trim(b.cachedClaims)
	c.hints.Trim(b.cachedClaims)
	if c.slotBytes > b.cachedSlotBytes/2 {
		c.slots.Age()
		c.slotBytes = 0
	}
}

// sharedWindows are the windows of all queues, and of timers and sessions.
type sharedWindows struct {
	lsm.Windows
	// shrunk is the last queue whose windows were shrunk since they were full.
	shrunk queueName
}
