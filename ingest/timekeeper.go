package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// maxSleep bounds a sleep of the timekeeper, for two reasons: the log's time may run at double speed, and the
	// timekeeper must notice if a sleep took too long.
	maxSleep = 250 * time.Millisecond
	// late is the delay from which the timekeeper concludes that the process was suspended, or that the log took no
	// commands. Runners could not tickle during the delay, so all leases get their full length again.
	late = 500 * time.Millisecond

	// A process may be suspended at the beginning of a sleep. The shortest lease must be longer than any suspension that
	// the timekeeper does not notice. Otherwise this line does not compile.
	_ = uint(job.MinLeaseMs - (maxSleep+late)/time.Millisecond)
)

// timekeeper proposes the commands that depend on time, while this process leads the log:
//
//   - a tick when something is due;
//   - a grace, before the next tick, if runners could not tickle for a while, because the process was suspended, the log took
//     no commands, or another process led;
//   - the return of the jobs of lost runners;
//   - the deletion of idle queues;
//   - the bounds of history, and the deletion of its oldest part.
type timekeeper struct {
	e *Engine

	// Shared with other goroutines.
	due   chan struct{}  // capacity 1; has a value when the next timer row may have changed
	calls chan timedCall // see do
	ended chan struct{}  // closed when run has ended

	// Only the goroutine of run uses the fields below.
	term      uint64        // the last term for which the required commands were proposed; 0 before the first
	ticked    time.Time     // end of the last tick or attempt
	rest      time.Duration // least time from ticked to the next tick
	seq       uint64        // seq of the last tick
	rows      int           // number of rows that the next tick may write; 0 before the first tick
	down      time.Time     // when the log stopped taking commands; zero while it takes them
	graceOwed bool          // a grace must precede the next tick
	idleTried time.Time     // time of the last attempt to delete idle queues
	stops     int64         // stall.found when the silence of runners was last excused for a suspension
	losing    *lostRunner   // the runner whose jobs are being returned; nil: none
	looked    time.Time     // time of the last look at history

	stall stallWatch
}

// timedCall is a function that the goroutine of run calls.
type timedCall struct {
	f      func(ctx context.Context) error
	result chan error // gets the result of f; capacity 1
}

func newTimekeeper(e *Engine) *timekeeper {
	return &timekeeper{e: e, due: make(chan struct{}, 1), calls: make(chan timedCall), ended: make(chan struct{})}
}

// run repeats turn until ctx is done, and sleeps while there is nothing to do.
func (k *timekeeper) run(ctx context.Context) {
	defer close(k.ended)
	k.stall.began = time.Now()
	var watch sync.WaitGroup
	watch.Go(func() { k.stall.run(ctx) })
	defer watch.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		sleep := k.sleep()
		awake := time.Now().Add(sleep)
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-k.due:
		case call := <-k.calls:
			stopped := k.stall.found.Load()
			call.result <- call.f(ctx)
			if k.stall.since(stopped) {
				k.oweGrace()
			}
			continue
		case <-ctx.Done():
			return
		}
		k.turn(ctx, awake)
	}
}

// do makes the goroutine of run call f between two turns, and returns the result of f.
func (k *timekeeper) do(ctx context.Context, f func(ctx context.Context) error) error {
	call := timedCall{f, make(chan error, 1)}
	select {
	case k.calls <- call:
	case <-ctx.Done():
		return errors.Join(ErrNotStored, ctx.Err())
	case <-k.ended:
		return ErrClosed
	}
	select {
	case err := <-call.result:
		return err
	case <-ctx.Done():
		return errors.Join(ErrUnknown, ctx.Err())
	case <-k.ended:
		return ErrClosed
	}
}

// sleep returns the time until the next turn.
func (k *timekeeper) sleep() time.Duration {
	due := k.e.untilDue()
	if k.losing != nil {
		due = 0
	}
	return min(max(due, k.rest-time.Since(k.ticked)), maxSleep)
}

// turn proposes the commands that are necessary now. awake is the planned end of the preceding sleep.
func (k *timekeeper) turn(ctx context.Context, awake time.Time) {
	e := k.e
	asOf, now := e.log.Now(), time.Now()
	switch overslept := now.Sub(awake); {
	case overslept > late:
		k.oweGrace()
		e.logger.Warn("the process was stopped; all leases get their full length again", "for", overslept)
	case overslept > 0:
		// The process may have been suspended for that time. Tickles that runners sent in that time are not applied yet,
		// so the tick must not see it.
		asOf -= overslept.Milliseconds()
	}
	if e.log.Health() != nil {
		if k.down.IsZero() {
			k.down = now
		}
		k.skip(now)
		return
	}
	if !k.down.IsZero() {
		if down := now.Sub(k.down); down > late {
			k.oweGrace()
			e.logger.Warn("the journal takes commands again; all leases get their full length again", "after", down)
		}
		k.down = time.Time{}
	}
	if e.accepting() != nil || !k.mayTick(ctx) {
		k.skip(now)
		return
	}
	if e.untilDue() == 0 && time.Since(k.ticked) >= k.rest {
		k.tick(ctx, asOf)
	}
	if awake.Before(now) { // as for the tick, the time since awake does not count
		now = awake
	}
	k.loseRunners(ctx, now)
	k.deleteIdle(ctx)
	k.keepHistory(ctx)
}

// skip postpones the next tick by tickEvery. Without it, run would call turn in a busy loop, because something stays due.
// due.
func (k *timekeeper) skip(now time.Time) { k.ticked, k.rest = now, tickEvery }

// oweGrace records that runners could not report for a while: a grace must precede the next tick, and the silence of
// runners counts from now on.
func (k *timekeeper) oweGrace() {
	k.graceOwed = true
	k.e.runners.Excuse(time.Now())
}

// mayTick reports whether this process leads the log and may propose a tick. If a grace is owed, it proposes the grace
// first.
func (k *timekeeper) mayTick(ctx context.Context) bool {
	leads, err := k.leads(ctx)
	if err == nil && leads && k.graceOwed {
		err = k.grace(ctx)
	}
	if err != nil && !errors.Is(err, ErrNotLeading) && ctx.Err() == nil {
		k.e.logger.Warn("cannot raise the level or give all leases their full length again; trying again", "error", err)
	}
	return err == nil && leads
}

// leads reports whether this process leads the log. In a new term it first proposes the commands that the term requires,
// and returns an error if it could not.
func (k *timekeeper) leads(ctx context.Context) (bool, error) {
	term, leads := k.e.log.Leads()
	if !leads || term == k.term {
		return leads, nil
	}
	err := k.beginTerm(ctx, term)
	if errors.Is(err, ErrNotLeading) {
		return false, nil
	}
	return err == nil, err
}

// beginTerm proposes the commands that a new term requires: a new log begins with the level of this program, and an older
// one gets a grace, because runners may have reached no leader before. It first waits until the state includes the commands
// of earlier leaders, because the grace depends on whether there are active jobs.
func (k *timekeeper) beginTerm(ctx context.Context, term uint64) error {
	if err := k.e.CatchUp(ctx, 0); err != nil {
		return err
	}
	if level, newest := k.e.Level(); k.e.store.Applied() == 0 {
		if _, _, err := k.e.decideAsLeader(ctx, term, job.SetLevel{Level: job.Level}); err != nil {
			return err
		}
	} else if level < newest {
		k.e.logger.Info("this program knows a newer level; raise it with `daybook level raise` when you will not go back to an older version",
			"level", level, "newest", newest)
	}
	k.term, k.losing, k.looked = term, nil, time.Time{}
	k.oweGrace()
	return k.grace(ctx)
}

// grace proposes to give all leases their full length again. If that fails, the grace is still owed.
func (k *timekeeper) grace(ctx context.Context) error {
	if k.e.store.Totals().Counts[job.Active] > 0 {
		k.e.counters.graces.Add(1)
		if _, _, err := k.e.decideAsLeader(ctx, k.term, job.Grace{}); err != nil {
			return err
		}
	}
	k.graceOwed = false
	return nil
}

// acceptTime sets the log's time to the wall clock. Then it gives all leases their full length again, because the skipped
// time did not pass for runners. No tick happens between the two, so no lease runs out.
func (k *timekeeper) acceptTime(ctx context.Context) error {
	log := k.e.log
	if _, leads := log.Leads(); !leads {
		return fmt.Errorf("accept the wall clock: %w: %w", ErrNotStored, ErrNotLeading)
	}
	before := log.Now()
	log.AcceptTime()
	if skipped := log.Now() - before; skipped > 0 {
		k.oweGrace()
		k.e.logger.Warn("the journal's time was set to the wall clock; all leases get their full length again", "skipped_ms", skipped)
	}
	if k.graceOwed {
		k.mayTick(ctx) // if the grace fails, it is still owed, and the next turn proposes it before any tick
	}
	return nil
}

// AcceptTime sets the log's time to the wall clock if the wall clock is later, for example after somebody set it forward.
// Otherwise the log's time would follow at double speed, and jobs with a run_at would be late until it has caught up. All
// leases get their full length again.
//
// AcceptTime returns how far the log's time is then ahead of the wall clock, in ms. If the log's time is ahead,
// AcceptTime does not set it back. The error is ErrNotLeading if this process does not lead the log.
func (e *Engine) AcceptTime(ctx context.Context) (offsetMs int64, err error) {
	r, err := e.atLeader(ctx, errand{AcceptTime: &acceptTime{}})
	return r.Offset, err
}

// Level returns the level whose rules the state follows, and the newest level that this program and those of all other nodes
// know.
func (e *Engine) Level() (level, newest int) {
	level, newest = e.store.Level(), job.Level
	if e.shared != nil {
		newest = max(level, min(newest, e.shared.MaxLevel()))
	}
	return level, newest
}

// RaiseLevel raises the level to the newest one that Level returns, and returns it. Programs that do not know this level can
// then no longer apply the log. A repeat has no effect.
func (e *Engine) RaiseLevel(ctx context.Context) (level int, receipt Receipt, err error) {
	_, level = e.Level()
	if _, receipt, err = e.decide(ctx, job.SetLevel{Level: level}); err != nil {
		return 0, receipt, err
	}
	return level, receipt, nil
}

// untilDue returns the time until a timer row is due, but at most maxSleep. It is 0 if one is due.
func (e *Engine) untilDue() time.Duration {
	at := e.store.NextDue()
	if at == 0 {
		return maxSleep
	}
	// The milliseconds are bounded before they become a time.Duration: a job may be due in the year 9999, and the
	// nanoseconds until then do not fit into 64 bits.
	left := min(max(at-e.log.Now(), 0), maxSleep.Milliseconds())
	return time.Duration(left) * time.Millisecond
}

// ClockOffset returns how far the log's time is ahead of the wall clock.
func (e *Engine) ClockOffset() time.Duration { return e.log.Status().ClockOffset }
