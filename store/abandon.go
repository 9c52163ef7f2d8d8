package store

import "github.com/daybookq/daybook/job"

// abandonClaim abandons the jobs that a claim holds, until the budget is spent, and returns about how many rows that
// wrote.
func (a *applying) abandonClaim(seq uint64, budget int) (rows int) {
	c := a.claim(seq)
	if deadline := a.deadline(c, c.lease); deadline > a.due {
		a.retime(c, deadline)
		return tickSpanRows
	}
	runs := a.withoutJobLease(c)
	if len(runs) > 0 {
		a.silent(c.runner)
	}
	before := a.besideRows
	for i, r := range runs {
		a.eachOf(r, func(p part) {
			next := a.abandon(p, reasonAbandoned, abandonedText)
			a.takeBack(p, &next)
		})
		rows += tickSpanRows + r.Lines() // each line has a history row
		if rows+a.besideRows-before >= budget && i < len(runs)-1 {
			return rows
		}
	}
	a.retime(c, 0)
	return rows + tickSpanRows
}

// withoutJobLease returns the lines that a claim holds and that lack their own lease. Lines of one returned run are in
// one span.
func (a *applying) withoutJobLease(c *claim) (runs []Run) {
	for _, r := range c.runs {
		a.eachOf(r, func(p part) {
			if p.in.Status != job.Active || p.in.Claim != c.seq {
				return
			}
			first := p.first
			if c.jobLeases > 0 {
				a.o.Scan(jobLeaseKey(c.seq, p.b.seq, p.first), jobLeaseKey(c.seq, p.b.seq, p.last+1), func(key string, _ []byte) bool {
					_, _, line := splitJobLeaseKey(key)
					if line > first {
						runs = append(runs, Run{p.b.seq, first, line - 1})
					}
					first = line + 1
					return true
				})
			}
			if first <= p.last {
				runs = append(runs, Run{p.b.seq, first, p.last})
			}
		})
	}
	return runs
}

// silent records, for the engine, that a lease of a runner has ended without a tickle. No decision depends on it.
func (a *applying) silent(runner string) {
	if n := len(a.silentRunners); n == 0 || a.silentRunners[n-1] != runner {
		a.silentRunners = append(a.silentRunners, runner)
	}
}

// abandonJob abandons a job whose own lease has ended.
func (a *applying) abandonJob(claimSeq uint64, at position) {
	c := a.claim(claimSeq)
	key := jobLeaseKey(claimSeq, at.seq, at.line)
	o := decodeJobLease(a.o.Get(key))
	if deadline := a.deadline(c, o.lease.Under(c.lease)); deadline > a.due {
		a.retimeJob(c, &o, at, deadline)
		a.o.Set(key, o.encode())
		return
	}
	a.silent(c.runner)
	p := a.part(a.batch(at.seq), a.spanAt(at.seq, at.line), at.line, at.line)
	next := a.abandon(p, reasonAbandoned, abandonedText)
	a.takeBack(p, &next)
}

// timeOut abandons active lines whose time-out has passed, and returns their number. If their runners could not report
// for a while, it extends the time-out.
func (a *applying) timeOut(p part) int {
	if next, ok := p.in.PutOff(&p.group().Attributes, a.meta.graceAt, a.due); ok {
		a.move(p, next, reasonGraced)
		return 0
	}
	next := a.abandon(p, reasonTimedOut, timedOutText)
	a.takeBack(p, &next)
	return int(p.lines())
}
