package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// lostRunner is a runner that was declared lost, and whose jobs are being returned.
type lostRunner struct {
	registry.Runner
	through uint64 // claims up to this seq are those of the lost instance
	jobs    int    // returned so far
	// answered is closed when the claims of the runner that were under way are answered. Those that got jobs have returned them
	// by then, so that no job loses an attempt that no answer named. ended is closed when the connections of the runner have
	// ended and returned their jobs; nil if nobody ends connections. patience bounds the wait for both.
	answered, ended <-chan struct{}
	patience        time.Time
}

const (
	// endPatience is how long the loss of a runner waits for the end of its connections, and endPause how long the time
	// keeper does before it looks again.
	endPatience = 5 * time.Second
	endPause    = 5 * time.Millisecond
)

// loseRunners declares runners lost that were overdue at asOf, and returns their jobs, one runner after the other. asOf is
// a time before the process was last seen to run: if the process is stopped now, no silence during the stop counts. After
// tickEvery the rest waits for the next turn, so that ticks are not delayed.
func (k *timekeeper) loseRunners(ctx context.Context, asOf time.Time) {
	began := time.Now()
	for ctx.Err() == nil && time.Since(began) < tickEvery {
		if k.losing == nil && !k.declareLost(asOf) {
			return
		}
		if !k.returnJobs(ctx) {
			return
		}
	}
}

// declareLost declares a runner lost if one is overdue, and reports whether it did.
func (k *timekeeper) declareLost(asOf time.Time) bool {
	e := k.e
	if !e.runners.Overdue(asOf) {
		return false
	}
	if stops := k.stall.found.Load(); k.stall.since(k.stops) {
		// The process was stopped at a place that the turn does not watch. The heartbeats of that time may not be read yet.
		k.stops = stops
		e.runners.Excuse(time.Now())
		return false
	}
	// This is read before the runner is declared lost: afterwards, another instance may register and claim at once.
	through := e.log.Status().Appended
	lost, ok := e.runners.Lose(registry.Moment{At: e.log.Now(), Mono: asOf})
	if ok {
		k.losing = &lostRunner{Runner: lost, through: through, patience: time.Now().Add(endPatience)}
		k.losing.answered = e.silences.note(lost.ID)
		if end := e.endConnections.Load(); end != nil {
			k.losing.ended = (*end)(lost.ID)
		}
	}
	return ok
}

// returned reports whether what the connections and claims of the runner held is returned, with what they know of the runs
// that had begun.
func (l *lostRunner) returned() bool {
	return isClosed(l.answered) && (l.ended == nil || isClosed(l.ended))
}

// returnJobs proposes the next command for the runner that was declared lost. It reports whether it succeeded.
func (k *timekeeper) returnJobs(ctx context.Context) bool {
	e, lost := k.e, k.losing
	if !lost.returned() && time.Now().Before(lost.patience) {
		pause(ctx, endPause)
		return false
	}
	result, _, err := e.decideAsLeader(ctx, k.term, job.LoseRunner{Runner: lost.ID, Through: lost.through})
	switch {
	case errors.Is(err, ErrNotLeading):
		k.losing = nil // its leases end; heartbeats go to the process that leads now
		return false
	case err != nil:
		if ctx.Err() == nil {
			e.logger.Warn("cannot return the jobs of a lost runner; trying again", "runner_id", lost.ID, "error", err)
			pause(ctx, maxSleep)
		}
		return false
	}
	returned := result.(*store.RunnerLost)
	lost.jobs += returned.Jobs
	if returned.More {
		return true
	}
	k.losing = nil
	e.logger.Warn("a runner was lost: its heartbeats are missing", "runner_id", lost.ID, "name", lost.Name, "heartbeat_at", lost.HeartbeatAt, "jobs_returned", lost.jobs)
	if e.o.OnLost != nil {
		e.o.OnLost(lost.Runner)
	}
	return true
}
