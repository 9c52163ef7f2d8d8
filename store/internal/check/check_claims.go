package check

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
)

// leases checks claims, leases of single lines and runners against the claims that the spans name.
func (c *checker) leases() {
	c.table(row.ClaimStateTable, func(key string, _ []byte) {
		if c.v.Get(row.SeqKey(row.ClaimTable, row.SeqOfKey(key))) == nil {
			c.problem("row %x belongs to no claim", key)
		}
	})
	c.table(row.JobLeaseTable, c.jobLease)
	c.table(row.ClaimTable, func(key string, value []byte) {
		seq := row.SeqOfKey(key)
		c.guard(func() {
			c.Claimed(row.DecodeClaim(seq, value, c.v.Get(row.SeqKey(row.ClaimStateTable, seq))))
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
		value := c.v.Get(row.SeqKey(row.ClaimTable, claim))
		if value == nil {
			c.problem("claim %d is named by lines %d-%d of batch %d and has no row", claim, first, last, seq)
			return true
		}
		return slices.ContainsFunc(row.DecodeClaim(claim, value, nil).Runs, func(r row.Run) bool {
			return r.Batch == seq && r.First <= first && last <= r.Last
		})
	}
	c.table(row.SpanTable, func(key string, value []byte) {
		if sp := row.DecodeSpan(row.LineOfKey(key), value); sp.Claim != 0 && !knows(sp.Claim, row.SeqOfKey(key), sp.First, sp.Last) {
			c.problem("lines %d-%d of batch %d name claim %d, which did not hand them out", sp.First, sp.Last, row.SeqOfKey(key), sp.Claim)
		}
	})
	c.table(row.JobLeaseTable, func(key string, _ []byte) {
		if claim, seq, line := row.SplitJobLeaseKey(key); !knows(claim, seq, line, line) {
			c.problem("line %d of batch %d has a lease under claim %d, which did not hand it out", line, seq, claim)
		}
	})
	if c.problems == before {
		c.problem("spans name claims for held, refs, job leases %v, and of these belong to claims %v", c.named, c.found)
	}
}

// runners checks the counts of each runner. claimed has checked that each claim belongs to a runner.
func (c *checker) runners() {
	c.table(row.RunnerTable, func(key string, value []byte) {
		r := row.DecodeRunner(row.RunnerOfKey(key), value)
		claims, jobs := 0, 0
		count := func(claim uint64) {
			claims++
			if cl := row.ReadClaim(c.v, claim); cl != nil {
				jobs += cl.Held
			}
		}
		for _, claim := range r.Open {
			count(claim)
		}
		prefix := row.RunnerKey(row.HoldTable, r.Name)
		c.v.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
			if row.WellFormed(key) {
				count(row.ClaimOfHold(key))
			}
			return true
		})
		if claims != r.Claims || jobs != r.Held {
			c.problem("runner %q counts %d claims and %d jobs, and holds %d and %d", r.Name, r.Claims, r.Held, claims, jobs)
		}
		if r.Claims == 0 && (r.Held != 0 || len(r.Open) > 0 || r.TickledAt != 0 || r.Promise != job.Promise{}) {
			c.problem("runner %q holds nothing, and its row remembers %+v", r.Name, *r)
		}
		if r.Claims == 0 && (r.TimerAt == 0 || r.TimerAt > r.IdleSince+machine.RunnerIdleMs) || r.Claims > 0 && r.IdleSince != 0 {
			c.problem("the timer of runner %q is at %d, and it has held nothing since %d", r.Name, r.TimerAt, r.IdleSince)
		}
		if r.TimerAt != 0 {
			c.must(row.RunnerTimerKey(r.TimerAt, r.Name))
		}
	})
}

// JobLease checks the lease of a single job.
func (c *checker) jobLease(key string, value []byte) {
	claimSeq, seq, line := row.SplitJobLeaseKey(key)
	o := row.DecodeJobLease(value)
	c.named.jobLeases++
	c.must(row.TimerKey(o.TimerAt, row.JobLeaseTimer, claimSeq, seq, line))
	if sp, ok := row.ReadSpan(c.v, seq, line); !ok || sp.Status != job.Active || sp.Claim != claimSeq {
		c.problem("claim %d has a lease for line %d of batch %d, which it does not hold", claimSeq, line, seq)
	}
	if cl := row.ReadClaim(c.v, claimSeq); cl != nil {
		if deadline := o.Lease.Under(cl.Lease).Deadline(&row.ReadRunner(c.v, cl.Runner).Promise, c.meta.GraceAt); o.TimerAt > deadline {
			c.problem("the timer of line %d of batch %d under claim %d is at %d, after its deadline %d", line, seq, claimSeq, o.TimerAt, deadline)
		}
	}
}

// Claimed checks a claim.
func (c *checker) Claimed(cl *row.Claim) {
	var found claimCount
	for _, r := range cl.Runs {
		row.EachSpan(c.v, r.Batch, r.First, r.Last, func(sp row.Span) bool {
			if sp.Claim == cl.Seq {
				n := int(min(sp.Last, r.Last)) - int(max(sp.First, r.First)) + 1
				found.refs += n
				if sp.Status == job.Active {
					found.held += n
				}
			}
			return true
		})
	}
	prefix := row.SeqKey(row.JobLeaseTable, cl.Seq)
	c.v.Scan(prefix, lsm.After(prefix), func(string, []byte) bool { found.jobLeases++; return true })
	c.found.held += found.held
	c.found.refs += found.refs
	c.found.jobLeases += found.jobLeases
	if found.refs == 0 {
		c.problem("claim %d is named by no line", cl.Seq)
		return
	}
	if got := (claimCount{cl.Held, cl.Refs, cl.JobLeases}); got != found {
		c.problem("claim %d counts held, refs, job leases %v, and has %v", cl.Seq, got, found)
	}
	if cl.CancelledAt != 0 {
		c.must(row.HoldKey(row.NoticeTable, cl.Runner, cl.Seq))
	}
	if cl.TimerAt != 0 {
		c.must(row.TimerKey(cl.TimerAt, row.ClaimTimer, cl.Seq, 0, 0))
	}
	if cl.Held > cl.JobLeases {
		if deadline := cl.Lease.Deadline(&row.ReadRunner(c.v, cl.Runner).Promise, c.meta.GraceAt); cl.TimerAt == 0 || cl.TimerAt > deadline {
			c.problem("the timer of claim %d is at %d, after its deadline %d", cl.Seq, cl.TimerAt, deadline)
		}
	}
	if cl.Held > 0 {
		if value := c.v.Get(row.RunnerKey(row.RunnerTable, cl.Runner)); value == nil {
			c.problem("runner %q holds jobs and has no row", cl.Runner)
		} else if !slices.Contains(row.DecodeRunner(cl.Runner, value).Open, cl.Seq) {
			c.must(row.HoldKey(row.HoldTable, cl.Runner, cl.Seq))
		}
	}
}
