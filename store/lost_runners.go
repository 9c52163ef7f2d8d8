package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// lost is the outcome of the runs that had begun when their runner was lost, and notBegun the outcome of all other
// runs.
var (
	lost     = job.Outcome{Code: job.Lost, DelayMs: -1}
	notBegun = job.Outcome{Code: job.Unget, DelayMs: -1}
)

// loseRunner ends the runs of a lost runner, claim by claim, up to rules.commandRows. Runs that had begun count as
// attempts, and their jobs wait for their backoff. All other jobs are pending at once.
func (a *applying) loseRunner(cmd job.LoseRunner) *RunnerLost {
	result, budget := &RunnerLost{}, a.rules.commandRows
	// Each claim takes more than tickSpanRows of the budget, so the budget ends before the list if the list is cut off.
	for _, seq := range a.claimsThrough(cmd.Runner, cmd.Through, budget/tickSpanRows+2) {
		c := a.claim(seq)
		for _, r := range a.heldRuns(c) {
			if budget <= 0 {
				result.More = true
				return result
			}
			before := a.besideRows
			c.places(r, func(first, last uint32, place int) { a.loseRuns(c, Run{r.Batch, first, last}, place) })
			result.Jobs += r.Lines()
			budget -= tickSpanRows + r.Lines() + a.besideRows - before // each line has a history row
		}
	}
	return result
}

// loseRuns ends consecutive lines of a claim. place is the place of the first line in the order in which the claim
// handed lines out.
func (a *applying) loseRuns(c *claim, r Run, place int) {
	for first := r.First; first <= r.Last; {
		begun, last := c.hasBegun(place), first
		for place++; last < r.Last && c.hasBegun(place) == begun; place++ {
			last++
		}
		o := &notBegun
		if begun {
			o = &lost
		}
		a.eachOf(Run{r.Batch, first, last}, func(p part) { a.endReported(p, p.in.State, o) })
		first = last + 1
	}
}

// heldRuns returns the lines that a claim holds. Lines of one returned run are in one span.
func (a *applying) heldRuns(c *claim) (runs []Run) {
	for _, r := range c.runs {
		a.eachOf(r, func(p part) {
			if p.in.Status == job.Active && p.in.Claim == c.seq {
				runs = append(runs, p.run())
			}
		})
	}
	return runs
}

// claimsThrough returns up to limit claims of a runner that hold jobs and were made by commands up to through.
func (a *applying) claimsThrough(name string, through uint64, limit int) (seqs []uint64) {
	r := a.runner(name)
	for _, seq := range r.open {
		if seq <= through && len(seqs) < limit {
			seqs = append(seqs, seq)
		}
	}
	// The rows of claims that held jobs before are deleted, and there may be very many, so the scan ends at the last
	// row.
	rows := r.claims - len(r.open)
	if rows == 0 || len(seqs) == limit {
		return seqs
	}
	prefix := runnerKey(holdTable, name)
	a.o.ScanDown(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		if seq := claimOfHold(key); seq <= through {
			seqs = append(seqs, seq)
		}
		rows--
		return rows > 0 && len(seqs) < limit
	})
	return seqs
}
