package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// settle makes end look at a claim.
func (a *applying) settle(c *claim) {
	a.touchClaim(c)
	if !c.settling {
		c.settling = true
		a.settling = append(a.settling, c)
	}
}

// settleClaims closes claims that hold no job any more, and deletes claims that no line names.
func (a *applying) settleClaims() {
	for _, c := range a.settling {
		c.settling = false
		if c.held == 0 && !c.closed {
			c.closed = true
			a.retime(c, 0)
			a.forgetOpen(c)
			if r := a.hold(c.runner, -1, 0); r.claims == 0 {
				a.startResting(r)
			}
		}
		if c.refs == 0 {
			a.deleteNotice(c)
			a.o.Delete(seqKey(claimTable, c.seq))
			if c.changed {
				a.o.Delete(seqKey(claimStateTable, c.seq))
			}
			a.claims.Delete(c.seq)
		}
	}
	clear(a.settling)
	a.settling = a.settling[:0]
}

// openClaim writes the rows of a new claim. Its lines must already be active.
func (a *applying) openClaim(c *claim) {
	a.claims.Set(c.seq, c)
	if r := a.hold(c.runner, 1, 0); len(r.open) < a.rules.listedClaims {
		r.open = append(r.open, c.seq)
	} else {
		a.o.Set(holdKey(holdTable, c.runner, c.seq), nil)
	}
	a.retime(c, c.lease.At+c.lease.Ms)
	a.o.Set(seqKey(claimTable, c.seq), c.encode())
}

// forgetOpen removes a claim that holds no job any more from its runner's claims.
func (a *applying) forgetOpen(c *claim) {
	r := a.runner(c.runner)
	if at := slices.Index(r.open, c.seq); at >= 0 {
		r.open = slices.Delete(r.open, at, at+1)
	} else {
		a.o.Delete(holdKey(holdTable, c.runner, c.seq))
	}
}

// retime moves the claim's timer row, or deletes it if at is 0.
func (a *applying) retime(c *claim, at int64) {
	if c.timerAt == at {
		return
	}
	if c.timerAt != 0 {
		a.deleteTimer(timerKey(c.timerAt, claimTimer, c.seq, 0, 0))
	}
	if c.timerAt = at; at != 0 {
		a.setTimer(timerKey(at, claimTimer, c.seq, 0, 0))
	}
	a.touchClaim(c)
}

// deadline returns when the jobs that a claim holds under a lease count as abandoned.
func (a *applying) deadline(c *claim, l job.Lease) int64 {
	return l.Deadline(&a.runner(c.runner).promise, a.meta.graceAt)
}

// renew gives all jobs of the claim a full lease from now. If leaseMs is 0, each lease keeps its length. A timer row
// may be early, so it moves only if the deadline is now earlier: a tickle usually writes one row.
func (a *applying) renew(c *claim, leaseMs int64) {
	promised := a.runner(c.runner).promise.Seq > c.lease.Seq
	c.lease.Seq, c.lease.At = a.now.Seq, a.now.At
	switch {
	case leaseMs > 0:
		c.lease.Ms = leaseMs
		if c.jobLeases > 0 {
			a.deleteJobLeases(c, jobLeaseKey(c.seq, 0, 0), lsm.After(seqKey(jobLeaseTable, c.seq)))
		}
	case promised && c.jobLeases > 0:
		a.endPromise(c)
	}
	if due := c.lease.At + c.lease.Ms; c.timerAt == 0 || due < c.timerAt {
		a.retime(c, due)
	}
	a.touchClaim(c)
}

// renewJob gives one of several jobs of the claim its own lease.
func (a *applying) renewJob(c *claim, at position, leaseMs int64) {
	key := jobLeaseKey(c.seq, at.seq, at.line)
	o := jobLease{lease: c.lease}
	if value := a.o.Get(key); value != nil {
		o = decodeJobLease(value)
	} else {
		c.jobLeases++
		a.touchClaim(c)
	}
	if leaseMs > 0 {
		o.lease.Ms = leaseMs
	}
	o.lease.Seq, o.lease.At = a.now.Seq, a.now.At
	if due := o.lease.At + o.lease.Ms; o.timerAt == 0 || due < o.timerAt {
		a.retimeJob(c, &o, at, due)
	}
	a.o.Set(key, o.encode())
}

// endPromise moves the timer rows of leases of single jobs back from the end of a promise. The tickle of their claim
// has ended the promise.
func (a *applying) endPromise(c *claim) {
	type entry struct {
		key string
		jobLease
	}
	var late []entry
	a.o.Scan(jobLeaseKey(c.seq, 0, 0), lsm.After(seqKey(jobLeaseTable, c.seq)), func(key string, value []byte) bool {
		if o := decodeJobLease(value); o.timerAt > a.deadline(c, o.lease.Under(c.lease)) {
			late = append(late, entry{key, o})
		}
		return true
	})
	for _, r := range late {
		_, seq, line := splitJobLeaseKey(r.key)
		a.retimeJob(c, &r.jobLease, position{seq, line}, a.deadline(c, r.lease.Under(c.lease)))
		a.o.Set(r.key, r.encode())
	}
}

// retimeJob moves the timer row of a job's own lease.
func (a *applying) retimeJob(c *claim, o *jobLease, of position, at int64) {
	if o.timerAt != 0 {
		a.deleteTimer(timerKey(o.timerAt, jobLeaseTimer, c.seq, of.seq, of.line))
	}
	o.timerAt = at
	a.setTimer(timerKey(at, jobLeaseTimer, c.seq, of.seq, of.line))
}

// deleteJobLeases deletes the leases of single jobs whose keys are in from … to (exclusive).
func (a *applying) deleteJobLeases(c *claim, from, to string) {
	type entry struct {
		key string
		jobLease
	}
	var rows []entry
	a.o.Scan(from, to, func(key string, value []byte) bool {
		rows = append(rows, entry{key, decodeJobLease(value)})
		return true
	})
	for _, r := range rows {
		_, seq, line := splitJobLeaseKey(r.key)
		a.o.Delete(r.key)
		a.deleteTimer(timerKey(r.timerAt, jobLeaseTimer, c.seq, seq, line))
		c.jobLeases--
	}
}

// unhold records that lines are no longer active under a claim.
func (a *applying) unhold(claimSeq uint64, r Run) {
	c := a.claim(claimSeq)
	c.held -= r.Lines()
	a.hold(c.runner, 0, -r.Lines())
	if c.jobLeases > 0 {
		a.deleteJobLeases(c, jobLeaseKey(c.seq, r.Batch, r.First), lsm.After(jobLeaseKey(c.seq, r.Batch, r.Last)))
	}
	a.settle(c)
}

// hold changes the number of claims and of jobs that a runner holds.
func (a *applying) hold(name string, claims, jobs int) *runner {
	r := a.runner(name)
	r.claims += claims
	r.held += jobs
	if r.claims > 0 {
		r.idleSince = 0
	}
	a.touch(&r.dirty, r)
	return r
}

// runnerIdleMs is how long the row of a runner stays after its last job. Invariant: it is part of the level, because it
// decides which rows exist.
const runnerIdleMs = 60_000

// startResting forgets the tickles of a runner that holds no job any more. Its row is deleted later, unless the runner
// claims again. An existing timer row stays where it is, since it may be early.
func (a *applying) startResting(r *runner) {
	r.tickledAt, r.promise = 0, job.Promise{}
	r.idleSince = a.now.At
	if r.timerAt == 0 {
		r.timerAt = a.now.At + runnerIdleMs
		a.setTimer(runnerTimerKey(r.timerAt, r.name))
	}
}

// endResting deletes the row of a runner that has held no job for a while. Otherwise it moves the runner's timer.
func (a *applying) endResting(name string) {
	r := a.runner(name)
	a.deleteTimer(runnerTimerKey(r.timerAt, name))
	r.timerAt = 0
	switch end := r.idleSince + runnerIdleMs; {
	case r.claims > 0: // the timer is set when the runner rests again
	case end > a.due:
		r.timerAt = end
		a.setTimer(runnerTimerKey(end, name))
	default:
		a.o.Delete(runnerKey(runnerTable, name))
		r.gone = true
		a.runners.Delete(name)
		return
	}
	a.touch(&r.dirty, r)
}
