package store

import (
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

func (m *model) moveOne(cmd job.Move) applied.Result {
	j := m.Find(cmd.Job)
	if j == nil {
		return &applied.Moved{Refusal: job.NotFound}
	}
	switch cmd.Op {
	case job.Cancel:
		switch {
		case j.status == job.Cancelled:
			return &applied.Moved{Status: job.Cancelled}
		case j.status.Terminal():
			return &applied.Moved{Refusal: job.HasEnded}
		}
		m.cancel(j)
		return &applied.Moved{Status: job.Cancelled}
	case job.Redrive:
		if !j.status.Terminal() {
			return &applied.Moved{Refusal: job.HasNotEnded}
		}
		if m.doomed(j) {
			return &applied.Moved{Refusal: job.NotFound}
		}
		if j.batch.submission.Ended() {
			return &applied.Moved{Refusal: job.BatchEnded}
		}
		if m.keyHeld(j) {
			return &applied.Moved{Refusal: job.KeyHeld}
		}
		m.redrive(j)
	case job.Run:
		switch {
		case j.status == job.Active:
			return &applied.Moved{Refusal: job.IsActive}
		case j.status.Terminal():
			return &applied.Moved{Refusal: job.HasEnded}
		case j.status == job.Deferred:
			if j.code == job.Damaged {
				j.code, j.claim = job.NoCode, nil
			}
			m.makePending(j)
		}
	case job.Delete:
		was := j.status
		m.purge(j)
		return &applied.Moved{Status: was}
	}
	return &applied.Moved{Status: job.Pending}
}

func (m *model) cancel(j *modelJob) {
	m.tally(j).Cancelled++
	if j.status == job.Active {
		m.remember(j, job.Attempt{At: m.at, Runner: j.claim.runner, Error: job.CancelledText, Why: job.Asked, StartedAt: j.claim.id.At()})
		j.claim.cancelledAt = m.at
	} else {
		j.claim = nil
	}
	j.code, j.exitCode = job.NoCode, 0
	m.terminal(j, job.Cancelled, job.Asked)
}

func (m *model) expire(j *modelJob) {
	m.tally(j).Cancelled++
	m.tally(j).Expired++
	j.claim, j.code, j.exitCode = nil, job.NoCode, 0
	m.terminal(j, job.Cancelled, job.Expired)
}

// keyHeld reports whether a different unfinished job has the job's unique key.
func (m *model) keyHeld(j *modelJob) bool {
	return j.key != "" && m.keys[j.queue.name][j.key].holdsKey()
}

func (m *model) redrive(j *modelJob) {
	m.tally(j).Redriven++
	if j.key != "" {
		m.keys[j.queue.name][j.key] = j
	}
	j.redrives++
	j.redriven = m.seq
	m.noteRedriven(j)
	j.attempts, j.claim, j.code, j.exitCode, j.cameBack = 0, nil, job.NoCode, 0, false
	m.makePending(j)
}

func (m *model) patch(p job.Patch) applied.Result {
	j := m.Find(p.Job)
	switch {
	case j == nil, m.doomed(j):
		return &applied.Moved{Refusal: job.NotFound}
	case j.status == job.Active:
		return &applied.Moved{Refusal: job.IsActive}
	case j.status.Terminal():
		return &applied.Moved{Refusal: job.HasEnded}
	case p.MaxAttempts != nil && *p.MaxAttempts <= j.attempts:
		return &applied.Moved{Refusal: job.AttemptsUsed}
	}
	was := *j
	if p.Priority != nil {
		j.attr.Priority = *p.Priority
	}
	if p.MaxAttempts != nil {
		j.attr.MaxAttempts = *p.MaxAttempts
	}
	runAt := j.runAt
	if p.RunAt != nil {
		runAt = *p.RunAt
	}
	if j.code == job.Damaged && runAt != j.runAt {
		j.code, j.claim = job.NoCode, nil
	}
	switch order := j.order; {
	case runAt > m.at:
		j.status, j.runAt, j.movedAt = job.Deferred, runAt, m.at
	case j.status == job.Pending && j.movedAt == m.at && j.attr == was.attr: // nothing changes
	case j.status == job.Pending: // it keeps its place
		m.makePending(j)
		j.order = order
	default:
		m.makePending(j)
	}
	if m.overtake([]*modelJob{j}); !j.status.Waits() {
		return &applied.Moved{Status: job.Cancelled} // the job may also be deleted
	}
	return &applied.Moved{Status: j.status}
}

// Covers reports whether a job existed when the sweep was requested.
func (w *modelSweep) Covers(j *modelJob) bool {
	if w.move.Batch.IsZero() {
		return j.queue.name == row.QueueName{w.move.Client, w.move.Type} && j.batch.seq < w.seq
	}
	return j.batch.shown() == w.move.Batch && j.batch.seq <= w.seq
}

// doomed reports whether a sweep that deletes everything has yet to delete a job.
func (m *model) doomed(j *modelJob) bool {
	if of := j.batch.submission; of != nil && of.deleting {
		return true
	}
	return slices.ContainsFunc(m.sweeps, func(w *modelSweep) bool {
		return !w.ended && w.move.Op == job.Delete && w.thorough() && w.Covers(j)
	})
}

// outdoes reports whether a redrive must leave a job to this sweep.
func (w *modelSweep) outdoes(redrive *modelSweep, j *modelJob) bool {
	return redrive.move.Op == job.Redrive && w.thorough() && w.Covers(j) && (w.move.Op == job.Delete || w.seq > redrive.seq)
}

// takes reports whether a sweep must take a job in its present state.
func (m *model) takes(w *modelSweep, j *modelJob) bool {
	if !w.Covers(j) || w.move.Op == job.Redrive && j.batch.submission.Ended() {
		return false
	}
	for _, other := range m.sweeps { // a sweep with nothing left to take may have ended, or be about to end
		if !other.ended && other.outdoes(w, j) && len(m.targets(other)) > 0 {
			return false
		}
	}
	if w.move.Status == 0 {
		if !slices.Contains(w.move.Op.Takes(), j.status) {
			return false
		}
	} else if j.status != w.move.Status {
		return false
	}
	return w.thorough() || j.movedAt <= w.id.At()
}

func (w *modelSweep) thorough() bool { return w.move.Status == 0 && w.move.Op != job.Redrive }

// targets returns the jobs that a sweep must still take. It leaves out jobs for which the model cannot know: jobs with
// a unique key, which a different job may have had at the redrive; jobs that the sweep may have passed before they were
// redriven; and jobs that changed in the millisecond in which the sweep began.
func (m *model) targets(w *modelSweep) (jobs []*modelJob) {
	for _, b := range m.batches {
		for _, j := range b.lines {
			if m.mustTake(w, j) {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

func (m *model) mustTake(w *modelSweep, j *modelJob) bool {
	switch {
	case !m.takes(w, j):
		return false
	case w.thorough():
		return w.move.Op == job.Delete || j.redriven <= w.seq
	case w.move.Op == job.Redrive && j.key != "":
		return false
	}
	return j.movedAt < w.id.At() && !slices.ContainsFunc(m.sweeps, func(other *modelSweep) bool { return other.outdoes(w, j) })
}

func (m *model) sweepOne(w *modelSweep, j *modelJob) {
	switch w.move.Op {
	case job.Cancel:
		m.cancel(j)
	case job.Redrive:
		m.redrive(j)
	case job.Delete:
		j.code = job.NoCode
		m.purge(j)
	}
	w.moved++
}

func (m *model) startSweep(move job.Move, events []event) applied.Result {
	w := &modelSweep{id: job.NewID(m.at, m.seq, 0), seq: m.seq, move: move}
	if move.Batch.IsZero() {
		if m.queues[row.QueueName{move.Client, move.Type}] == nil {
			return &applied.Swept{Refusal: job.QueueNotFound}
		}
	} else if s := m.Submission(move.Batch); s != nil {
		if move.Status == 0 && move.Op != job.Redrive {
			return m.endByRequest(s, move.Op, events)
		}
		if move.Op == job.Redrive && s.Ended() {
			return &applied.Swept{Refusal: job.BatchEnded}
		}
	} else if !slices.ContainsFunc(m.batches, func(b *modelBatch) bool { return b.submission == nil && b.shown() == move.Batch }) {
		return &applied.Swept{Refusal: job.BatchNotFound}
	}
	if events == nil {
		for jobs := m.targets(w); len(jobs) > 0; jobs = m.targets(w) {
			m.sweepOne(w, jobs[0])
		}
		return &applied.Swept{Moved: w.moved}
	}
	// If two jobs have the same key, the order decides which one is redriven.
	for _, e := range events {
		if j := m.jobs[e.id]; j != nil && sweepReasons[e.why] == move.Op {
			if !m.takes(w, j) {
				panic(fmt.Sprintf("a sweep took %v, which %v must not take", j, move))
			}
			m.sweepOne(w, j)
		}
	}
	result := &applied.Swept{Moved: w.moved}
	if len(m.targets(w)) > 0 {
		result.Sweep = w.id
	}
	m.sweeps = append(m.sweeps, w)
	return result
}

var sweepReasons = map[job.Reason]job.Op{job.ReasonCancelled: job.Cancel, job.ReasonRedriven: job.Redrive, job.ReasonDeleted: job.Delete}

// sweeping returns a sweep that may take a job.
func (m *model) sweeping(j *modelJob, op job.Op) *modelSweep {
	for _, w := range m.sweeps {
		if !w.ended && w.move.Op == op && m.takes(w, j) {
			return w
		}
	}
	return nil
}

// overtake lets the sweeps of queues take jobs that were returned, if these sweeps take everything.
func (m *model) overtake(jobs []*modelJob) {
	for _, j := range jobs {
		if j.status.Waits() && j.batch.submission.Ended() {
			m.endRest(j)
		}
		for _, w := range m.sweeps {
			if j.status.Waits() && w.thorough() && w.move.Batch.IsZero() && !w.ended && m.takes(w, j) {
				if m.ticking && !m.sweptLater(j) {
					m.spared = append(m.spared, w.id)
					continue
				}
				m.sweepOne(w, j)
				break
			}
		}
	}
}

// sweptLater reports whether a sweep takes a job later in the same tick. If none does, the sweeps that could have taken
// it ended earlier in the tick, which the events do not show.
func (m *model) sweptLater(j *modelJob) bool {
	return slices.ContainsFunc(m.later, func(e event) bool { return e.id == j.id && sweepReasons[e.why] != 0 })
}

// tick does the due work that events name, in their order. If events is nil, it does all due work.
func (m *model) tick(events []event) {
	if m.ticking = events != nil; !m.ticking {
		events = m.allDue()
	}
	defer func() { m.ticking, m.later = false, nil }()
	for i, e := range events {
		m.later = events[i+1:]
		j := m.jobs[e.id]
		if j == nil && (e.why == job.ReasonPurged || sweepReasons[e.why] != 0) {
			continue // the last job of a batch was deleted when it ended
		}
		legal := false
		switch e.why {
		case job.ReasonStarted:
			if legal = m.restMoves(e); legal {
				m.letGo(j)
			}
		case job.ReasonDue:
			if legal = j.status == job.Deferred && j.runAt <= m.at; legal {
				m.makePending(j)
			}
		case job.ReasonExpired:
			if legal = j.expiry() != 0 && j.expiry() <= m.at; legal {
				m.expire(j)
			}
		case job.ReasonAbandoned, job.ReasonTimedOut:
			text := job.AbandonedText
			if e.why == job.ReasonTimedOut {
				text = job.TimedOutText
				legal = j.status == job.Active && j.timeout != 0 && j.timeout <= m.at && !m.graced(j)
			} else {
				legal = j.status == job.Active && m.Deadline(j) <= m.at
			}
			if legal {
				m.abandon(j, text)
			}
		case job.ReasonPurged:
			if j.status == job.Purged { // it was deleted when it ended
				continue
			}
			if legal = j.status.Terminal() && m.due(j) <= m.at; legal {
				m.purgeEnded(j)
			}
		case job.ReasonGraced:
			if legal = j.status == job.Active && j.timeout != 0 && j.timeout <= m.at && m.graced(j); legal {
				j.timeout = m.graceAt + j.attr.LeaseMs
			}
		case job.ReasonCancelled, job.ReasonRedriven, job.ReasonDeleted:
			if j.status == job.Purged || e.why == job.ReasonCancelled && j.status == job.Cancelled || e.why == job.ReasonDeleted && j.status == job.Purged {
				continue // another sweep took it, or it was deleted when it ended
			}
			if w := m.sweeping(j, sweepReasons[e.why]); w != nil {
				legal = true
				m.sweepOne(w, j)
				break
			}
			m.settleStatuses() // the store does this last
			if legal = m.restMoves(e); legal {
				m.endRest(j)
			}
		}
		if !legal {
			panic(fmt.Sprintf("a tick at %d did %d to %v, due at %d", m.at, e.why, j, m.due(j)))
		}
	}
}

// graced reports whether a job's time-out is extended, because runners could not report for a while.
func (m *model) graced(j *modelJob) bool {
	return m.graceAt > j.movedAt && m.graceAt+j.attr.LeaseMs > m.at
}

func (m *model) abandon(j *modelJob, text string) {
	m.tally(j).Abandoned++
	m.remember(j, job.Attempt{At: m.at, Runner: j.claim.runner, Error: text, Why: job.Abandoned, StartedAt: j.claim.id.At()})
	of := j.claim
	j.claim, j.cameBack, j.movedAt, j.timeout = nil, true, m.at, 0
	if j.attempts >= j.attr.MaxAttempts {
		m.tally(j).Failed++
		m.terminal(j, job.Failed, job.Abandoned)
		return
	}
	j.claim = of // until a different claim has it
	m.makePending(j)
	m.overtake([]*modelJob{j})
}

// allDue returns the events of a tick that does all due work, one for each job.
func (m *model) allDue() (events []event) {
	for _, b := range m.batches {
		for _, j := range b.lines {
			at := m.due(j)
			if at == 0 || at > m.at {
				continue
			}
			why := job.ReasonPurged
			switch {
			case j.status == job.Deferred && j.runAt <= m.at:
				why = job.ReasonDue
			case j.status.Waits():
				why = job.ReasonExpired
			case j.status == job.Active && j.timeout == at && m.graced(j):
				why = job.ReasonGraced
			case j.status == job.Active && j.timeout == at:
				why = job.ReasonTimedOut
			case j.status == job.Active:
				why = job.ReasonAbandoned
			}
			events = append(events, event{j.id, why})
		}
	}
	return events
}
