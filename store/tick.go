package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// tick does what is due, in the order of the times. Whether something is due is decided by the command's time when its
// row is looked at, never by whether a tick came.
func (a *applying) tick(t job.Tick) {
	a.due = a.now.At
	if t.AsOf > 0 {
		a.due = min(a.due, t.AsOf)
	}
	sweeps, budget := a.rules.sweepRows, a.rules.commandRows
	if t.Rows > 0 {
		sweeps, budget = t.Rows, t.Rows
	}
	for ahead := 0; budget > 0; ahead-- {
		key := a.timers.First(&a.o)
		if key == "" {
			return
		}
		timer := splitTimer(key)
		if timer.at > a.due {
			return
		}
		if ahead <= 0 {
			ahead = a.prefetchDue(budget / tickSpanRows)
		}
		if timer.kind != sweepTimer {
			budget -= a.fire(timer, budget)
			continue
		}
		if sweeps <= 0 {
			return // the rest is for the next tick
		}
		n := a.resumeSweep(timer.a, min(budget, sweeps))
		sweeps -= n
		budget -= n
	}
}

// fire does what a timer, which is due, is for, and returns about how many rows that wrote.
func (a *applying) fire(t timer, budget int) (rows int) {
	switch t.kind {
	case runAtTimer:
		a.promote(a.ending(t))
	case purgeTimer:
		a.purge(a.ending(t), purged)
	case expireTimer:
		a.expire(a.ending(t))
	case timeoutTimer:
		return tickSpanRows + a.timeOut(a.ending(t))
	case claimTimer:
		return a.abandonClaim(t.a, budget)
	case jobLeaseTimer:
		a.abandonJob(t.a, position{t.b, t.line})
	case onceTimer:
		a.deleteGeneration(uint32(t.a))
		a.deleteTimer(t.key)
	case runnerTimer:
		a.endResting(runnerOfTimer(t.key))
	case sessionTimer:
		return a.expireSession(t.key, t.a)
	}
	return tickSpanRows
}

// ending returns the span that a timer is about.
func (a *applying) ending(t timer) part {
	return whole(a.batch(t.a), a.spanEnding(position{t.a, t.line}))
}

// prefetchDue reads what up to so many of the next timers are about, as far as their keys are known, and returns their
// number.
func (a *applying) prefetchDue(most int) int {
	keys := a.timers.Known()
	keys = keys[:max(1, min(len(keys), most))]
	var ends []position
	for _, key := range keys {
		t := splitTimer(key)
		if t.at > a.due {
			break
		}
		switch t.kind {
		case runAtTimer, purgeTimer, expireTimer, timeoutTimer:
			ends = append(ends, position{t.a, t.line})
		}
	}
	if len(ends) > 1 {
		slices.SortFunc(ends, comparePositions)
		a.prefetch(slices.Compact(ends)) // a span may have two timers
	}
	return len(keys)
}

// abandonClaim abandons what a claim holds, as far as the budget goes, and returns about how many rows that wrote.
func (a *applying) abandonClaim(seq uint64, budget int) (rows int) {
	c := a.claim(seq)
	if deadline := a.deadline(c, c.lease); deadline > a.due {
		a.retime(c, deadline)
		return tickSpanRows
	}
	runs := a.withoutJobLease(c)
	for i, r := range runs {
		a.eachOf(r, func(p part) {
			next := a.abandon(p, abandoned, abandonedText)
			a.takeBack(p, &next)
		})
		rows += tickSpanRows + r.Lines() // each line has its history
		if rows >= budget && i < len(runs)-1 {
			return rows
		}
	}
	a.retime(c, 0)
	return rows + tickSpanRows
}

// deadline returns when what a claim holds under a lease counts as abandoned.
func (a *applying) deadline(c *claim, l job.Lease) int64 {
	return l.Deadline(&a.runner(c.runner).promise, a.meta.graceAt)
}

// withoutJobLease returns the lines that a claim holds and that have no lease of their own. Those of one run are in one
// span.
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
	p := part{a.batch(at.seq), a.spanAt(at.seq, at.line), at.line, at.line}
	next := a.abandon(p, abandoned, abandonedText)
	a.takeBack(p, &next)
}

// timeOut abandons active lines whose time-out has passed, and returns their number. If their runners could not report
// for a while, the time-out is put off.
func (a *applying) timeOut(p part) int {
	if next, ok := p.in.Extend(&p.group().Attributes, a.meta.graceAt, a.due); ok {
		a.move(p, next, graced)
		return 0
	}
	next := a.abandon(p, timedOut, timedOutText)
	a.takeBack(p, &next)
	return int(p.lines())
}
