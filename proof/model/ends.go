package model

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

func (m *Model) endRuns(cmd job.Complete) *applied.Ended {
	defer m.createChained()
	result := &applied.Ended{}
	c := m.knownInScope(cmd.Claim)
	excepted := map[*Job]bool{}
	own := &Claim{ID: job.NewID(m.At, m.Seq, 0), Seq: m.Seq} // of waiting jobs
	for i := range cmd.Outcomes {
		o := &cmd.Outcomes[i]
		ended := slices.ContainsFunc(result.Results, func(r applied.JobResult) bool { return r.ID == o.ID && r.Refusal == job.Granted })
		if j := m.find(o.ID); cmd.Unclaimed && j != nil && j.Status.Waits() && !ended {
			result.Results = append(result.Results, m.endUnclaimed(own, j, o))
		} else {
			result.Results = append(result.Results, m.endOne(&cmd, o))
		}
		excepted[m.Jobs[o.ID]] = true
	}
	if cmd.All == nil {
		return result
	}
	handed := []*Job(nil)
	if c != nil {
		handed = c.Handed
	}
	for _, e := range m.recent(cmd.Claim) {
		if c = e.claim; m.By.All() {
			handed = c.Handed
		}
		if !named(cmd, e.job) && cmd.All.Same(e.code, e.exitCode) {
			result.All++
		}
	}
	switch {
	case c == nil:
		result.Refusal = job.ClaimLost
		return result
	case cmd.Runner != "" && c.Runner != cmd.Runner:
		result.All, result.Refusal = 0, job.RunnerDiffers
		return result
	}
	cancelled := false
	for _, j := range handed {
		cancelled = cancelled || j.claim == c && j.Status == job.Cancelled
	}
	// Consecutive equal jobs end together.
	for i := 0; i < len(handed); i++ {
		j := handed[i]
		if excepted[j] {
			continue
		}
		if c.Holds(j) {
			alike := []*Job{j}
			for i+1 < len(handed) && c.Holds(handed[i+1]) && !excepted[handed[i+1]] && neighbours(j, handed[i+1]) {
				i++
				j = handed[i]
				alike = append(alike, j)
			}
			m.end(alike, cmd.All)
			result.All += len(alike)
		} else if j.lateOf(c) && cmd.All.Code.Reported() && !m.doomed(j) && !j.Batch.Submission.Ended() {
			m.endLate(j, cmd.All)
			result.All++
		} else if j.claim == c && cmd.All.Same(j.code, j.exitCode) {
			result.All++
		}
	}
	if result.All == 0 && len(cmd.Outcomes) == 0 {
		if result.Refusal = job.ClaimLost; cancelled {
			result.Refusal = job.WasCancelled
		}
	}
	return result
}

// named reports whether a completion has an outcome for a job.
func named(cmd job.Complete, j *Job) bool {
	return slices.ContainsFunc(cmd.Outcomes, func(o job.Outcome) bool { return o.ID == j.ID })
}

// endUnclaimed ends a run of a waiting job that no claim handed out.
func (m *Model) endUnclaimed(own *Claim, j *Job, o *job.Outcome) applied.JobResult {
	x := j.expiry()
	switch {
	case m.doomed(j):
		return applied.JobResult{ID: o.ID, Refusal: job.NotFound}
	case j.Batch.Submission.Ended():
		return applied.JobResult{ID: o.ID, Refusal: job.WasCancelled}
	case j.Status == job.Deferred && j.runAt == job.MaxTimeMs && !j.cameBack && j.code != job.Damaged: // its batch is paused
		return applied.JobResult{ID: o.ID, Refusal: job.NotActive}
	case x != 0 && x <= m.At:
		return applied.JobResult{ID: o.ID, Refusal: job.WasCancelled}
	}
	if own.Handed = append(own.Handed, j); len(own.Handed) == 1 {
		m.Claims[own.ID], own.lease = own, j.Attr.LeaseMs
	}
	before := len(m.tally(j).Running)
	m.start(own, j)
	m.end([]*Job{j}, o)
	m.tally(j).Running = m.tally(j).Running[:before] // a run without a claim has no duration
	return applied.JobResult{ID: o.ID, Status: j.shown()}
}

// neighbours reports whether b follows a in the same span. Both are active under the same claim.
func neighbours(a, b *Job) bool {
	return a.Batch == b.Batch && a.group == b.group && a.ID.Line()+1 == b.ID.Line() && a.attempts == b.attempts &&
		a.Attr.Priority == b.Attr.Priority && a.Attr.MaxAttempts == b.Attr.MaxAttempts && a.redrives == b.redrives && a.timeout == b.timeout
}

func (m *Model) endOne(cmd *job.Complete, o *job.Outcome) applied.JobResult {
	j, c := m.find(o.ID), m.Known(cmd.Claim)
	if j == nil {
		return m.endPurged(cmd, o)
	}
	refusal := m.admit(j, cmd.Claim, cmd.Runner)
	if refusal == job.Granted && !m.mayChain(j, o) {
		refusal = job.TooManyHops
	}
	if refusal == job.Granted {
		m.end([]*Job{j}, o)
		return applied.JobResult{ID: o.ID, Status: j.shown()}
	}
	if refusal == job.ClaimLost && c != nil && j.claim == c {
		switch {
		case cmd.Runner != "" && c.Runner != cmd.Runner:
			refusal = job.RunnerDiffers
		case o.Same(j.code, j.exitCode):
			return applied.JobResult{ID: o.ID, Status: j.Status}
		case j.lateOf(c) && o.Code.Reported():
			switch {
			case m.doomed(j):
				return applied.JobResult{ID: o.ID, Refusal: job.NotFound}
			case j.Batch.Submission.Ended():
				return applied.JobResult{ID: o.ID, Refusal: job.WasCancelled}
			case !m.mayChain(j, o):
				return applied.JobResult{ID: o.ID, Refusal: job.TooManyHops}
			}
			m.endLate(j, o)
			return applied.JobResult{ID: o.ID, Status: j.shown()}
		case j.code.Reported() || j.code == job.Damaged:
			refusal = job.OutcomeDiffers
		}
	}
	return applied.JobResult{ID: o.ID, Refusal: refusal}
}

// shown returns the status that an outcome reports. If the job is not kept, that is the status before it was deleted.
func (j *Job) shown() job.Status {
	if j.Status == job.Purged {
		if j.code == job.NoCode {
			return job.Cancelled
		}
		if j.code == job.OK {
			return job.Completed
		}
		return job.Failed
	}
	return j.Status
}

func (m *Model) end(jobs []*Job, o *job.Outcome) {
	defer func() {
		for _, j := range jobs {
			m.chained(j, o)
		}
	}()
	defer m.overtake(jobs)
	for _, j := range jobs {
		m.tally(j).ended(o.Code, j.attempts < j.Attr.MaxAttempts, m.At-j.movedAt)
		j.timeout = 0
		j.code, j.exitCode, j.movedAt = o.Code, o.ExitCode, m.At
		if o.Code != job.OK && o.Code != job.Unget && o.Code != job.Damaged {
			a := m.attempt(j, job.Reported, o.Error)
			a.Code, a.ExitCode, a.ProcessExit, a.LogAddr = o.Code, o.ExitCode, o.ProcessExit, o.LogAddr
			if o.Code == job.Lost {
				a.Code, a.Error, a.Why = job.NoCode, job.LostText, job.RunnerLost
			}
			m.remember(j, a)
		}
		if !o.Result.Empty() {
			j.result, j.resultClaim = o.Result, j.claim
		}
		switch {
		case o.Code == job.OK:
			m.terminal(j, job.Completed, job.Reported)
		case o.Code == job.Fail:
			m.terminal(j, job.Failed, job.Reported)
		case o.Code == job.Unget:
			j.attempts--
			j.cameBack = true
			m.makePending(j)
		case o.Code == job.Damaged:
			j.attempts--
			j.cameBack = true
			j.Status, j.runAt = job.Deferred, job.MaxTimeMs
		case j.attempts >= j.Attr.MaxAttempts:
			why := job.Reported
			if o.Code == job.Lost {
				why = job.RunnerLost
			}
			m.terminal(j, job.Failed, why)
		default:
			delay := o.DelayMs
			if delay < 0 {
				delay = j.Attr.Backoff.Delay(j.attempts, job.RandomOf(m.seed, m.Seq, j.Batch.Seq, uint32(j.ID.Line())))
			}
			j.cameBack = true
			if delay == 0 {
				m.makePending(j)
			} else {
				j.Status, j.runAt = job.Deferred, m.At+delay
			}
		}
	}
}

// attempt returns an attempt of the job's run, which ends now.
func (m *Model) attempt(j *Job, why job.Why, text string) job.Attempt {
	a := job.Attempt{At: m.At, Runner: j.claim.Runner, Error: text, Why: why}
	if a.Runner != "" { // else no claim had the job
		a.Claim, a.StartedAt = j.claim.ID, j.claim.ID.At()
	}
	return a
}

func (m *Model) remember(j *Job, a job.Attempt) {
	j.history = append(slices.Clone(j.history), a)
	if drop := len(j.history) - job.MaxHistory; drop > 0 {
		j.history = j.history[drop:]
	}
}

func (m *Model) terminal(j *Job, to job.Status, why job.Why) {
	j.Status, j.endedAt, j.movedAt, j.why, j.timeout, j.runAt = to, m.At, m.At, why, 0, 0
	j.heldBack = false
	m.noteFailed(j)
	if j.Attr.RetentionMs == 0 {
		m.purgeEnded(j)
	}
}

// purgedEnd is how a run ended whose job was purged less than a minute later.
type purgedEnd struct {
	claim    *Claim
	job      *Job
	code     job.Code
	exitCode int
	at       int64
}

// purgeEnded purges a job whose retention has passed.
func (m *Model) purgeEnded(j *Job) {
	if j.Status != job.Cancelled && j.code.Reported() && j.claim != nil {
		m.ends = append(m.ends, purgedEnd{j.claim, j, j.code, j.exitCode, j.endedAt})
	}
	m.purge(j)
}

// recent returns the ends that the store must still know.
func (m *Model) recent(claim job.ID) (ends []purgedEnd) {
	for _, e := range m.ends {
		if e.claim.ID == claim && e.at+60_000 > m.At && m.sees(e.job.Queue) {
			ends = append(ends, e)
		}
	}
	return ends
}

// endPurged answers the outcome of a job that no longer exists.
func (m *Model) endPurged(cmd *job.Complete, o *job.Outcome) applied.JobResult {
	for _, e := range m.recent(cmd.Claim) {
		switch {
		case e.job.ID != o.ID:
		case cmd.Runner != "" && cmd.Runner != e.claim.Runner:
			return applied.JobResult{ID: o.ID, Refusal: job.RunnerDiffers}
		case !o.Same(e.code, e.exitCode):
			return applied.JobResult{ID: o.ID, Refusal: job.OutcomeDiffers}
		case e.code == job.OK:
			return applied.JobResult{ID: o.ID, Status: job.Completed}
		default:
			return applied.JobResult{ID: o.ID, Status: job.Failed}
		}
	}
	return applied.JobResult{ID: o.ID, Refusal: job.NotFound}
}

// purge deletes a job, and its batch when all of its jobs are deleted.
func (m *Model) purge(j *Job) {
	if j.Status != job.Purged {
		if j.Unfinished() {
			m.tally(j).Deleted++
		}
		j.last = j.Status
		m.notePurged(j)
	}
	j.Status, j.claim = job.Purged, nil
	m.dropGone(j.Batch)
}

func (m *Model) dropGone(b *Batch) {
	if !slices.ContainsFunc(b.Lines, func(j *Job) bool { return j.Status != job.Purged }) {
		m.Batches = slices.DeleteFunc(m.Batches, func(other *Batch) bool { return b == other })
		for _, j := range b.Lines {
			delete(m.Jobs, j.ID)
		}
		if of := b.Submission; of != nil {
			of.Parts = slices.DeleteFunc(of.Parts, func(other *Batch) bool { return b == other })
		}
	}
}

// expiry returns the time by which a job must have been started, or 0.
func (j *Job) expiry() int64 {
	if j.Status.Waits() && j.attempts == 0 && j.redrives == 0 {
		return j.Attr.ExpiresAt
	}
	return 0
}

// Due returns when time will change j; 0: never.
func (m *Model) Due(j *Job) int64 {
	switch {
	case j.Status == job.Deferred && j.expiry() != 0:
		return min(j.runAt, j.expiry())
	case j.Status == job.Deferred:
		return j.runAt
	case j.Status == job.Pending:
		return j.expiry()
	case j.Status == job.Active:
		return m.Deadline(j)
	case j.Status.Terminal():
		return j.endedAt + j.Attr.RetentionMs
	}
	return 0
}

// LastNextDue returns when time will change any job; 0: never.
func (m *Model) NextDue() (next int64) {
	for _, j := range m.Jobs {
		if due := m.Due(j); due != 0 && (next == 0 || due < next) {
			next = due
		}
	}
	for _, n := range m.Sessions {
		if next == 0 || n.ExpiresAt() < next {
			next = n.ExpiresAt()
		}
	}
	for _, s := range m.Submissions {
		switch {
		case len(s.rest()) > 0:
			return m.At
		case s.Ended() && len(s.Parts) == 0 && (next == 0 || s.endedAt+s.RetentionMs < next):
			next = s.endedAt + s.RetentionMs
		}
	}
	for _, w := range m.Sweeps {
		if !w.Ended && len(m.Targets(w)) > 0 {
			return m.At
		}
	}
	return next
}
