package ingest

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// tickEvery keeps ticks apart, so that leases that run out one by one cost a journal record each 50 ms and not one
	// each.
	tickEvery = 50 * time.Millisecond
	// busyTick and idleTick are the times that a tick should occupy the applier, while other commands wait for it and
	// while none do.
	busyTick = time.Millisecond
	idleTick = 4 * time.Millisecond
	// The rows of a tick stay between these, so that one measurement that is far off does no harm.
	minTickRows, firstTickRows = 200, 1000
)

// tick proposes a tick as of before the process was last seen to run: if the process were stopped now, the tick would
// not see the time of the stop. A tick that leaves something due is followed by the next at once, with two exceptions.
// While other commands wait for the applier, half its time is theirs, however much is due; and two thirds while a sweep
// is under way, for which nobody waits.
func (k *timekeeper) tick(ctx context.Context, asOf int64) {
	e := k.e
	began, stopped := time.Now(), k.stall.found.Load()
	e.counters.ticks.Add(1)
	k.rows = cmp.Or(k.rows, firstTickRows)
	_, receipt, err := e.decideAsLeader(ctx, k.term, job.Tick{AsOf: asOf, Rows: k.rows})
	k.ticked = time.Now()
	took := k.ticked.Sub(began)
	applied, others, more := time.Duration(e.counters.tickTook.Load()), receipt.Seq > k.seq+1, e.untilDue() == 0
	if err == nil {
		k.rows = tickRows(k.rows, applied, others, more)
	}
	if err != nil || !more || took >= tickEvery {
		k.rest = tickEvery // what runners sent while the disk stalled gets into the journal before the next tick
	} else {
		k.rest = tickRest(applied, others, e.store.Totals().Sweeps > 0)
	}
	k.seq = max(k.seq, receipt.Seq)
	if took > late && k.stall.since(stopped) {
		k.owed = true
	}
	if err != nil && !errors.Is(err, ErrNotLeading) && ctx.Err() == nil {
		e.logger.Warn("cannot tick; trying again", "error", err)
		pause(ctx, maxSleep)
	}
}

// tickRows returns how many rows the next tick may write, after one that had so many and took so long to apply. A tick
// that did all there was to do may have needed few of its rows, so it is no reason for more.
func tickRows(rows int, applied time.Duration, others, more bool) int {
	target := idleTick
	if others {
		target = busyTick
	}
	next := int64(rows) * int64(target) / max(1, int64(applied))
	if !more {
		next = min(next, int64(firstTickRows))
	}
	return int(min(max(next, minTickRows), 2*int64(rows), job.MaxTickRows))
}

// tickRest returns how long to wait after a tick that left something due.
func tickRest(applied time.Duration, others, sweeping bool) time.Duration {
	switch {
	case others && sweeping:
		return 2 * applied
	case others:
		return applied
	}
	return 0
}
