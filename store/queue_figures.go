package store

import (
	"github.com/daybookq/daybook/store/lsm"
)

// QueueFigures returns the figures of the queues that are counted by themselves, and then those of all others together;
// none without ObserveQueues. now is the time, in unix ms, by which the figures of queues that were deleted long ago end.
// It does not wait for Apply. The counts may be ahead of what other queries see, by the commands that are not committed.
func (q *Queries) QueueFigures(now int64) []QueueFigures {
	all := q.tally.figures(now)
	if len(all) > 0 {
		q.findPendingSince(all[:len(all)-1])
	}
	return all
}

// QueueRows returns how many QueueFigures returns, at once.
func (q *Queries) QueueRows() int {
	q.tally.mu.Lock()
	defer q.tally.mu.Unlock()
	if q.tally.byName == nil {
		return 0
	}
	return len(q.tally.rows) + 1
}

// findPendingSince sets PendingSince. It is unknown if the rows cannot be read.
func (q *Queries) findPendingSince(of []QueueFigures) {
	for i := range of {
		of[i].PendingSince = -1
	}
	var err error
	func() {
		defer lsm.Catch(&err)
		v := q.db.View()
		defer v.Close()
		for i := range of {
			of[i].PendingSince = oldestPending(v, of[i].floors)
		}
	}()
}

// oldestPending returns when the first span of a lane became pending, of the lane in which that is longest ago; 0 if none
// is pending. The floors of the lanes are what keeps a scan from passing the tombstones of what was claimed before.
func oldestPending(v lsm.View, floors []string) (since int64) {
	for _, floor := range floors {
		if floor == "" {
			continue
		}
		lane := floor[:laneKeyBytes]
		var end position
		found := false
		v.Scan(floor, lsm.After(lane), func(key string, _ []byte) bool {
			_, _, end = splitReadyKey(key)
			found = true
			return false
		})
		if !found {
			continue
		}
		if sp, ok := readSpan(v, end.seq, end.line); ok && (since == 0 || sp.UpdatedAt < since) {
			since = sp.UpdatedAt
		}
	}
	return since
}
