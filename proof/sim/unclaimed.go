package sim

import (
	"fmt"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
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
	switch {
	case err == nil:
		if err := u.w.account.completed(receipt, c, answer); err != nil {
			u.w.violation(err)
		}
	case !notStored(err):
		u.w.account.unanswered(c, nil)
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

// endedUnclaimed records that a completion with Unclaimed was granted for a job that operators do not move. Perhaps no
// claim had handed out the run that it ended, so the job may have used one more attempt, and no longer waits for its
// run_at.
func (u *audit) endedUnclaimed(id job.ID) {
	u.of(id).unclaimed++
}

// maySkipRunAt reports whether a completion with Unclaimed may have ended a run of a job before its run_at.
func (u *audit) maySkipRunAt(id job.ID) bool {
	return u.of(id).unclaimed > 0 || u.mayHaveEndedUnder(id, job.ID{})
}

// refusedUnclaimed checks that the server was right to refuse a completion with Unclaimed for a job that operators do not
// move: the job had ended.
func (u *audit) refusedUnclaimed(r ingest.Receipt, result applied.JobResult) error {
	b := u.a.batchOf(result.ID)
	if b == nil {
		return nil
	}
	l, line := u.of(result.ID), b.line(result.ID)
	switch result.Refusal {
	case job.NotActive:
		if l.status.Terminal() || u.mayHaveEnded(result.ID) || u.attemptsMayBeUsed(l, b.groups[line]) {
			return nil
		}
	case job.NotFound:
		if u.mayBePurged(b, line, r.At) {
			return nil
		}
	}
	return fmt.Errorf("an unclaimed completion of job %v is refused with %q, and nobody has ended the job", result.ID, result.Refusal.Code())
}

// attemptsMayBeUsed reports whether a job may have used all its attempts, so that it failed when its last lease ended.
func (u *audit) attemptsMayBeUsed(l *jobRecord, g *job.Group) bool {
	return g.MaxAttempts <= l.attempts+l.unclaimed+u.a.lostClaims
}

// endedUnclaimedMoved checks that the server was right to grant a completion with Unclaimed for a job that operators
// move.
func (u *audit) endedUnclaimedMoved(r ingest.Receipt, id job.ID) error {
	u.movedOf(id).notBefore = 0
	b := u.a.batchOf(id)
	if b == nil {
		return nil
	}
	g := b.groups[b.line(id)]
	doc := job.Job{ID: id, Batch: id.WithLine(0), Client: g.Client, Type: g.Type}
	if o, is := u.lastingEnd(&doc, r.Seq); is {
		return fmt.Errorf("job %v is ended without a claim after it was answered as %v at %d", id, o.status, o.from)
	}
	return nil
}
