package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// line returns the pending jobs of clients and types in the order in which claims take them.
func (m *model) line(clients, types []string, paused bool) (line []*modelJob) {
	for _, b := range m.batches {
		for _, j := range b.lines {
			if j.status == job.Pending && (paused || !j.queue.paused) && (len(clients) == 0 || slices.Contains(clients, j.attr.Client)) &&
				(len(types) == 0 || slices.Contains(types, j.attr.Type)) {
				line = append(line, j)
			}
		}
	}
	slices.SortStableFunc(line, func(a, b *modelJob) int { // the list is in the order of ids
		if c := cmp.Compare(b.attr.Priority, a.attr.Priority); c != 0 {
			return c
		}
		if a.cameBack != b.cameBack {
			return map[bool]int{true: -1, false: 1}[a.cameBack]
		}
		if a.cameBack {
			return 0
		}
		return cmp.Compare(a.order, b.order)
	})
	return line
}

func (c *modelClaim) Holds(j *modelJob) bool { return j.status == job.Active && j.claim == c }

func (c *modelClaim) held() (held []*modelJob) {
	for _, j := range c.handed {
		if c.Holds(j) {
			held = append(held, j)
		}
	}
	return held
}

// Known returns a claim if it holds a job, or ended the last run of one.
func (m *model) Known(id job.ID) *modelClaim {
	c := m.claims[id]
	if c != nil && slices.ContainsFunc(c.handed, func(j *modelJob) bool { return j.claim == c }) {
		return c
	}
	return nil
}

func (m *model) Find(id job.ID) *modelJob {
	if j := m.jobs[id]; j != nil && j.status != job.Purged {
		return j
	}
	return nil
}

func (m *model) admit(j *modelJob, claim job.ID, runner string) job.Refusal {
	switch {
	case !claim.IsZero() && (m.Known(claim) == nil || j.claim != m.Known(claim)):
		return job.ClaimLost
	case j.status == job.Cancelled:
		return job.WasCancelled
	case !claim.IsZero() && j.status != job.Active:
		return job.ClaimLost
	case j.status != job.Active:
		return job.NotActive
	case runner != "" && j.claim.runner != runner:
		return job.RunnerDiffers
	}
	return job.Granted
}

func (m *model) applyTickle(t job.Tickle) applied.Result {
	if len(t.IDs) > 0 {
		return m.tickleJobs(t)
	}
	if !t.Claim.IsZero() {
		c := m.Known(t.Claim)
		if c == nil {
			return &applied.Tickled{Refusal: job.ClaimLost}
		}
		if t.Runner != "" && c.runner != t.Runner {
			return &applied.Tickled{Refusal: job.RunnerDiffers}
		}
		result := &applied.Tickled{}
		for _, j := range c.handed {
			if c.Holds(j) {
				m.tickleOne(j, t.LeaseMs)
				result.Held++
			} else if j.lateOf(c) || j.claim != c && j.status != job.Purged {
				result.Lost = append(result.Lost, applied.JobResult{ID: j.id, Refusal: job.ClaimLost})
			} else if j.status == job.Cancelled {
				result.Lost = append(result.Lost, applied.JobResult{ID: j.id, Refusal: job.WasCancelled})
			}
		}
		if result.Held == 0 {
			result.Refusal = job.ClaimLost
			for _, l := range result.Lost {
				if l.Refusal == job.WasCancelled {
					result.Refusal = job.WasCancelled
				}
			}
		}
		return result
	}
	held := 0
	for _, c := range m.claims {
		if c.runner == t.Runner {
			held += len(c.held())
		}
	}
	lost := m.notices(t.Runner)
	if held == 0 {
		return &applied.Tickled{Refusal: job.ClaimLost, Lost: lost}
	}
	r := m.runners[t.Runner]
	r.at = m.at
	if t.LeaseMs == 0 {
		r.plainAt = m.at
	} else {
		r.until, r.untilSeq = max(r.until, m.at+t.LeaseMs), m.seq
	}
	return &applied.Tickled{Held: held, Lost: lost}
}

// notices returns the recently cancelled jobs of a runner's claims.
func (m *model) notices(runner string) (lost []applied.JobResult) {
	var claims []*modelClaim
	for id, c := range m.claims {
		if c.runner == runner && m.Known(id) != nil && c.cancelledAt != 0 {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b *modelClaim) int { return cmp.Compare(a.seq, b.seq) })
	for _, c := range claims {
		if c.cancelledAt+job.NoticeMs < m.at {
			c.cancelledAt = 0
			continue
		}
		for _, j := range c.handed {
			if j.claim == c && j.status == job.Cancelled {
				lost = append(lost, applied.JobResult{ID: j.id, Refusal: job.WasCancelled})
			}
		}
	}
	return lost
}

func (m *model) tickleJobs(t job.Tickle) applied.Result {
	result := &applied.Tickled{}
	seen := map[job.ID]bool{}
	for _, id := range t.IDs {
		j := m.Find(id)
		refusal := job.NotFound
		if j != nil {
			refusal = m.admit(j, t.Claim, t.Runner)
		}
		if refusal != job.Granted {
			result.Lost = append(result.Lost, applied.JobResult{ID: id, Refusal: refusal})
			continue
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		result.Held++
		if j.claim.begun != nil {
			j.claim.begun[j] = true
		}
		m.tickleOne(j, t.LeaseMs)
		if t.Step == "" && t.Progress < 0 {
			continue
		}
		if j.progressClaim != j.claim {
			j.step, j.progress, j.progressClaim = "", -1, j.claim
		}
		if t.Step != "" {
			if j.step != t.Step {
				j.steps = append(slices.Clone(j.steps), job.Step{At: m.at, Name: t.Step})
				j.steps = j.steps[max(0, len(j.steps)-job.MaxSteps):]
			}
			j.step = t.Step
		}
		if t.Progress >= 0 {
			j.progress = t.Progress
		}
	}
	return result
}

// tickleOne renews the lease of a job, or gives it a different lease.
func (m *model) tickleOne(j *modelJob, lease int64) {
	if lease == 0 {
		lease = j.tickle.lease
	}
	j.tickle = modelTickle{m.seq, m.at, lease}
}

func (m *model) Deadline(j *modelJob) int64 {
	r := m.runners[j.claim.runner]
	at := max(j.tickle.at, m.graceAt, r.plainAt) + j.tickle.lease
	if r.untilSeq > j.tickle.seq {
		at = max(at, r.until)
	}
	if j.timeout != 0 {
		at = min(at, j.timeout)
	}
	return at
}

func (m *model) forgetRunners() {
	held := map[string]bool{}
	for _, j := range m.jobs {
		if j.status == job.Active {
			held[j.claim.runner] = true
		}
	}
	for name := range m.runners {
		if !held[name] {
			delete(m.runners, name)
		}
	}
}
