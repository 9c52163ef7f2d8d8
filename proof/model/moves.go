package model

import (
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

func (m *Model) moveOne(cmd job.Move) applied.Result {
	j := m.find(cmd.Job)
	if j == nil {
		return &applied.Moved{Refusal: job.NotFound}
	}
	switch cmd.Op {
	case job.Cancel:
		switch {
		case j.Status == job.Cancelled:
			return &applied.Moved{Status: job.Cancelled}
		case j.Status.Terminal():
			return &applied.Moved{Refusal: job.HasEnded}
		}
		m.cancel(j)
		return &applied.Moved{Status: job.Cancelled}
	case job.Redrive:
		if !j.Status.Terminal() {
			return &applied.Moved{Refusal: job.HasNotEnded}
		}
		if m.doomed(j) {
			return &applied.Moved{Refusal: job.NotFound}
		}
		if j.Batch.Submission.Ended() {
			return &applied.Moved{Refusal: job.BatchEnded}
		}
		if m.keyHeld(j) {
			return &applied.Moved{Refusal: job.KeyHeld}
		}
		m.redrive(j)
	case job.Run:
		switch {
		case j.Status == job.Active:
			return &applied.Moved{Refusal: job.IsActive}
		case j.Status.Terminal():
			return &applied.Moved{Refusal: job.HasEnded}
		case j.Status == job.Deferred:
			if j.code == job.Damaged {
				j.code, j.claim = job.NoCode, nil
			}
			m.makePending(j)
		}
	case job.Delete:
		was := j.Status
		m.purge(j)
		return &applied.Moved{Status: was}
	}
	return &applied.Moved{Status: job.Pending}
}

func (m *Model) cancel(j *Job) {
	m.tally(j).Cancelled++
	if j.Status == job.Active {
		m.remember(j, m.attempt(j, job.Asked, job.CancelledText))
		j.claim.cancelledAt = m.At
	} else {
		j.claim = nil
	}
	j.code, j.exitCode = job.NoCode, 0
	m.terminal(j, job.Cancelled, job.Asked)
}

func (m *Model) expire(j *Job) {
	m.tally(j).Cancelled++
	m.tally(j).Expired++
	j.claim, j.code, j.exitCode = nil, job.NoCode, 0
	m.terminal(j, job.Cancelled, job.Expired)
}

// keyHeld reports whether a different unfinished job has the job's unique key.
func (m *Model) keyHeld(j *Job) bool {
	return j.key != "" && m.keys[j.Queue.Name][j.key].holdsKey()
}

func (m *Model) redrive(j *Job) {
	m.tally(j).Redriven++
	if j.key != "" {
		m.keys[j.Queue.Name][j.key] = j
	}
	j.redrives++
	j.redriven = m.Seq
	m.noteRedriven(j)
	j.attempts, j.claim, j.code, j.exitCode, j.cameBack = 0, nil, job.NoCode, 0, false
	m.makePending(j)
}

func (m *Model) patch(p job.Patch) applied.Result {
	j := m.find(p.Job)
	switch {
	case j == nil, m.doomed(j):
		return &applied.Moved{Refusal: job.NotFound}
	case j.Status == job.Active:
		return &applied.Moved{Refusal: job.IsActive}
	case j.Status.Terminal():
		return &applied.Moved{Refusal: job.HasEnded}
	case p.MaxAttempts != nil && *p.MaxAttempts <= j.attempts:
		return &applied.Moved{Refusal: job.AttemptsUsed}
	}
	was := *j
	if p.Priority != nil {
		j.Attr.Priority = *p.Priority
	}
	if p.MaxAttempts != nil {
		j.Attr.MaxAttempts = *p.MaxAttempts
	}
	runAt := j.runAt
	if p.RunAt != nil {
		runAt = *p.RunAt
	}
	if j.code == job.Damaged && runAt != j.runAt {
		j.code, j.claim = job.NoCode, nil
	}
	switch order := j.order; {
	case runAt > m.At:
		j.Status, j.runAt, j.movedAt = job.Deferred, runAt, m.At
	case j.Status == job.Pending && j.movedAt == m.At && j.Attr == was.Attr: // nothing changes
	case j.Status == job.Pending: // it keeps its place
		m.makePending(j)
		j.order = order
	default:
		m.makePending(j)
	}
	if m.overtake([]*Job{j}); !j.Status.Waits() {
		return &applied.Moved{Status: job.Cancelled} // the job may also be deleted
	}
	return &applied.Moved{Status: j.Status}
}

// covers reports whether a job existed when the sweep was requested.
func (w *Sweep) covers(j *Job) bool {
	if w.Move.Batch.IsZero() {
		return j.Queue.Name == Name{w.Move.Client, w.Move.Type} && j.Batch.Seq < w.Seq
	}
	return j.Batch.shown() == w.Move.Batch && j.Batch.Seq <= w.Seq
}

// doomed reports whether a sweep that deletes everything has yet to delete a job.
func (m *Model) doomed(j *Job) bool {
	if of := j.Batch.Submission; of != nil && of.Deleting {
		return true
	}
	return slices.ContainsFunc(m.Sweeps, func(w *Sweep) bool {
		return !w.Ended && w.Move.Op == job.Delete && w.thorough() && w.covers(j)
	})
}

// outdoes reports whether a redrive must leave a job to this sweep.
func (w *Sweep) outdoes(redrive *Sweep, j *Job) bool {
	return redrive.Move.Op == job.Redrive && w.thorough() && w.covers(j) && (w.Move.Op == job.Delete || w.Seq > redrive.Seq)
}

// takes reports whether a sweep must take a job in its present state.
func (m *Model) takes(w *Sweep, j *Job) bool {
	if !w.covers(j) || w.Move.Op == job.Redrive && j.Batch.Submission.Ended() {
		return false
	}
	for _, other := range m.Sweeps { // a sweep with nothing left to take may have ended, or be about to end
		if !other.Ended && other.outdoes(w, j) && len(m.Targets(other)) > 0 {
			return false
		}
	}
	if w.Move.Status == 0 {
		if !slices.Contains(w.Move.Op.Takes(), j.Status) {
			return false
		}
	} else if j.Status != w.Move.Status {
		return false
	}
	return w.thorough() || j.movedAt <= w.ID.At()
}

func (w *Sweep) thorough() bool { return w.Move.Status == 0 && w.Move.Op != job.Redrive }

// Targets returns the jobs that a sweep must still take. It leaves out jobs for which the model cannot know: jobs with
// a unique key, which a different job may have had at the redrive; jobs that the sweep may have passed before they were
// redriven; and jobs that changed in the millisecond in which the sweep began.
func (m *Model) Targets(w *Sweep) (jobs []*Job) {
	for _, b := range m.Batches {
		for _, j := range b.Lines {
			if m.mustTake(w, j) {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

func (m *Model) mustTake(w *Sweep, j *Job) bool {
	switch {
	case !m.takes(w, j):
		return false
	case w.thorough():
		return w.Move.Op == job.Delete || j.redriven <= w.Seq
	case w.Move.Op == job.Redrive && j.key != "":
		return false
	}
	return j.movedAt < w.ID.At() && !slices.ContainsFunc(m.Sweeps, func(other *Sweep) bool { return other.outdoes(w, j) })
}

func (m *Model) sweepOne(w *Sweep, j *Job) {
	switch w.Move.Op {
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

func (m *Model) startSweep(move job.Move, moves []Move) applied.Result {
	w := &Sweep{ID: job.NewID(m.At, m.Seq, 0), Seq: m.Seq, Move: move, Owner: m.By.Owner()}
	if move.Batch.IsZero() {
		if m.Queues[Name{move.Client, move.Type}] == nil {
			return &applied.Swept{Refusal: job.QueueNotFound}
		}
	} else if s := m.submissionInScope(move.Batch); s != nil {
		if move.Status == 0 && move.Op != job.Redrive {
			return m.endByRequest(s, move.Op, moves)
		}
		if move.Op == job.Redrive && s.Ended() {
			return &applied.Swept{Refusal: job.BatchEnded}
		}
	} else if m.batchInScope(move.Batch) == nil {
		return &applied.Swept{Refusal: job.BatchNotFound}
	}
	if moves == nil {
		for jobs := m.Targets(w); len(jobs) > 0; jobs = m.Targets(w) {
			m.sweepOne(w, jobs[0])
		}
		return &applied.Swept{Moved: w.moved}
	}
	// If two jobs have the same key, the order decides which one is redriven.
	for _, e := range moves {
		if j := m.Jobs[e.ID]; j != nil && SweepReasons[e.Why] == move.Op {
			if !m.takes(w, j) {
				panic(violation(fmt.Sprintf("a sweep took %v, which %v must not take", j, move)))
			}
			m.sweepOne(w, j)
		}
	}
	result := &applied.Swept{Moved: w.moved}
	if len(m.Targets(w)) > 0 {
		result.Sweep = w.ID
	}
	m.Sweeps = append(m.Sweeps, w)
	return result
}

// SweepReasons has the operation of sweeps that moves jobs for a reason.
var SweepReasons = map[job.Reason]job.Op{job.ReasonCancelled: job.Cancel, job.ReasonRedriven: job.Redrive, job.ReasonDeleted: job.Delete}

// sweeping returns a sweep that may take a job.
func (m *Model) sweeping(j *Job, op job.Op) *Sweep {
	for _, w := range m.Sweeps {
		if !w.Ended && w.Move.Op == op && m.takes(w, j) {
			return w
		}
	}
	return nil
}

// overtake lets the sweeps of queues take jobs that were returned, if these sweeps take everything.
func (m *Model) overtake(jobs []*Job) {
	for _, j := range jobs {
		if j.Status.Waits() && j.Batch.Submission.Ended() {
			m.endRest(j)
		}
		for _, w := range m.Sweeps {
			if j.Status.Waits() && w.thorough() && w.Move.Batch.IsZero() && !w.Ended && m.takes(w, j) {
				if m.later != nil && !m.sweptLater(j) {
					m.spared = append(m.spared, w.ID)
					continue
				}
				m.sweepOne(w, j)
				break
			}
		}
	}
}

// sweptLater reports whether a sweep takes a job later in the same tick. If none does, the sweeps that could have taken
// it ended earlier in the tick, which the moves do not show.
func (m *Model) sweptLater(j *Job) bool {
	return slices.ContainsFunc(m.later, func(e Move) bool { return e.ID == j.ID && SweepReasons[e.Why] != 0 })
}

// tick does the due work that moves name, in their order. If moves is nil, it does all due work.
func (m *Model) tick(moves []Move) {
	given := moves != nil
	if !given {
		moves = m.allDue()
	}
	defer func() { m.later = nil }()
	for i, e := range moves {
		if given {
			m.later = moves[i+1:]
		}
		j := m.Jobs[e.ID]
		if j == nil && (e.Why == job.ReasonPurged || SweepReasons[e.Why] != 0) {
			continue // the last job of a batch was deleted when it ended
		}
		if j == nil {
			panic(violation(fmt.Sprintf("a tick at %d moved %v, which does not exist", m.At, e.ID)))
		}
		legal := false
		switch e.Why {
		case job.ReasonStarted:
			if legal = m.restMoves(e); legal {
				m.letGo(j)
			}
		case job.ReasonDue:
			if legal = j.Status == job.Deferred && j.runAt <= m.dueAt; legal {
				m.makePending(j)
			}
		case job.ReasonExpired:
			if legal = j.expiry() != 0 && j.expiry() <= m.dueAt; legal {
				m.expire(j)
			}
		case job.ReasonAbandoned, job.ReasonTimedOut:
			text := job.AbandonedText
			if e.Why == job.ReasonTimedOut {
				text = job.TimedOutText
				legal = j.Status == job.Active && j.timeout != 0 && j.timeout <= m.dueAt && !m.graced(j)
			} else {
				legal = j.Status == job.Active && m.Deadline(j) <= m.dueAt
			}
			if legal {
				m.abandon(j, text)
			}
		case job.ReasonPurged:
			if j.Status == job.Purged { // it was deleted when it ended
				continue
			}
			if legal = j.Status.Terminal() && m.Due(j) <= m.dueAt; legal {
				m.purgeEnded(j)
			}
		case job.ReasonGraced:
			if legal = j.Status == job.Active && j.timeout != 0 && j.timeout <= m.dueAt && m.graced(j); legal {
				j.timeout = m.graceAt + j.Attr.LeaseMs
			}
		case job.ReasonCancelled, job.ReasonRedriven, job.ReasonDeleted:
			if j.Status == job.Purged || e.Why == job.ReasonCancelled && j.Status == job.Cancelled || e.Why == job.ReasonDeleted && j.Status == job.Purged {
				continue // another sweep took it, or it was deleted when it ended
			}
			if w := m.sweeping(j, SweepReasons[e.Why]); w != nil {
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
			panic(violation(fmt.Sprintf("a tick at %d did %d to %v, due at %d", m.dueAt, e.Why, j, m.Due(j))))
		}
	}
}

// graced reports whether a job's time-out is extended, because runners could not report for a while.
func (m *Model) graced(j *Job) bool {
	return m.graceAt > j.movedAt && m.graceAt+j.Attr.LeaseMs > m.dueAt
}

func (m *Model) abandon(j *Job, text string) {
	m.tally(j).Abandoned++
	m.remember(j, m.attempt(j, job.Abandoned, text))
	of := j.claim
	j.claim, j.cameBack, j.movedAt, j.timeout = nil, true, m.At, 0
	if j.attempts >= j.Attr.MaxAttempts {
		m.tally(j).Failed++
		m.terminal(j, job.Failed, job.Abandoned)
		return
	}
	j.claim = of // until a different claim has it
	m.makePending(j)
	m.overtake([]*Job{j})
}

// allDue returns the moves of a tick that does all due work, one for each job.
func (m *Model) allDue() (moves []Move) {
	for _, b := range m.Batches {
		for _, j := range b.Lines {
			at := m.Due(j)
			if at == 0 || at > m.dueAt {
				continue
			}
			why := job.ReasonPurged
			switch {
			case j.Status == job.Deferred && j.runAt <= m.dueAt:
				why = job.ReasonDue
			case j.Status.Waits():
				why = job.ReasonExpired
			case j.Status == job.Active && j.timeout == at && m.graced(j):
				why = job.ReasonGraced
			case j.Status == job.Active && j.timeout == at:
				why = job.ReasonTimedOut
			case j.Status == job.Active:
				why = job.ReasonAbandoned
			}
			moves = append(moves, Move{j.ID, why})
		}
	}
	return moves
}
