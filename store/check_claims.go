package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// leases checks claims, leases of single lines and runners against the claims that the spans name.
func (c *checker) leases() {
	c.table(claimStateTable, func(key string, _ []byte) {
		if c.v.Get(seqKey(claimTable, seqOfKey(key))) == nil {
			c.problem("row %x belongs to no claim", key)
		}
	})
	c.table(jobLeaseTable, c.jobLease)
	c.table(claimTable, func(key string, value []byte) {
		seq := seqOfKey(key)
		c.guard(func() {
			c.claimed(decodeClaim(seq, value, c.v.Get(seqKey(claimStateTable, seq))))
		}, "claim %d", seq)
	})
	if c.named != c.found {
		c.strays()
	}
	c.runners()
}

// strays finds the spans and leases of single lines that name a claim which did not hand them out, or does not hold
// them. It runs only if the sums have shown that there are some.
func (c *checker) strays() {
	before := c.problems
	knows := func(claim, seq uint64, first, last uint32) bool {
		value := c.v.Get(seqKey(claimTable, claim))
		if value == nil {
			c.problem("claim %d is named by lines %d-%d of batch %d and has no row", claim, first, last, seq)
			return true
		}
		return slices.ContainsFunc(decodeClaim(claim, value, nil).runs, func(r Run) bool {
			return r.Batch == seq && r.First <= first && last <= r.Last
		})
	}
	c.table(spanTable, func(key string, value []byte) {
		if sp := decodeSpan(lineOfKey(key), value); sp.Claim != 0 && !knows(sp.Claim, seqOfKey(key), sp.first, sp.last) {
			c.problem("lines %d-%d of batch %d name claim %d, which did not hand them out", sp.first, sp.last, seqOfKey(key), sp.Claim)
		}
	})
	c.table(jobLeaseTable, func(key string, _ []byte) {
		if claim, seq, line := splitJobLeaseKey(key); !knows(claim, seq, line, line) {
			c.problem("line %d of batch %d has a lease under claim %d, which did not hand it out", line, seq, claim)
		}
	})
	if c.problems == before {
		c.problem("spans name claims for held, refs, job leases %v, and of these belong to claims %v", c.named, c.found)
	}
}

// runners checks the counts of each runner. claimed has checked that each claim belongs to a runner.
func (c *checker) runners() {
	c.table(runnerTable, func(key string, value []byte) {
		r := decodeRunner(runnerOfKey(key), value)
		claims, jobs := 0, 0
		count := func(claim uint64) {
			claims++
			if cl := readClaim(c.v, claim); cl != nil {
				jobs += cl.held
			}
		}
		for _, claim := range r.open {
			count(claim)
		}
		prefix := runnerKey(holdTable, r.name)
		c.v.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
			if wellFormed(key) {
				count(claimOfHold(key))
			}
			return true
		})
		if claims != r.claims || jobs != r.held {
			c.problem("runner %q counts %d claims and %d jobs, and holds %d and %d", r.name, r.claims, r.held, claims, jobs)
		}
		if r.claims == 0 && (r.held != 0 || len(r.open) > 0 || r.tickledAt != 0 || r.promise != job.Promise{}) {
			c.problem("runner %q holds nothing, and its row remembers %+v", r.name, *r)
		}
		if r.claims == 0 && (r.timerAt == 0 || r.timerAt > r.idleSince+runnerIdleMs) || r.claims > 0 && r.idleSince != 0 {
			c.problem("the timer of runner %q is at %d, and it has held nothing since %d", r.name, r.timerAt, r.idleSince)
		}
		if r.timerAt != 0 {
			c.must(runnerTimerKey(r.timerAt, r.name))
		}
	})
}

// jobLease checks the lease of a single job.
func (c *checker) jobLease(key string, value []byte) {
	claimSeq, seq, line := splitJobLeaseKey(key)
	o := decodeJobLease(value)
	c.named.jobLeases++
	c.must(timerKey(o.timerAt, jobLeaseTimer, claimSeq, seq, line))
	if sp, ok := readSpan(c.v, seq, line); !ok || sp.Status != job.Active || sp.Claim != claimSeq {
		c.problem("claim %d has a lease for line %d of batch %d, which it does not hold", claimSeq, line, seq)
	}
	if cl := readClaim(c.v, claimSeq); cl != nil {
		if deadline := o.lease.Under(cl.lease).Deadline(&readRunner(c.v, cl.runner).promise, c.meta.graceAt); o.timerAt > deadline {
			c.problem("the timer of line %d of batch %d under claim %d is at %d, after its deadline %d", line, seq, claimSeq, o.timerAt, deadline)
		}
	}
}

// claimed checks a claim.
func (c *checker) claimed(cl *claim) {
	var found claimCount
	for _, r := range cl.runs {
		eachSpan(c.v, r.Batch, r.First, r.Last, func(sp span) bool {
			if sp.Claim == cl.seq {
				n := int(min(sp.last, r.Last)) - int(max(sp.first, r.First)) + 1
				found.refs += n
				if sp.Status == job.Active {
					found.held += n
				}
			}
			return true
		})
	}
	prefix := seqKey(jobLeaseTable, cl.seq)
	c.v.Scan(prefix, lsm.After(prefix), func(string, []byte) bool { found.jobLeases++; return true })
	c.found.held += found.held
	c.found.refs += found.refs
	c.found.jobLeases += found.jobLeases
	if found.refs == 0 {
		c.problem("claim %d is named by no line", cl.seq)
		return
	}
	if got := (claimCount{cl.held, cl.refs, cl.jobLeases}); got != found {
		c.problem("claim %d counts held, refs, job leases %v, and has %v", cl.seq, got, found)
	}
	if cl.cancelledAt != 0 {
		c.must(holdKey(noticeTable, cl.runner, cl.seq))
	}
	if cl.timerAt != 0 {
		c.must(timerKey(cl.timerAt, claimTimer, cl.seq, 0, 0))
	}
	if cl.held > cl.jobLeases {
		if deadline := cl.lease.Deadline(&readRunner(c.v, cl.runner).promise, c.meta.graceAt); cl.timerAt == 0 || cl.timerAt > deadline {
			c.problem("the timer of claim %d is at %d, after its deadline %d", cl.seq, cl.timerAt, deadline)
		}
	}
	if cl.held > 0 {
		if value := c.v.Get(runnerKey(runnerTable, cl.runner)); value == nil {
			c.problem("runner %q holds jobs and has no row", cl.runner)
		} else if !slices.Contains(decodeRunner(cl.runner, value).open, cl.seq) {
			c.must(holdKey(holdTable, cl.runner, cl.seq))
		}
	}
}
