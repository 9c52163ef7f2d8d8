package sim

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// recentCreates is how many of the newest creates completeUnclaimed picks from. Most jobs of older creates have ended.
const recentCreates = 8

// completeUnclaimed ends runs of jobs that the caller has not claimed. Most of these jobs wait; some are held by a claim.
func (u *user) completeUnclaimed() {
	c := job.Complete{Unclaimed: true}
	for _, id := range u.someOfACreate() {
		o := u.outcome(id)
		for o.Code == job.Unget {
			o = u.outcome(id)
		}
		c.Outcomes = append(c.Outcomes, o)
	}
	if len(c.Outcomes) == 0 {
		return
	}
	answer, receipt, err := send(u, u.s.engine.Complete, c)
	u.unexpected("complete of unclaimed jobs", err)
	u.s.log("somebody completes %d jobs unclaimed: %v, %v, %v", len(c.Outcomes), receipt, answer, err)
	if err == nil {
		u.violated(u.w.account.completed(u.key, receipt, c, answer))
	}
}

// someOfACreate returns up to three jobs of one of the newest creates that were answered.
func (u *user) someOfACreate() (ids []job.ID) {
	a := u.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.batches[fmt.Sprintf("batch-%d", u.w.posted-u.random.IntN(recentCreates))]
	if b == nil || b.result != stored || len(b.payloads) == 0 {
		return nil
	}
	first := u.random.IntN(len(b.payloads))
	for line := first; line < min(len(b.payloads), first+1+u.random.IntN(3)); line++ {
		ids = append(ids, b.job(line))
	}
	return ids
}
