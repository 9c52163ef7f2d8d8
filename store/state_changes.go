package store

import "github.com/daybookq/daybook/job"

// lostText is the error in the history of a run whose runner was declared lost.
const lostText = "its runner was lost"

// Each function here gets the next state of the lines of a part from package job, moves the lines, and writes what the
// move requires: an attempt of the history, a result, or the purge of jobs that are not kept.

// admit adds the first spans of a group. Lines that made no job, because an existing job has their unique key, are
// purged from the beginning. admit returns the holes that are after the group. held: the batch is paused.
func (a *applying) admit(b *batch, g *group, holes []madeBy, held bool) []madeBy {
	st := job.Admit(&g.Attributes, a.now)
	if held {
		st = job.Hold(a.now)
	}
	for line := g.first; line <= g.last; {
		last, now := g.last, st
		if len(holes) > 0 && holes[0].line <= g.last {
			if last = holes[0].line - 1; holes[0].line == line {
				last, now = line, job.State{Status: job.Purged}
				for holes = holes[1:]; len(holes) > 0 && holes[0].line == last+1 && last < g.last; holes = holes[1:] {
					last++
				}
			}
		}
		a.addSpan(b, g, span{line, last, now})
		line = last + 1
	}
	return holes
}

// promote makes deferred lines pending if their run_at has passed.
func (a *applying) promote(p part) { a.move(p, p.in.Due(a.now), reasonDue) }

// expire ends waiting lines whose expires_at has passed.
func (a *applying) expire(p part) {
	next := p.in.Expire(a.now)
	a.move(p, next, reasonExpired)
	a.purgeUnlessKept(p, &next)
}

// endRun ends the run of lines, and returns their new state. run is the state of the run: the lines' state if they are
// active, and the state from job.State.RunUnclaimed if they wait. A sweep may have to move the lines again: see
// takeBack.
func (a *applying) endRun(p part, run job.State, o *job.Outcome) job.State {
	running := p
	running.in.State = run
	ended := func(line uint32) job.State {
		return run.End(&p.group().Attributes, o, a.now, a.randomOf(p.b, line))
	}
	next := ended(p.first)
	if o.Code.Remembered() {
		attempt := job.Attempt{Runner: a.claim(run.Claim).runner, Code: o.Code, ExitCode: o.ExitCode, Error: o.Error, Why: job.Reported, StartedAt: a.claim(run.Claim).at}
		if o.Code == job.Lost {
			attempt.Code, attempt.Error, attempt.Why = job.NoCode, lostText, job.RunnerLost
		}
		a.remember(running, attempt)
	}
	if !o.Result.Empty() {
		value := encodeResult(run.Claim, &o.Result)
		for line := p.first; line <= p.last; line++ {
			a.setDetail(p.b, line, resultDetail, value)
		}
	}
	if o.Code == job.Lost {
		a.runEnded(running, &next, job.RunLost, 0, lostText)
	} else {
		a.runEnded(running, &next, o.Code.String(), o.ExitCode, o.Error)
	}
	if next.Status == job.Deferred && o.DelayMs < 0 {
		a.moveEach(p, ended, reasonEnded)
		return next
	}
	a.move(p, next, reasonEnded)
	a.purgeUnlessKept(p, &next)
	return next
}

// randomOf returns the random number for a command's decisions about a line.
func (a *applying) randomOf(b *batch, line uint32) uint64 {
	return mix(a.seed, a.now.Seq, b.seq, line)
}

// moveEach computes a separate state for each line, so that jobs whose runs ended together do not run again together:
// each waits for its own backoff. A command ends at most job.MaxClaimJobs runs in this way, and each becomes one span
// at worst.
func (a *applying) moveEach(p part, stateOf func(line uint32) job.State, why reason) {
	for first := p.first; ; {
		next, last := stateOf(first), first
		for last < p.last && stateOf(last+1) == next {
			last++
		}
		a.each(p.b, first, last, func(p part) { a.move(p, next, why) })
		if last == p.last {
			return
		}
		first = last + 1
	}
}

// runEnded records, for an observer, that the runs of active lines end. It must be called before the lines are moved.
func (a *applying) runEnded(p part, next *job.State, outcome string, exitCode int, text string) {
	if !a.runs.observed {
		return
	}
	g, c := p.group(), a.claim(p.in.Claim)
	q := a.queues.byID[g.queueID]
	a.runs.add(&job.RunEnd{
		First: job.NewID(p.b.at, p.b.seq, int(p.first)), Jobs: int(p.lines()), Client: q.client, Type: q.typ, Traceparent: g.Traceparent,
		Claim: c.id(), Runner: c.runner, Attempt: int(p.in.Attempts), StartedAt: p.in.UpdatedAt, EndedAt: a.now.At,
		Outcome: outcome, ExitCode: exitCode, Status: next.Status, Error: briefError(text),
	})
}

// Errors in the history of runs that their runners did not end.
const (
	abandonedText = "nobody tickled it within its lease"
	timedOutText  = "it ran longer than its timeout_ms"
	cancelledText = "it was cancelled"
)

// abandon takes active lines from their claim, and returns their new state.
func (a *applying) abandon(p part, why reason, text string) job.State {
	next := p.in.Abandon(&p.group().Attributes, a.now)
	c := a.claim(p.in.Claim)
	a.remember(p, job.Attempt{Runner: c.runner, Error: text, Why: job.Abandoned, StartedAt: c.at})
	a.runEnded(p, &next, job.RunAbandoned, 0, text)
	a.move(p, next, why)
	a.purgeUnlessKept(p, &next)
	return next
}

// cancel ends lines that have not ended. The runner of active lines is notified when it next reports on them.
func (a *applying) cancel(p part) {
	next, refusal := p.in.Cancel(a.now)
	if refusal != job.Granted || next == p.in.State {
		return
	}
	if p.in.Status == job.Active {
		c := a.claim(p.in.Claim)
		a.remember(p, job.Attempt{Runner: c.runner, Error: cancelledText, Why: job.Asked, StartedAt: c.at})
		a.addNotice(c)
		a.runEnded(p, &next, job.RunCancelled, 0, cancelledText)
	}
	a.move(p, next, reasonCancelled)
	a.purgeUnlessKept(p, &next)
}

// redrive makes ended lines pending. It leaves lines whose unique key a different job has by now, and returns their
// number.
func (a *applying) redrive(p part) (skipped int64) {
	again := func(first, last uint32) {
		a.each(p.b, first, last, func(p part) {
			if next, refusal := p.in.Redrive(a.now); refusal == job.Granted {
				a.move(p, next, reasonRedriven)
			}
		})
	}
	first := p.first
	held := a.takeUniqueKeysAgain(p.b, p.first, p.last)
	for _, line := range held {
		if first < line {
			again(first, line-1)
		}
		first = line + 1
	}
	if first <= p.last {
		again(first, p.last)
	}
	return int64(len(held))
}

// purgeUnlessKept purges lines that have ended, if they are not to be kept.
func (a *applying) purgeUnlessKept(p part, next *job.State) {
	if _, atOnce := next.PurgeAt(&p.group().Attributes); atOnce && next.Status.Terminal() {
		a.each(p.b, p.first, p.last, func(p part) { a.purge(p, reasonPurged) })
	}
}

// purge deletes lines in any status. A page is deleted with the last of its lines, and a batch with the last of all its
// lines.
func (a *applying) purge(p part, why reason) {
	if why == reasonPurged {
		a.keepEnd(p)
	}
	if p.b.unique {
		a.besideRows += uniqueKeyRows * a.deleteUniqueKeys(p.b, p.first, p.last)
	}
	next := job.State{Status: job.Purged}
	if p.in.Status == job.Active {
		a.runEnded(p, &next, job.RunDeleted, 0, "")
	}
	a.move(p, next, why)
	if p.b.details {
		a.deleteDetails(p.run())
	}
	a.deletePages(p.b, p.first, p.last)
	a.deleteIfPurged(p.b)
}
