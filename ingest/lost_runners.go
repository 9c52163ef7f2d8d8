package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// lostRunner is a runner that was declared lost, while its jobs are being returned.
type lostRunner struct {
	registry.Runner
	through uint64 // claims up to this seq belong to the lost instance
	jobs    int    // returned so far
	// answered is closed when the runner's claims in progress are answered. By then, claims that got jobs have returned
	// them, so that no job loses an attempt that no answer named. ended is closed when the runner's connections have
	// ended and returned their jobs, and is nil if connections are not ended. patience bounds the wait for both.
	answered, ended <-chan struct{}
	patience        time.Time
}

const (
	// endPatience is how long the loss of a runner waits for the end of its connections. endPause is how long the
	// timekeeper waits before it checks again.
	endPatience = 5 * time.Second
	endPause    = 5 * time.Millisecond
)

// loseRunners declares the runners lost that were overdue at asOf, and returns their jobs, one runner after the other.
// asOf is a time before the process was last seen to run: if the process is suspended now, that time does not count as
// silence. After tickEvery the rest waits for the next turn, so that ticks are not delayed.
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

// declareLost declares one overdue runner lost, and reports whether it did.
func (k *timekeeper) declareLost(asOf time.Time) bool {
	e := k.e
	if !e.runners.Overdue(asOf) {
		return false
	}
	if stops := k.stall.found.Load(); k.stall.since(k.stops) {
		// The process was suspended at a place that the turn does not watch. Heartbeats of that time may not have been
		// read yet.
		k.stops = stops
		e.runners.Excuse(time.Now())
		return false
	}
	// Read this before the runner is declared lost: afterwards, a new instance may register and claim.
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

// lostElsewhere ends what a runner has at this node after the leader, another node, has declared the runner lost.
func (e *Engine) lostElsewhere(r *journal.Record) {
	_, cmd, err := job.DecodeRecord(r.Verb, r.Fields, r.Body)
	if err != nil {
		return // it was applied, so it can be decoded
	}
	lost := cmd.(job.LoseRunner)
	e.silences.note(lost.Runner)
	if end := e.endConnections.Load(); end != nil {
		(*end)(lost.Runner)
	}
}

// returned reports whether the jobs of the runner's connections and claims are returned, with their reports about runs
// that had begun.
func (l *lostRunner) returned() bool {
	return isClosed(l.answered) && (l.ended == nil || isClosed(l.ended))
}

// returnJobs proposes the next command for the lost runner, and reports whether it succeeded.
func (k *timekeeper) returnJobs(ctx context.Context) bool {
	e, lost := k.e, k.losing
	if !lost.returned() && time.Now().Before(lost.patience) {
		pause(ctx, endPause)
		return false
	}
	result, _, err := e.decideAsLeader(ctx, k.term, job.LoseRunner{Runner: lost.ID, Through: lost.through})
	switch {
	case errors.Is(err, ErrNotLeading):
		k.losing = nil // the leases will end; heartbeats reach the new leader
		return false
	case err != nil:
		if ctx.Err() == nil {
			e.logger.Warn("cannot return the jobs of a lost runner; trying again", "runner_id", lost.ID, "error", err)
			pause(ctx, maxSleep)
		}
		return false
	}
	returned := result.(*applied.RunnerLost)
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
