package machine

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Each function here gets the next state of the lines of a part from package job, moves the lines, and writes what the
// move requires: an attempt of the history, a result, or the purge of jobs that are not kept.

// admit adds the first spans of a group. Lines that made no job, because an existing job has their unique key, are
// purged from the beginning. admit returns the holes that are after the group. held: the batch is paused.
func (a *Applying) admit(b *row.Batch, g *row.Group, holes []row.MadeBy, held bool) []row.MadeBy {
	st := job.Admit(&g.Attributes, a.Now)
	if held {
		st = job.Hold(a.Now)
	}
	for line := g.First; line <= g.Last; {
		last, now := g.Last, st
		if len(holes) > 0 && holes[0].Line <= g.Last {
			if last = holes[0].Line - 1; holes[0].Line == line {
				last, now = line, job.State{Status: job.Purged}
				for holes = holes[1:]; len(holes) > 0 && holes[0].Line == last+1 && last < g.Last; holes = holes[1:] {
					last++
				}
			}
		}
		a.addSpan(b, g, row.Span{line, last, now, 0})
		line = last + 1
	}
	return holes
}

// promote makes deferred lines pending if their run_at has passed.
func (a *Applying) promote(p row.Part) { a.move(p, p.In.Due(a.Now), job.ReasonDue) }

// expire ends waiting lines whose expires_at has passed.
func (a *Applying) expire(p row.Part) {
	next := p.In.Expire(a.Now)
	a.move(p, next, job.ReasonExpired)
	a.purgeUnlessKept(p, &next)
}

// endRun ends the run of lines, and returns their new state. run is the state of the run: the lines' state if they are
// active, and the state from job.State.RunUnclaimed if they wait. A sweep may have to move the lines again: see
// takeBack.
func (a *Applying) endRun(p row.Part, run job.State, o *job.Outcome) job.State {
	running := p
	running.In.State = run
	ended := func(line uint32) job.State {
		return run.End(&p.Group().Attributes, o, a.Now, a.randomOf(p.B, line))
	}
	next := ended(p.First)
	if o.Code.Remembered() {
		attempt := attemptOf(a.claim(run.Claim), job.Reported, o.Error)
		attempt.Code, attempt.ExitCode, attempt.ProcessExit, attempt.LogAddr = o.Code, o.ExitCode, o.ProcessExit, o.LogAddr
		if o.Code == job.Lost {
			attempt.Code, attempt.Error, attempt.Why = job.NoCode, job.LostText, job.RunnerLost
		}
		a.remember(running, attempt)
	}
	if !o.Result.Empty() {
		value := row.EncodeResult(run.Claim, &o.Result)
		for line := p.First; line <= p.Last; line++ {
			a.setDetail(p.B, line, row.ResultDetail, value)
		}
	}
	if o.Code == job.Lost {
		a.runEnded(running, &next, job.RunLost, 0, job.LostText)
	} else {
		a.runEnded(running, &next, o.Code.String(), o.ExitCode, o.Error)
	}
	if next.Status == job.Deferred && o.DelayMs < 0 {
		a.moveEach(p, ended, job.ReasonEnded)
		return next
	}
	a.move(p, next, job.ReasonEnded)
	a.purgeUnlessKept(p, &next)
	return next
}

// attemptOf returns an attempt of a run under a claim. A completion without a claim has a claim of its own, without a runner, which
// the attempt does not name.
func attemptOf(c *row.Claim, why job.Why, text string) job.Attempt {
	attempt := job.Attempt{Runner: c.Runner, Error: text, Why: why}
	if c.Runner != "" {
		attempt.StartedAt, attempt.Claim = c.At, c.Id()
	}
	return attempt
}

// randomOf returns the random number for a command's decisions about a line.
func (a *Applying) randomOf(b *row.Batch, line uint32) uint64 {
	return job.RandomOf(a.Seed, a.Now.Seq, b.Seq, line)
}

// moveEach computes a separate state for each line, so that jobs whose runs ended together do not run again together:
// each waits for its own backoff. A command ends at most job.MaxClaimJobs runs in this way, and each becomes one span
// at worst.
func (a *Applying) moveEach(p row.Part, stateOf func(line uint32) job.State, why job.Reason) {
	for first := p.First; ; {
		next, last := stateOf(first), first
		for last < p.Last && stateOf(last+1) == next {
			last++
		}
		a.Each(p.B, first, last, func(p row.Part) { a.move(p, next, why) })
		if last == p.Last {
			return
		}
		first = last + 1
	}
}

// runEnded records, for an observer, that the runs of active lines end. It must be called before the lines are moved.
func (a *Applying) runEnded(p row.Part, next *job.State, outcome string, exitCode int, text string) {
	if !a.Runs.Observed {
		return
	}
	g, c := p.Group(), a.claim(p.In.Claim)
	q := a.AllQueues.ByID[g.QueueID]
	a.Runs.Add(&job.RunEnd{
		First: job.NewID(p.B.At, p.B.Seq, int(p.First)), Jobs: int(p.Lines()), Client: q.Client, Type: q.Typ, Traceparent: g.Traceparent,
		Claim: c.Id(), Runner: c.Runner, Attempt: int(p.In.Attempts), StartedAt: p.In.UpdatedAt, EndedAt: a.Now.At,
		Outcome: outcome, ExitCode: exitCode, Status: next.Status, Error: memory.BriefError(text),
	})
}

// abandon takes active lines from their claim, and returns their new state.
func (a *Applying) abandon(p row.Part, why job.Reason, text string) job.State {
	next := p.In.Abandon(&p.Group().Attributes, a.Now)
	c := a.claim(p.In.Claim)
	a.remember(p, attemptOf(c, job.Abandoned, text))
	a.runEnded(p, &next, job.RunAbandoned, 0, text)
	a.move(p, next, why)
	a.purgeUnlessKept(p, &next)
	return next
}

// cancel ends lines that have not ended. The runner of active lines is notified when it next reports on them.
func (a *Applying) cancel(p row.Part) {
	next, refusal := p.In.Cancel(a.Now)
	if refusal != job.Granted || next == p.In.State {
		return
	}
	if p.In.Status == job.Active {
		c := a.claim(p.In.Claim)
		a.remember(p, attemptOf(c, job.Asked, job.CancelledText))
		a.addNotice(c)
		a.runEnded(p, &next, job.RunCancelled, 0, job.CancelledText)
	}
	a.move(p, next, job.ReasonCancelled)
	a.purgeUnlessKept(p, &next)
}

// redrive makes ended lines pending. It leaves lines whose unique key a different job has by now, and returns their
// number.
func (a *Applying) redrive(p row.Part) (skipped int64) {
	again := func(first, last uint32) {
		a.Each(p.B, first, last, func(p row.Part) {
			if next, refusal := p.In.Redrive(a.Now); refusal == job.Granted {
				a.move(p, next, job.ReasonRedriven)
			}
		})
	}
	first := p.First
	held := a.takeUniqueKeysAgain(p.B, p.First, p.Last)
	for _, line := range held {
		if first < line {
			again(first, line-1)
		}
		first = line + 1
	}
	if first <= p.Last {
		again(first, p.Last)
	}
	return int64(len(held))
}
