package ingest

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// tickEvery is the least time between two ticks that leave nothing due. Without it, many leases that run out one by
	// one would each cost a journal record.
	tickEvery = 50 * time.Millisecond
	// busyTick is how long a tick may occupy the applier while other commands wait for it; idleTick, if none wait.
	busyTick = time.Millisecond
	idleTick = 4 * time.Millisecond
	// minTickRows is the least number of rows that a tick may write, so that one wrong measurement does no harm.
	// firstTickRows is the number for the first tick.
	minTickRows, firstTickRows = 200, 1000
)

// tick proposes a tick as of a time before the process was last seen to run. If the process were suspended now, the tick
// would not see the time of the suspension.
//
// If a tick leaves something due, the next one follows immediately, unless other commands wait for the applier; see rest.
func (k *timekeeper) tick(ctx context.Context, asOf int64) {
	e := k.e
	began, stopped := time.Now(), k.stall.found.Load()
	e.counters.ticks.Add(1)
	k.rows = cmp.Or(k.rows, firstTickRows)
	_, receipt, err := e.decideAsLeader(ctx, k.term, job.Tick{AsOf: asOf, Rows: k.rows})
	k.ticked = time.Now()
	took := k.ticked.Sub(began)
	done := tickDone{
		rows: k.rows, applied: time.Duration(e.counters.tickTook.Load()),
		contended: receipt.Seq > k.seq+1, moreDue: e.untilDue() == 0, sweeping: e.store.Totals().Sweeps > 0,
	}
	if err == nil {
		k.rows = done.nextRows()
	}
	k.rest = done.rest()
	if err != nil || took >= tickEvery {
		k.rest = tickEvery // tickles sent while the disk stalled are journaled before the next tick
	}
	k.seq = max(k.seq, receipt.Seq)
	if took > late && k.stall.since(stopped) {
		k.oweGrace()
	}
	if err != nil && !errors.Is(err, ErrNotLeading) && ctx.Err() == nil {
		e.logger.Warn("cannot tick; trying again", "error", err)
		pause(ctx, maxSleep)
	}
}

// tickDone is the result of a tick. It determines the size and the time of the next tick.
type tickDone struct {
	rows      int           // that the tick was allowed to write
	applied   time.Duration // that the applier needed for it
	contended bool          // other commands were journaled since the previous tick
	moreDue   bool          // something due is left
	sweeping  bool          // a sweep is in progress
}

// nextRows returns how many rows the next tick may write, so that it occupies the applier for busyTick or idleTick. If
// the tick left nothing due, it may have written few of its rows, so its time does not justify more than firstTickRows.
func (d tickDone) nextRows() int {
	target := idleTick
	if d.contended {
		target = busyTick
	}
	next := int64(d.rows) * int64(target) / max(1, int64(d.applied))
	if !d.moreDue {
		next = min(next, int64(firstTickRows))
	}
	return int(min(max(next, minTickRows), 2*int64(d.rows), job.MaxTickRows))
}

// rest returns the time to wait before the next tick. While other commands wait for the applier, ticks get half of its
// time. If a sweep is in progress too, they get a third, because no caller waits for a sweep.
func (d tickDone) rest() time.Duration {
	switch {
	case !d.moreDue:
		return tickEvery
	case d.contended && d.sweeping:
		return 2 * d.applied
	case d.contended:
		return d.applied
	}
	return 0
}
