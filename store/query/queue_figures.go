package query

import (
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// QueueFigures returns the figures of each queue that is counted separately, and then the figures of all other queues
// together. It returns none without ObserveQueues. now is the time in unix ms; the figures of queues that were deleted
// long before it are dropped. QueueFigures does not wait for Apply. The counts may include uncommitted commands that
// other queries do not show yet.
func (q *Queries) QueueFigures(now int64) []memory.QueueFigures {
	all := q.live.Tally.Figures(now)
	if len(all) > 0 {
		q.findPendingSince(all[:len(all)-1])
	}
	return all
}

// QueueRows returns the present number of figures that QueueFigures returns.
func (q *Queries) QueueRows() int {
	q.live.Tally.Mu.Lock()
	defer q.live.Tally.Mu.Unlock()
	if q.live.Tally.ByName == nil {
		return 0
	}
	return len(q.live.Tally.Rows) + 1
}

// findPendingSince sets PendingSince, which stays unknown if the rows cannot be read.
func (q *Queries) findPendingSince(of []memory.QueueFigures) {
	for i := range of {
		of[i].PendingSince = -1
	}
	var err error
	func() {
		defer lsm.Catch(&err)
		v := q.db.View()
		defer v.Close()
		for i := range of {
			of[i].PendingSince = oldestPending(v, of[i].Floors)
		}
	}()
}

// oldestPending looks at the first span of each lane. It returns when the oldest of them became pending, or 0 if no
// span is pending. The floors of the lanes let the scan begin after the tombstones of spans that were claimed before.
func oldestPending(v lsm.View, floors []string) (since int64) {
	for _, floor := range floors {
		if floor == "" {
			continue
		}
		lane := floor[:row.LaneKeyBytes]
		var end row.Position
		found := false
		v.Scan(floor, lsm.After(lane), func(key string, _ []byte) bool {
			_, _, end = row.SplitReadyKey(key)
			found = true
			return false
		})
		if !found {
			continue
		}
		if sp, ok := row.ReadSpan(v, end.Seq, end.Line); ok && (since == 0 || sp.UpdatedAt < since) {
			since = sp.UpdatedAt
		}
	}
	return since
}
