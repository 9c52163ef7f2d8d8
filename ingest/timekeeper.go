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
	// maxSleep bounds a sleep of the timekeeper: the log's time may run at double speed, and a sleep that took too long
	// must be noticed.
	maxSleep = 250 * time.Millisecond
	// late is how much longer than planned something must take to show that the process was stopped, or that the log
	// took no commands. Runners could not tickle meanwhile, so all leases get their full length again.
	late = 500 * time.Millisecond

	// A process may be stopped at the beginning of a sleep. Even then the shortest lease must not run out unnoticed.
	_ = uint(job.MinLeaseMs - (maxSleep+late)/time.Millisecond)
)

// timekeeper proposes what time requires, while this process leads the log: ticks when something is due; a grace when
// runners could not tickle for a while, because the process was stopped, the log took no commands, or another process
// led; and the deletion of idle queues. A grace comes before the next tick.
type timekeeper struct {
	e *Engine

	// Shared with other goroutines.
	due   chan struct{}  // capacity 1: the next timer row may have changed
	calls chan timedCall // see do
	ended chan struct{}  // closed when run has ended

	// Of the goroutine of run.
	term   uint64        // that has what a new term requires; 0: none yet
	ticked time.Time     // when the last tick was done, or could not be
	rest   time.Duration // from then to the next
	seq    uint64        // of the last tick
	rows   int           // that the next tick may write; 0 before the first
	down   time.Time     // since when the log takes no commands; zero while it does
	owed   bool          // a grace
	idled  time.Time     // when idle queues were last deleted, or could not be

	stall stallWatch
}

// timedCall is a function that the goroutine of run calls, and the channel of capacity 1 that gets its result.
type timedCall struct {
	f      func(ctx context.Context) error
	result chan error
}

func newTimekeeper(e *Engine) *timekeeper {
	return &timekeeper{e: e, due: make(chan struct{}, 1), calls: make(chan timedCall), ended: make(chan struct{})}
}

// run takes turns until ctx is done.
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
			k.owed = k.owed || k.stall.since(stopped)
			continue
		case <-ctx.Done():
			return
		}
		k.turn(ctx, awake)
	}
}

// do has the goroutine of run call f between two turns, and returns its result.
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

// sleep returns how long there is nothing to do.
func (k *timekeeper) sleep() time.Duration {
	return min(max(k.e.untilDue(), k.rest-time.Since(k.ticked)), maxSleep)
}

// turn does what there is to do, after a sleep that should have ended at awake or before.
func (k *timekeeper) turn(ctx context.Context, awake time.Time) {
	e := k.e
	asOf, now := e.log.Now(), time.Now()
	switch over := now.Sub(awake); {
	case over > late:
		k.owed = true
		e.logger.Warn("the process was stopped; all leases get their full length again", "for", over)
	case over > 0: // the process may have been stopped; what runners sent meanwhile is not applied yet, so nothing is due because of this time
		asOf -= over.Milliseconds()
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
			k.owed = true
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
	k.deleteIdle(ctx)
}

// skip leaves what is due for the next turn, which must not come at once: what is due stays due, and the loop would
// spin.
func (k *timekeeper) skip(now time.Time) { k.ticked, k.rest = now, tickEvery }

// mayTick reports whether this process leads the log and nothing must come before the next tick.
func (k *timekeeper) mayTick(ctx context.Context) bool {
	leads, err := k.leads(ctx)
	if err == nil && leads && k.owed {
		err = k.grace(ctx)
	}
	if err != nil && !errors.Is(err, ErrNotLeading) && ctx.Err() == nil {
		k.e.logger.Warn("cannot raise the level or give all leases their full length again; trying again", "error", err)
	}
	return err == nil && leads
}

// leads reports whether this process leads the log. In a new term it first proposes what the term requires; an error
// means that this could not be done.
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

// beginTerm proposes what a new term requires: the level of this program, and a grace, since runners may have reached
// no leader before. The state must include what earlier leaders stored: it says whether there is anybody to give a
// grace to.
func (k *timekeeper) beginTerm(ctx context.Context, term uint64) error {
	if err := k.e.CatchUp(ctx, 0); err != nil {
		return err
	}
	if k.e.store.Level() < job.Level {
		if _, _, err := k.e.decideAsLeader(ctx, term, job.SetLevel{Level: job.Level}); err != nil {
			return err
		}
	}
	k.term, k.owed = term, true
	return k.grace(ctx)
}

// grace gives all leases their full length again. While it fails it stays owed.
func (k *timekeeper) grace(ctx context.Context) error {
	if k.e.store.Totals().Counts[job.Active] > 0 {
		k.e.counters.graces.Add(1)
		if _, _, err := k.e.decideAsLeader(ctx, k.term, job.Grace{}); err != nil {
			return err
		}
	}
	k.owed = false
	return nil
}

// acceptTime sets the log's time to the wall clock and gives all leases their full length again, because runners did
// not see the time pass. No tick comes between the two, so no lease has run out by then.
func (k *timekeeper) acceptTime(ctx context.Context) error {
	log := k.e.log
	if _, leads := log.Leads(); !leads {
		return fmt.Errorf("accept the wall clock: %w: %w", ErrNotStored, ErrNotLeading)
	}
	before := log.Now()
	log.AcceptTime()
	if skipped := log.Now() - before; skipped > 0 {
		k.owed = true
		k.e.logger.Warn("the journal's time was set to the wall clock; all leases get their full length again", "skipped_ms", skipped)
	}
	if k.owed {
		k.mayTick(ctx) // if it fails the grace stays owed, and the next turn tries again before any tick
	}
	return nil
}

// AcceptTime sets the log's time to the wall clock at once if it is behind it, as after a step of the wall clock, which
// it would otherwise follow at double speed: jobs with a run_at are late meanwhile. All leases get their full length
// again. It returns how far the log's time is ahead of the wall clock afterwards, in ms: a time that is ahead cannot be
// taken back. Only the process that leads the log can do this; others return ErrNotLeading.
func (e *Engine) AcceptTime(ctx context.Context) (offsetMs int64, err error) {
	if err := e.Ready(); err != nil {
		return 0, err
	}
	if err := e.time.do(ctx, e.time.acceptTime); err != nil {
		return 0, err
	}
	return e.ClockOffset().Milliseconds(), nil
}

// untilDue returns how long to sleep: 0 when a timer row is due.
func (e *Engine) untilDue() time.Duration {
	at := e.store.NextDue()
	if at == 0 {
		return maxSleep
	}
	// Bounded before it becomes a time.Duration: a job may be due in the year 9999, which is more nanoseconds than 64
	// bits count.
	left := min(max(at-e.log.Now(), 0), maxSleep.Milliseconds())
	return time.Duration(left) * time.Millisecond
}

// ClockOffset returns how far the log's time is ahead of the wall clock.
func (e *Engine) ClockOffset() time.Duration { return e.log.Status().ClockOffset }
