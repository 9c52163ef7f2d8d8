package machine

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// lost is the outcome of the runs that had begun when their runner was lost, and notBegun the outcome of all other
// runs.
var (
	lost     = job.Outcome{Code: job.Lost, DelayMs: -1}
	notBegun = job.Outcome{Code: job.Unget, DelayMs: -1}
)

// loseRunner ends the runs of a lost runner, claim by claim, up to rules.CommandRows. Runs that had begun count as
// attempts, and their jobs wait for their backoff. All other jobs are pending at once.
func (a *Applying) loseRunner(cmd job.LoseRunner) *applied.RunnerLost {
	result, budget := &applied.RunnerLost{}, a.Rules.CommandRows
	// Each claim takes more than TickSpanRows of the budget, so the budget ends before the list if the list is cut off.
	for _, seq := range a.claimsThrough(cmd.Runner, cmd.Through, budget/row.TickSpanRows+2) {
		c := a.claim(seq)
		for _, r := range a.heldRuns(c) {
			if budget <= 0 {
				result.More = true
				return result
			}
			before := a.BesideRows
			c.Places(r, func(first, last uint32, place int) { a.loseRuns(c, row.Run{r.Batch, first, last}, place) })
			result.Jobs += r.Lines()
			budget -= row.TickSpanRows + r.Lines() + a.BesideRows - before // each line has a history row
		}
	}
	return result
}

// loseRuns ends consecutive lines of a claim. place is the place of the first line in the order in which the claim
// handed lines out.
func (a *Applying) loseRuns(c *row.Claim, r row.Run, place int) {
	for first := r.First; first <= r.Last; {
		begun, last := c.HasBegun(place), first
		for place++; last < r.Last && c.HasBegun(place) == begun; place++ {
			last++
		}
		o := &notBegun
		if begun {
			o = &lost
		}
		a.eachOf(row.Run{r.Batch, first, last}, func(p row.Part) { a.endReported(p, p.In.State, o) })
		first = last + 1
	}
}

// heldRuns returns the lines that a claim holds. Lines of one returned run are in one span.
func (a *Applying) heldRuns(c *row.Claim) (runs []row.Run) {
	for _, r := range c.Runs {
		a.eachOf(r, func(p row.Part) {
			if p.In.Status == job.Active && p.In.Claim == c.Seq {
				runs = append(runs, p.Run())
			}
		})
	}
	return runs
}

// claimsThrough returns up to limit claims of a runner that hold jobs and were made by commands up to through.
func (a *Applying) claimsThrough(name string, through uint64, limit int) (seqs []uint64) {
	r := a.runner(name)
	for _, seq := range r.Open {
		if seq <= through && len(seqs) < limit {
			seqs = append(seqs, seq)
		}
	}
	// The rows of claims that held jobs before are deleted, and there may be very many, so the scan ends at the last
	// row.
	rows := r.Claims - len(r.Open)
	if rows == 0 || len(seqs) == limit {
		return seqs
	}
	prefix := row.RunnerKey(row.HoldTable, name)
	a.O.ScanDown(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		if seq := row.ClaimOfHold(key); seq <= through {
			seqs = append(seqs, seq)
		}
		rows--
		return rows > 0 && len(seqs) < limit
	})
	return seqs
}
