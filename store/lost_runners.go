package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// lostText is the error that the history shows for a run whose runner was declared lost.
const lostText = "its runner was lost"

// loseRunner abandons what a lost runner holds, claim by claim, as far as rules.commandRows goes.
func (a *applying) loseRunner(cmd job.LoseRunner) *RunnerLost {
	lost, budget := &RunnerLost{}, a.rules.commandRows
	// Each claim takes more than tickSpanRows of the budget, so the budget ends before the list if the list is cut off.
	for _, seq := range a.claimsThrough(cmd.Runner, cmd.Through, budget/tickSpanRows+2) {
		for _, r := range a.heldRuns(a.claim(seq)) {
			if budget <= 0 {
				lost.More = true
				return lost
			}
			a.eachOf(r, func(p part) {
				next := a.abandon(p, reasonAbandoned, lostText)
				a.takeBack(p, &next)
			})
			lost.Jobs += r.Lines()
			budget -= tickSpanRows + r.Lines() // each line has its history
		}
	}
	return lost
}

// heldRuns returns the lines that a claim holds. Those of one run are in one span.
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

// claimsThrough returns up to limit claims of a runner that hold something and were made by commands up to through.
func (a *applying) claimsThrough(name string, through uint64, limit int) (seqs []uint64) {
	r := a.runner(name)
	for _, seq := range r.open {
		if seq <= through && len(seqs) < limit {
			seqs = append(seqs, seq)
		}
	}
	// Rows of claims that held something before are deleted, and may be very many, so the scan ends at the last row.
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
