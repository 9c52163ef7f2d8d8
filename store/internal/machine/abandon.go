package machine

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/internal/row"
)

// abandonClaim abandons the jobs that a claim holds, until the budget is spent, and returns about how many rows that
// wrote.
func (a *Applying) abandonClaim(seq uint64, budget int) (rows int) {
	c := a.claim(seq)
	if deadline := a.Deadline(c, c.Lease); deadline > a.Due {
		a.retime(c, deadline)
		return row.TickSpanRows
	}
	runs := a.withoutJobLease(c)
	if len(runs) > 0 {
		a.silent(c.Runner)
	}
	before := a.BesideRows
	for i, r := range runs {
		a.eachOf(r, func(p row.Part) {
			next := a.abandon(p, job.ReasonAbandoned, job.AbandonedText)
			a.takeBack(p, &next)
		})
		rows += row.TickSpanRows + r.Lines() // each line has a history row
		if rows+a.BesideRows-before >= budget && i < len(runs)-1 {
			return rows
		}
	}
	a.retime(c, 0)
	return rows + row.TickSpanRows
}

// withoutJobLease returns the lines that a claim holds and that lack their own lease. Lines of one returned run are in
// one span.
func (a *Applying) withoutJobLease(c *row.Claim) (runs []row.Run) {
	for _, r := range c.Runs {
		a.eachOf(r, func(p row.Part) {
			if p.In.Status != job.Active || p.In.Claim != c.Seq {
				return
			}
			first := p.First
			if c.JobLeases > 0 {
				a.O.Scan(row.JobLeaseKey(c.Seq, p.B.Seq, p.First), row.JobLeaseKey(c.Seq, p.B.Seq, p.Last+1), func(key string, _ []byte) bool {
					_, _, line := row.SplitJobLeaseKey(key)
					if line > first {
						runs = append(runs, row.Run{p.B.Seq, first, line - 1})
					}
					first = line + 1
					return true
				})
			}
			if first <= p.Last {
				runs = append(runs, row.Run{p.B.Seq, first, p.Last})
			}
		})
	}
	return runs
}

// silent records, for the engine, that a lease of a runner has ended without a tickle. No decision depends on it.
func (a *Applying) silent(runner string) {
	if n := len(a.SilentRunners); n == 0 || a.SilentRunners[n-1] != runner {
		a.SilentRunners = append(a.SilentRunners, runner)
	}
}

// abandonJob abandons a job whose own lease has ended.
func (a *Applying) abandonJob(claimSeq uint64, at row.Position) {
	c := a.claim(claimSeq)
	key := row.JobLeaseKey(claimSeq, at.Seq, at.Line)
	o := row.DecodeJobLease(a.O.Get(key))
	if deadline := a.Deadline(c, o.Lease.Under(c.Lease)); deadline > a.Due {
		a.retimeJob(c, &o, at, deadline)
		a.O.Set(key, o.Encode())
		return
	}
	a.silent(c.Runner)
	p := a.part(a.Batch(at.Seq), a.spanAt(at.Seq, at.Line), at.Line, at.Line)
	next := a.abandon(p, job.ReasonAbandoned, job.AbandonedText)
	a.takeBack(p, &next)
}

// timeOut abandons active lines whose time-out has passed, and returns their number. If their runners could not report
// for a while, it extends the time-out.
func (a *Applying) timeOut(p row.Part) int {
	if next, ok := p.In.PutOff(&p.Group().Attributes, a.Meta.GraceAt, a.Due); ok {
		a.move(p, next, job.ReasonGraced)
		return 0
	}
	next := a.abandon(p, job.ReasonTimedOut, job.TimedOutText)
	a.takeBack(p, &next)
	return int(p.Lines())
}
