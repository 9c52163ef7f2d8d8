package ingest

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// tickEvery keeps ticks apart, so that leases running out one by one cost a journal record each 50 ms and not each.
	tickEvery = 50 * time.Millisecond
	// maxSleep bounds a sleep of the timer: the journal's clock may run at double speed, and being late must be noticed.
	maxSleep = 250 * time.Millisecond
	// late is how much longer than asked something must take to say that the process stood still, or the journal was down. Runners could
	// not tickle then, so all leases begin anew.
	late = 500 * time.Millisecond

	// A process may be stopped at the beginning of a sleep; even so, the shortest lease must not run out unnoticed.
	_ = uint(job.MinLeaseMs - (maxSleep+late)/time.Millisecond)
)

// keepTime proposes what time brings: ticks when something is due, and a grace when runners could not tickle for a while, because the
// process stood still or the journal did not take what they told. A grace goes before the next tick.
func (e *Engine) keepTime(ctx context.Context) {
	k := timekeeper{e: e, began: time.Now()}
	var watch sync.WaitGroup
	watch.Go(func() { k.watch(ctx) })
	defer watch.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer close(e.timeEnded)
	for ctx.Err() == nil {
		sleep := k.sleep()
		awake := time.Now().Add(sleep)
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-e.due:
		case done := <-e.accept:
			k.acceptTime(ctx)
			close(done)
		case <-ctx.Done():
			return
		}
		k.turn(ctx, awake)
	}
}

// timekeeper is the state of keepTime.
type timekeeper struct {
	e      *Engine
	ticked time.Time     // when the last tick was done, or could not be
	rest   time.Duration // from then to the next
	seq    uint64        // of the last tick
	rows   int           // that the next tick may write; 0 before the first
	down   time.Time     // since when the journal does not take what it is given; zero when it does
	owed   bool          // a grace
	idled  time.Time     // when idle queues were last deleted, or could not be

	// Of watch, which runs beside: when it last ran, and how often it found that the process had stood still.
	began time.Time
	beat  atomic.Int64 // ns after began, by the monotonic clock
	stood atomic.Int64
}

// watch notices that the process stood still, also while keepTime waits for a tick: a disk that stalls keeps a tick waiting, but not this.
func (k *timekeeper) watch(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, maxSleep)
		if now := time.Since(k.began); now-time.Duration(k.beat.Swap(int64(now))) > maxSleep+late {
			k.stood.Add(1)
		}
	}
}

// stoodSince reports whether the process has stood still since watch had found that n times.
func (k *timekeeper) stoodSince(n int64) bool {
	return k.stood.Load() != n || time.Since(k.began)-time.Duration(k.beat.Load()) > maxSleep+late
}

// sleep returns for how long there is nothing to do.
func (k *timekeeper) sleep() time.Duration {
	return min(max(k.e.untilDue(), k.rest-time.Since(k.ticked)), maxSleep)
}

// turn does what there is to do, after a sleep that should have ended at awake or before.
func (k *timekeeper) turn(ctx context.Context, awake time.Time) {
	e := k.e
	asOf, now := e.journal.Now(), time.Now()
	switch over := now.Sub(awake); {
	case over > late:
		k.owed = true
		e.log.Warn("the process stood still; all leases begin anew", "for", over)
	case over > 0: // perhaps it stood; what runners told meanwhile is not applied yet, so nothing is due because of this time
		asOf -= over.Milliseconds()
	}
	if e.journal.Health() != nil {
		if k.down.IsZero() {
			k.down = now
		}
		k.skip(now)
		return
	}
	if !k.down.IsZero() {
		if down := now.Sub(k.down); down > late {
			k.owed = true
			e.log.Warn("the journal takes commands again; all leases begin anew", "after", down)
		}
		k.down = time.Time{}
	}
	if e.accepting() != nil || k.owed && !k.grace(ctx) {
		k.skip(now)
		return
	}
	if e.untilDue() == 0 && time.Since(k.ticked) >= k.rest {
		k.tick(ctx, asOf)
	}
	k.deleteIdle(ctx)
}

// acceptTime sets the journal's time to the wall clock and gives all leases their full length again: runners did not see the time pass. No
// tick comes between, so no lease has run out by then.
func (k *timekeeper) acceptTime(ctx context.Context) {
	before := k.e.journal.Now()
	k.e.journal.AcceptTime()
	if skipped := k.e.journal.Now() - before; skipped > 0 {
		k.owed = true
		k.e.log.Warn("the journal's time was set to the wall clock; all leases begin anew", "skipped_ms", skipped)
	}
	if k.owed {
		k.grace(ctx) // if it fails it stays owed, and the next turn tries again before any tick
	}
}

// skip leaves what is due for the next turn, which must not come at once: what is due stays due, and the loop would spin.
func (k *timekeeper) skip(now time.Time) { k.ticked, k.rest = now, tickEvery }

const (
	// busyTick and idleTick are for how long a tick should hold up the applier, while others require something of it and while nobody does.
	busyTick = time.Millisecond
	idleTick = 4 * time.Millisecond
	// The rows of a tick stay between these, so that one measurement that is far off does no harm.
	minTickRows, firstTickRows = 200, 1000
)

// tick proposes a tick as of before the process was last seen to run: were it stopped now, the tick would not see the time it stood. One
// that leaves something due is followed by the next at once. But where others require something of the applier meanwhile, half its time is
// theirs, however much is due; and while a sweep is under way, for which nobody waits, two thirds.
func (k *timekeeper) tick(ctx context.Context, asOf int64) {
	began, stood := time.Now(), k.stood.Load()
	k.e.ticks.Add(1)
	k.rows = cmp.Or(k.rows, firstTickRows)
	_, receipt, err := k.e.decide(ctx, job.Tick{AsOf: asOf, Rows: k.rows})
	k.ticked = time.Now()
	took := k.ticked.Sub(began)
	applied, others, more := time.Duration(k.e.tickTook.Load()), receipt.Seq > k.seq+1, k.e.untilDue() == 0
	if err == nil {
		k.rows = tickRows(k.rows, applied, others, more)
	}
	if err != nil || !more || took >= tickEvery {
		k.rest = tickEvery // what runners told while the disk stalled stands in the journal before the next tick
	} else {
		k.rest = tickRest(applied, others, k.e.store.Totals().Sweeps > 0)
	}
	k.seq = max(k.seq, receipt.Seq)
	if took > late && k.stoodSince(stood) {
		k.owed = true
	}
	if err != nil && ctx.Err() == nil {
		k.e.log.Warn("cannot tick; trying again", "error", err)
		pause(ctx, maxSleep)
	}
}

// tickRows returns how many rows the next tick may write, after one that had so many and took so long to apply. A tick that did all there was
// to do may have needed few of its rows, so it is no reason for more.
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

func (k *timekeeper) grace(ctx context.Context) (given bool) {
	if k.e.store.Totals().Counts[job.Active] == 0 {
		k.owed = false
		return true
	}
	k.e.graces.Add(1)
	if _, _, err := k.e.decide(ctx, job.Grace{}); err != nil {
		if ctx.Err() == nil {
			k.e.log.Warn("cannot give grace; trying again", "error", err)
		}
		return false
	}
	k.owed = false
	return true
}

// untilDue returns how long to sleep: 0 when a timer row is due.
func (e *Engine) untilDue() time.Duration {
	at := e.store.NextDue()
	if at == 0 {
		return maxSleep
	}
	// Bounded before it becomes a time.Duration: a job may be due in the year 9999, which is more nanoseconds than 64 bits count.
	left := min(max(at-e.journal.Now(), 0), maxSleep.Milliseconds())
	return time.Duration(left) * time.Millisecond
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// AcceptTime sets the journal's time to the wall clock at once if it is behind it, as after a step of the wall clock, which it would
// otherwise follow at double speed: jobs with a run_at are late meanwhile. All leases begin anew. It returns how far the journal's time is
// ahead of the wall clock afterwards, in ms: a time that is ahead cannot be taken back.
func (e *Engine) AcceptTime(ctx context.Context) (offsetMs int64, err error) {
	if err := e.Ready(); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	select {
	case e.accept <- done:
	case <-ctx.Done():
		return 0, errors.Join(ErrNotStored, ctx.Err())
	case <-e.timeEnded:
		return 0, ErrClosed
	}
	select {
	case <-done:
		return e.ClockOffset().Milliseconds(), nil
	case <-ctx.Done():
		return 0, errors.Join(ErrUnknown, ctx.Err())
	case <-e.timeEnded:
		return 0, ErrClosed
	}
}

// ClockOffset returns how far the journal's time is ahead of the wall clock.
func (e *Engine) ClockOffset() time.Duration { return e.journal.ClockOffset() }
