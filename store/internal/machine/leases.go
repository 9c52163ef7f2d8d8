package machine

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Settle makes end look at a claim.
func (a *Applying) Settle(c *row.Claim) {
	a.touchClaim(c)
	if !c.Settling {
		c.Settling = true
		a.settling = append(a.settling, c)
	}
}

// settleClaims closes claims that hold no job any more, and deletes claims that no line names.
func (a *Applying) settleClaims() {
	for _, c := range a.settling {
		c.Settling = false
		if c.Held == 0 && !c.Closed {
			c.Closed = true
			a.retime(c, 0)
			a.forgetOpen(c)
			if r := a.hold(c.Runner, -1, 0); r.Claims == 0 {
				a.startResting(r)
			}
		}
		if c.Refs == 0 {
			a.deleteNotice(c)
			a.O.Delete(row.SeqKey(row.ClaimTable, c.Seq))
			if c.Changed {
				a.O.Delete(row.SeqKey(row.ClaimStateTable, c.Seq))
			}
			a.Claims.Delete(c.Seq)
		}
	}
	clear(a.settling)
	a.settling = a.settling[:0]
}

// openClaim writes the rows of a new claim. Its lines must already be active.
func (a *Applying) openClaim(c *row.Claim) {
	a.Claims.Set(c.Seq, c)
	if r := a.hold(c.Runner, 1, 0); len(r.Open) < a.Rules.ListedClaims {
		r.Open = append(r.Open, c.Seq)
	} else {
		a.O.Set(row.HoldKey(row.HoldTable, c.Runner, c.Seq), nil)
	}
	a.retime(c, c.Lease.At+c.Lease.Ms)
	a.O.Set(row.SeqKey(row.ClaimTable, c.Seq), c.Encode())
}

// forgetOpen removes a claim that holds no job any more from its runner's claims.
func (a *Applying) forgetOpen(c *row.Claim) {
	r := a.runner(c.Runner)
	if at := slices.Index(r.Open, c.Seq); at >= 0 {
		r.Open = slices.Delete(r.Open, at, at+1)
	} else {
		a.O.Delete(row.HoldKey(row.HoldTable, c.Runner, c.Seq))
	}
}

// retime moves the claim's timer row, or deletes it if at is 0.
func (a *Applying) retime(c *row.Claim, at int64) {
	if c.TimerAt == at {
		return
	}
	if c.TimerAt != 0 {
		a.DeleteTimer(row.TimerKey(c.TimerAt, row.ClaimTimer, c.Seq, 0, 0))
	}
	if c.TimerAt = at; at != 0 {
		a.SetTimer(row.TimerKey(at, row.ClaimTimer, c.Seq, 0, 0))
	}
	a.touchClaim(c)
}

// Deadline returns when the jobs that a claim holds under a lease count as abandoned. abandon.go compares it with the time.
func (a *Applying) Deadline(c *row.Claim, l job.Lease) int64 {
	return l.Deadline(&a.runner(c.Runner).Promise, a.Meta.GraceAt)
}

// renew gives all jobs of the claim a full lease from now. If leaseMs is 0, each lease keeps its length. A timer row
// may be early, so it moves only if the deadline is now earlier: a tickle usually writes one row.
func (a *Applying) renew(c *row.Claim, leaseMs int64) {
	promised := a.runner(c.Runner).Promise.Seq > c.Lease.Seq
	c.Lease.Seq, c.Lease.At = a.Now.Seq, a.Now.At
	switch {
	case leaseMs > 0:
		c.Lease.Ms = leaseMs
		if c.JobLeases > 0 {
			a.deleteJobLeases(c, row.JobLeaseKey(c.Seq, 0, 0), lsm.After(row.SeqKey(row.JobLeaseTable, c.Seq)))
		}
	case promised && c.JobLeases > 0:
		a.endPromise(c)
	}
	if due := c.Lease.At + c.Lease.Ms; c.TimerAt == 0 || due < c.TimerAt {
		a.retime(c, due)
	}
	a.touchClaim(c)
}

// renewJob gives one of several jobs of the claim its own lease.
func (a *Applying) renewJob(c *row.Claim, at row.Position, leaseMs int64) {
	key := row.JobLeaseKey(c.Seq, at.Seq, at.Line)
	o := row.JobLease{Lease: c.Lease}
	if value := a.O.Get(key); value != nil {
		o = row.DecodeJobLease(value)
	} else {
		c.JobLeases++
		a.touchClaim(c)
	}
	if leaseMs > 0 {
		o.Lease.Ms = leaseMs
	}
	o.Lease.Seq, o.Lease.At = a.Now.Seq, a.Now.At
	if due := o.Lease.At + o.Lease.Ms; o.TimerAt == 0 || due < o.TimerAt {
		a.retimeJob(c, &o, at, due)
	}
	a.O.Set(key, o.Encode())
}

// endPromise moves the timer rows of leases of single jobs back from the end of a promise. The tickle of their claim
// has ended the promise.
func (a *Applying) endPromise(c *row.Claim) {
	type entry struct {
		key string
		row.JobLease
	}
	var late []entry
	a.O.Scan(row.JobLeaseKey(c.Seq, 0, 0), lsm.After(row.SeqKey(row.JobLeaseTable, c.Seq)), func(key string, value []byte) bool {
		if o := row.DecodeJobLease(value); o.TimerAt > a.Deadline(c, o.Lease.Under(c.Lease)) {
			late = append(late, entry{key, o})
		}
		return true
	})
	for _, r := range late {
		_, seq, line := row.SplitJobLeaseKey(r.key)
		a.retimeJob(c, &r.JobLease, row.Position{seq, line}, a.Deadline(c, r.Lease.Under(c.Lease)))
		a.O.Set(r.key, r.Encode())
	}
}

// retimeJob moves the timer row of a job's own lease.
func (a *Applying) retimeJob(c *row.Claim, o *row.JobLease, of row.Position, at int64) {
	if o.TimerAt != 0 {
		a.DeleteTimer(row.TimerKey(o.TimerAt, row.JobLeaseTimer, c.Seq, of.Seq, of.Line))
	}
	o.TimerAt = at
	a.SetTimer(row.TimerKey(at, row.JobLeaseTimer, c.Seq, of.Seq, of.Line))
}

// deleteJobLeases deletes the leases of single jobs whose keys are in from … to (exclusive).
func (a *Applying) deleteJobLeases(c *row.Claim, from, to string) {
	type entry struct {
		key string
		row.JobLease
	}
	var rows []entry
	a.O.Scan(from, to, func(key string, value []byte) bool {
		rows = append(rows, entry{key, row.DecodeJobLease(value)})
		return true
	})
	for _, r := range rows {
		_, seq, line := row.SplitJobLeaseKey(r.key)
		a.O.Delete(r.key)
		a.DeleteTimer(row.TimerKey(r.TimerAt, row.JobLeaseTimer, c.Seq, seq, line))
		c.JobLeases--
	}
}

// unhold records that lines are no longer active under a claim.
func (a *Applying) unhold(claimSeq uint64, r row.Run) {
	c := a.claim(claimSeq)
	c.Held -= r.Lines()
	a.hold(c.Runner, 0, -r.Lines())
	if c.JobLeases > 0 {
		a.deleteJobLeases(c, row.JobLeaseKey(c.Seq, r.Batch, r.First), lsm.After(row.JobLeaseKey(c.Seq, r.Batch, r.Last)))
	}
	a.Settle(c)
}

// hold changes the number of claims and of jobs that a runner holds.
func (a *Applying) hold(name string, claims, jobs int) *row.Runner {
	r := a.runner(name)
	r.Claims += claims
	r.Held += jobs
	if r.Claims > 0 {
		r.IdleSince = 0
	}
	a.Touch(&r.Dirty, r)
	return r
}

// RunnerIdleMs is how long the row of a runner stays after its last job. Invariant: it is part of the level, because it
// decides which rows exist.
const RunnerIdleMs = 60_000

// startResting forgets the tickles of a runner that holds no job any more. Its row is deleted later, unless the runner
// claims again. An existing timer row stays where it is, since it may be early.
func (a *Applying) startResting(r *row.Runner) {
	r.TickledAt, r.Promise = 0, job.Promise{}
	r.IdleSince = a.Now.At
	if r.TimerAt == 0 {
		r.TimerAt = a.Now.At + RunnerIdleMs
		a.SetTimer(row.RunnerTimerKey(r.TimerAt, r.Name))
	}
}

// endResting deletes the row of a runner that has held no job for a while. Otherwise it moves the runner's timer.
func (a *Applying) endResting(name string) {
	r := a.runner(name)
	a.DeleteTimer(row.RunnerTimerKey(r.TimerAt, name))
	r.TimerAt = 0
	switch end := r.IdleSince + RunnerIdleMs; {
	case r.Claims > 0: // the timer is set when the runner rests again
	case end > a.Due:
		r.TimerAt = end
		a.SetTimer(row.RunnerTimerKey(end, name))
	default:
		a.O.Delete(row.RunnerKey(row.RunnerTable, name))
		r.Gone = true
		a.Runners.Delete(name)
		return
	}
	a.Touch(&r.Dirty, r)
}
