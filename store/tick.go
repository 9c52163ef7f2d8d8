package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// tick does everything that is due, in the order of the times. When a command looks at a row, the command's time
// decides whether something is due, never whether a tick has run.
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
		var resume func(of uint64, rows int) int
		switch timer.kind {
		case sweepTimer:
			resume = a.resumeSweep
		case restTimer:
			resume = a.resumeRest
		case distinctTimer:
			resume = a.resumeDistinct
		case purgedTimer:
			resume = a.resumePurged
		default:
			budget -= a.fire(timer, budget)
			continue
		}
		if sweeps <= 0 {
			return // the next tick does the rest
		}
		n := resume(timer.a, min(budget, sweeps))
		sweeps -= n
		budget -= n
	}
}

// fire does the work of a timer that is due, and returns about how many rows that wrote.
func (a *applying) fire(t timer, budget int) (rows int) {
	before := a.besideRows
	defer func() { rows += a.besideRows - before }()
	switch t.kind {
	case runAtTimer:
		a.promote(a.ending(t))
	case purgeTimer:
		a.purge(a.ending(t), reasonPurged)
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
	case repeatsTimer:
		a.forgetPurgedEnds(uint32(t.a))
		a.deleteTimer(t.key)
	case runnerTimer:
		a.endResting(runnerOfTimer(t.key))
	case batchTimer:
		a.retire(t)
	case sessionTimer:
		return a.expireSession(t.key, t.a)
	}
	return tickSpanRows
}

// ending returns the span of a timer.
func (a *applying) ending(t timer) part {
	return a.whole(a.batch(t.a), a.spanEnding(position{t.a, t.line}))
}

// prefetchDue reads the spans of up to most of the next timers, as far as their keys are known, and returns the number
// of timers.
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
