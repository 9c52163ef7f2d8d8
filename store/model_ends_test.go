package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

func (m *model) endRuns(cmd job.Complete) *applied.Ended {
	defer m.createChained()
	result := &applied.Ended{}
	c := m.Known(cmd.Claim)
	excepted := map[*modelJob]bool{}
	own := &modelClaim{id: job.NewID(m.at, m.seq, 0), seq: m.seq} // of waiting jobs
	for i := range cmd.Outcomes {
		o := &cmd.Outcomes[i]
		ended := slices.ContainsFunc(result.Results, func(r applied.JobResult) bool { return r.ID == o.ID && r.Refusal == job.Granted })
		if j := m.Find(o.ID); cmd.Unclaimed && j != nil && j.status.Waits() && !ended {
			result.Results = append(result.Results, m.endUnclaimed(own, j, o))
		} else {
			result.Results = append(result.Results, m.endOne(&cmd, o))
		}
		excepted[m.jobs[o.ID]] = true
	}
	if cmd.All == nil {
		return result
	}
	for _, e := range m.recent(cmd.Claim) {
		c = e.claim
		if !named(cmd, e.job) && cmd.All.Same(e.code, e.exitCode) {
			result.All++
		}
	}
	switch {
	case c == nil:
		result.Refusal = job.ClaimLost
		return result
	case cmd.Runner != "" && c.runner != cmd.Runner:
		result.All, result.Refusal = 0, job.RunnerDiffers
		return result
	}
	cancelled := false
	for _, j := range c.handed {
		cancelled = cancelled || j.claim == c && j.status == job.Cancelled
	}
	// Consecutive equal jobs end together.
	for i := 0; i < len(c.handed); i++ {
		j := c.handed[i]
		if excepted[j] {
			continue
		}
		if c.Holds(j) {
			alike := []*modelJob{j}
			for i+1 < len(c.handed) && c.Holds(c.handed[i+1]) && !excepted[c.handed[i+1]] && neighbours(j, c.handed[i+1]) {
				i++
				j = c.handed[i]
				alike = append(alike, j)
			}
			m.End(alike, cmd.All)
			result.All += len(alike)
		} else if j.lateOf(c) && cmd.All.Code.Reported() && !m.doomed(j) && !j.batch.submission.Ended() {
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
func named(cmd job.Complete, j *modelJob) bool {
	return slices.ContainsFunc(cmd.Outcomes, func(o job.Outcome) bool { return o.ID == j.id })
}

// endUnclaimed ends a run of a waiting job that no claim handed out.
func (m *model) endUnclaimed(own *modelClaim, j *modelJob, o *job.Outcome) applied.JobResult {
	x := j.expiry()
	switch {
	case m.doomed(j):
		return applied.JobResult{ID: o.ID, Refusal: job.NotFound}
	case j.batch.submission.Ended():
		return applied.JobResult{ID: o.ID, Refusal: job.WasCancelled}
	case j.status == job.Deferred && j.runAt == job.MaxTimeMs && !j.cameBack && j.code != job.Damaged: // its batch is paused
		return applied.JobResult{ID: o.ID, Refusal: job.NotActive}
	case x != 0 && x <= m.at:
		return applied.JobResult{ID: o.ID, Refusal: job.WasCancelled}
	}
	if own.handed = append(own.handed, j); len(own.handed) == 1 {
		m.claims[own.id], own.lease = own, j.attr.LeaseMs
	}
	before := len(m.tally(j).running)
	m.start(own, j)
	m.End([]*modelJob{j}, o)
	m.tally(j).running = m.tally(j).running[:before] // a run without a claim has no duration
	return applied.JobResult{ID: o.ID, Status: j.shown()}
}

// neighbours reports whether b follows a in the same span. Both are active under the same claim.
func neighbours(a, b *modelJob) bool {
	return a.batch == b.batch && a.group == b.group && a.id.Line()+1 == b.id.Line() && a.attempts == b.attempts &&
		a.attr.Priority == b.attr.Priority && a.attr.MaxAttempts == b.attr.MaxAttempts && a.redrives == b.redrives && a.timeout == b.timeout
}

func (m *model) endOne(cmd *job.Complete, o *job.Outcome) applied.JobResult {
	j, c := m.Find(o.ID), m.Known(cmd.Claim)
	if j == nil {
		return m.endPurged(cmd, o)
	}
	refusal := m.admit(j, cmd.Claim, cmd.Runner)
	if refusal == job.Granted && !m.mayChain(j, o) {
		refusal = job.TooManyHops
	}
	if refusal == job.Granted {
		m.End([]*modelJob{j}, o)
		return applied.JobResult{ID: o.ID, Status: j.shown()}
	}
	if refusal == job.ClaimLost && c != nil && j.claim == c {
		switch {
		case cmd.Runner != "" && c.runner != cmd.Runner:
			refusal = job.RunnerDiffers
		case o.Same(j.code, j.exitCode):
			return applied.JobResult{ID: o.ID, Status: j.status}
		case j.lateOf(c) && o.Code.Reported():
			switch {
			case m.doomed(j):
				return applied.JobResult{ID: o.ID, Refusal: job.NotFound}
			case j.batch.submission.Ended():
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
func (j *modelJob) shown() job.Status {
	if j.status == job.Purged {
		if j.code == job.NoCode {
			return job.Cancelled
		}
		if j.code == job.OK {
			return job.Completed
		}
		return job.Failed
	}
	return j.status
}

func (m *model) End(jobs []*modelJob, o *job.Outcome) {
	defer func() {
		for _, j := range jobs {
			m.chained(j, o)
		}
	}()
	defer m.overtake(jobs)
	for _, j := range jobs {
		m.tally(j).Ended(o.Code, j.attempts < j.attr.MaxAttempts, m.at-j.movedAt)
		j.timeout = 0
		j.code, j.exitCode, j.movedAt = o.Code, o.ExitCode, m.at
		if o.Code != job.OK && o.Code != job.Unget && o.Code != job.Damaged {
			a := job.Attempt{At: m.at, Runner: j.claim.runner, Code: o.Code, ExitCode: o.ExitCode, Error: o.Error, Why: job.Reported, StartedAt: j.claim.id.At()}
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
			j.status, j.runAt = job.Deferred, job.MaxTimeMs
		case j.attempts >= j.attr.MaxAttempts:
			why := job.Reported
			if o.Code == job.Lost {
				why = job.RunnerLost
			}
			m.terminal(j, job.Failed, why)
		default:
			delay := o.DelayMs
			if delay < 0 {
				delay = j.attr.Backoff.Delay(j.attempts, job.RandomOf(m.seed, m.seq, j.batch.seq, uint32(j.id.Line())))
			}
			j.cameBack = true
			if delay == 0 {
				m.makePending(j)
			} else {
				j.status, j.runAt = job.Deferred, m.at+delay
			}
		}
	}
}

func (m *model) remember(j *modelJob, a job.Attempt) {
	j.history = append(slices.Clone(j.history), a)
	if drop := len(j.history) - job.MaxHistory; drop > 0 {
		j.history = j.history[drop:]
	}
}

func (m *model) terminal(j *modelJob, to job.Status, why job.Why) {
	j.status, j.endedAt, j.movedAt, j.why, j.timeout, j.runAt = to, m.at, m.at, why, 0, 0
	j.heldBack = false
	m.noteFailed(j)
	if j.attr.RetentionMs == 0 {
		m.purgeEnded(j)
	}
}

// modelEnd is how a run ended whose job was purged less than a minute later.
type modelEnd struct {
	claim    *modelClaim
	job      *modelJob
	code     job.Code
	exitCode int
	at       int64
}

// purgeEnded purges a job whose retention has passed.
func (m *model) purgeEnded(j *modelJob) {
	if j.status != job.Cancelled && j.code.Reported() && j.claim != nil {
		m.ends = append(m.ends, modelEnd{j.claim, j, j.code, j.exitCode, j.endedAt})
	}
	m.purge(j)
}

// recent returns the ends that the store must still know.
func (m *model) recent(claim job.ID) (ends []modelEnd) {
	for _, e := range m.ends {
		if e.claim.id == claim && e.at+60_000 > m.at {
			ends = append(ends, e)
		}
	}
	return ends
}

// endPurged answers the outcome of a job that no longer exists.
func (m *model) endPurged(cmd *job.Complete, o *job.Outcome) applied.JobResult {
	for _, e := range m.recent(cmd.Claim) {
		switch {
		case e.job.id != o.ID:
		case cmd.Runner != "" && cmd.Runner != e.claim.runner:
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
func (m *model) purge(j *modelJob) {
	if j.status != job.Purged {
		if j.Unfinished() {
			m.tally(j).Deleted++
		}
		j.last = j.status
		m.notePurged(j)
	}
	j.status, j.claim = job.Purged, nil
	m.dropGone(j.batch)
}

func (m *model) dropGone(b *modelBatch) {
	if !slices.ContainsFunc(b.lines, func(j *modelJob) bool { return j.status != job.Purged }) {
		m.batches = slices.DeleteFunc(m.batches, func(other *modelBatch) bool { return b == other })
		for _, j := range b.lines {
			delete(m.jobs, j.id)
		}
		if of := b.submission; of != nil {
			of.parts = slices.DeleteFunc(of.parts, func(other *modelBatch) bool { return b == other })
		}
	}
}

// expiry returns the time by which a job must have been started, or 0.
func (j *modelJob) expiry() int64 {
	if j.status.Waits() && j.attempts == 0 && j.redrives == 0 {
		return j.attr.ExpiresAt
	}
	return 0
}

// due returns when time will change j; 0: never.
func (m *model) due(j *modelJob) int64 {
	switch {
	case j.status == job.Deferred && j.expiry() != 0:
		return min(j.runAt, j.expiry())
	case j.status == job.Deferred:
		return j.runAt
	case j.status == job.Pending:
		return j.expiry()
	case j.status == job.Active:
		return m.Deadline(j)
	case j.status.Terminal():
		return j.endedAt + j.attr.RetentionMs
	}
	return 0
}

// LastNextDue returns when time will change any job; 0: never.
func (m *model) nextDue() (next int64) {
	for _, j := range m.jobs {
		if due := m.due(j); due != 0 && (next == 0 || due < next) {
			next = due
		}
	}
	for _, n := range m.sessions {
		if next == 0 || n.ExpiresAt() < next {
			next = n.ExpiresAt()
		}
	}
	for _, s := range m.submissions {
		switch {
		case len(s.rest()) > 0:
			return m.at
		case s.Ended() && len(s.parts) == 0 && (next == 0 || s.endedAt+s.retentionMs < next):
			next = s.endedAt + s.retentionMs
		}
	}
	for _, w := range m.sweeps {
		if !w.ended && len(m.targets(w)) > 0 {
			return m.at
		}
	}
	return next
}
