package machine

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// tick does everything that is due, in the order of the times. When a command looks at a row, the command's time
// decides whether something is due, never whether a tick has run.
func (a *Applying) tick(t job.Tick) {
	a.Due = a.Now.At
	if t.AsOf > 0 {
		a.Due = min(a.Due, t.AsOf)
	}
	sweeps, budget := a.Rules.SweepRows, a.Rules.CommandRows
	if t.Rows > 0 {
		sweeps, budget = t.Rows, t.Rows
	}
	for ahead := 0; budget > 0; ahead-- {
		key := a.timers.First(&a.O)
		if key == "" {
			return
		}
		timer := row.SplitTimer(key)
		if timer.At > a.Due {
			return
		}
		if ahead <= 0 {
			ahead = a.prefetchDue(budget / row.TickSpanRows)
		}
		var resume func(of uint64, rows int) int
		switch timer.Kind {
		case row.SweepTimer:
			resume = a.resumeSweep
		case row.RestTimer:
			resume = a.resumeRest
		case row.DistinctTimer:
			resume = a.resumeDistinct
		case row.PurgedTimer:
			resume = a.resumePurged
		default:
			budget -= a.fire(timer, budget)
			continue
		}
		if sweeps <= 0 {
			return // the next tick does the rest
		}
		n := resume(timer.A, min(budget, sweeps))
		sweeps -= n
		budget -= n
	}
}

// fire does the work of a timer that is due, and returns about how many rows that wrote.
func (a *Applying) fire(t row.Timer, budget int) (rows int) {
	before := a.BesideRows
	defer func() { rows += a.BesideRows - before }()
	switch t.Kind {
	case row.RunAtTimer:
		a.promote(a.ending(t))
	case row.PurgeTimer:
		a.purge(a.ending(t), job.ReasonPurged)
	case row.ExpireTimer:
		a.expire(a.ending(t))
	case row.TimeoutTimer:
		return row.TickSpanRows + a.timeOut(a.ending(t))
	case row.ClaimTimer:
		return a.abandonClaim(t.A, budget)
	case row.JobLeaseTimer:
		a.abandonJob(t.A, row.Position{t.B, t.Line})
	case row.OnceTimer:
		a.deleteGeneration(uint32(t.A))
		a.DeleteTimer(t.Key)
	case row.RepeatsTimer:
		a.forgetPurgedEnds(uint32(t.A))
		a.DeleteTimer(t.Key)
	case row.RunnerTimer:
		a.endResting(row.RunnerOfTimer(t.Key))
	case row.BatchTimer:
		a.retire(t)
	case row.SessionTimer:
		return a.expireSession(t.Key, t.A)
	}
	return row.TickSpanRows
}

// ending returns the span of a timer.
func (a *Applying) ending(t row.Timer) row.Part {
	return a.whole(a.Batch(t.A), a.spanEnding(row.Position{t.A, t.Line}))
}

// prefetchDue reads the spans of up to most of the next timers, as far as their keys are known, and returns the number
// of timers.
func (a *Applying) prefetchDue(most int) int {
	keys := a.timers.Known()
	keys = keys[:max(1, min(len(keys), most))]
	var ends []row.Position
	for _, key := range keys {
		t := row.SplitTimer(key)
		if t.At > a.Due {
			break
		}
		switch t.Kind {
		case row.RunAtTimer, row.PurgeTimer, row.ExpireTimer, row.TimeoutTimer:
			ends = append(ends, row.Position{t.A, t.Line})
		}
	}
	if len(ends) > 1 {
		slices.SortFunc(ends, row.ComparePositions)
		a.prefetch(slices.Compact(ends)) // a span may have two timers
	}
	return len(keys)
}
