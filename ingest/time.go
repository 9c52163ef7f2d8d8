package ingest

import (
	"context"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// tickEvery keeps ticks apart, so that leases running out one by one cost a journal record each 50 ms and not each.
	tickEvery = 50 * time.Millisecond
	// maxSleep bounds a sleep of the timer: the journal's clock may run at double speed, and being late must be noticed.
	maxSleep = time.Second
	// late is how much longer than asked a sleep must take to say that the process, or the machine, stood still. Runners could
	// not tickle then, so all leases begin anew.
	late = 2 * time.Second
)

// keepTime proposes what time brings: ticks when something is due, a grace when the process stood still, and the giving back of
// claims whose callers hung up.
func (e *Engine) keepTime(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		sleep, asleep := e.untilDue(), time.Now()
		timer.Reset(sleep)
		select {
		case <-timer.C:
			if time.Since(asleep) > sleep+late {
				e.grace(ctx, time.Since(asleep)-sleep)
			}
		case <-e.due:
			continue
		case <-e.stray:
			e.ungetStrays(ctx)
			continue
		case <-ctx.Done():
			return
		}
		if e.untilDue() == 0 && e.accepting() == nil {
			e.tick(ctx)
		}
	}
}

// untilDue returns how long to sleep: 0 when a timer row is due.
func (e *Engine) untilDue() time.Duration {
	at := e.store.NextDue()
	if at == 0 {
		return maxSleep
	}
	return min(max(time.Duration(at-e.journal.Now())*time.Millisecond, 0), maxSleep)
}

func (e *Engine) tick(ctx context.Context) {
	e.ticks.Add(1)
	if _, _, err := e.decide(ctx, job.Tick{}); err != nil && ctx.Err() == nil {
		e.log.Warn("cannot tick; trying again", "error", err)
		pause(ctx, maxSleep)
		return
	}
	if e.untilDue() > 0 {
		pause(ctx, tickEvery)
	}
}

func (e *Engine) grace(ctx context.Context, stood time.Duration) {
	if e.accepting() != nil || e.store.Totals().Counts[job.Active] == 0 {
		return
	}
	e.graces.Add(1)
	e.log.Warn("the process stood still; all leases begin anew", "for", stood)
	if _, _, err := e.decide(ctx, job.Grace{}); err != nil && ctx.Err() == nil {
		e.log.Warn("cannot give grace; leases may run out early", "error", err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
