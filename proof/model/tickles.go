package model

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// Line returns the pending jobs of clients and types in the order in which claims take them.
func (m *Model) Line(clients, types []string, paused bool) (line []*Job) {
	for _, b := range m.Batches {
		for _, j := range b.Lines {
			if j.Status == job.Pending && (paused || !j.Queue.Paused) && (len(clients) == 0 || slices.Contains(clients, j.Attr.Client)) &&
				(len(types) == 0 || slices.Contains(types, j.Attr.Type)) {
				line = append(line, j)
			}
		}
	}
	slices.SortStableFunc(line, func(a, b *Job) int { // the list is in the order of ids
		if c := cmp.Compare(b.Attr.Priority, a.Attr.Priority); c != 0 {
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

func (c *Claim) Holds(j *Job) bool { return j.Status == job.Active && j.claim == c }

func (c *Claim) Held() (held []*Job) {
	for _, j := range c.Handed {
		if c.Holds(j) {
			held = append(held, j)
		}
	}
	return held
}

// Known returns a claim if it holds a job, or ended the last run of one.
func (m *Model) Known(id job.ID) *Claim {
	c := m.Claims[id]
	if c != nil && slices.ContainsFunc(c.Handed, func(j *Job) bool { return j.claim == c }) {
		return c
	}
	return nil
}

func (m *Model) find(id job.ID) *Job {
	if j := m.Jobs[id]; j != nil && j.Status != job.Purged && m.sees(j.Queue) {
		return j
	}
	return nil
}

func (m *Model) admit(j *Job, claim job.ID, runner string) job.Refusal {
	switch {
	case !claim.IsZero() && (m.Known(claim) == nil || j.claim != m.Known(claim)):
		return job.ClaimLost
	case j.Status == job.Cancelled:
		return job.WasCancelled
	case !claim.IsZero() && j.Status != job.Active:
		return job.ClaimLost
	case j.Status != job.Active:
		return job.NotActive
	case runner != "" && j.claim.Runner != runner:
		return job.RunnerDiffers
	}
	return job.Granted
}

func (m *Model) applyTickle(t job.Tickle) applied.Result {
	if len(t.IDs) > 0 {
		return m.tickleJobs(t)
	}
	if !t.Claim.IsZero() {
		c := m.knownInScope(t.Claim)
		if c == nil {
			return &applied.Tickled{Refusal: job.ClaimLost}
		}
		if t.Runner != "" && c.Runner != t.Runner {
			return &applied.Tickled{Refusal: job.RunnerDiffers}
		}
		result := &applied.Tickled{}
		for _, j := range c.Handed {
			if c.Holds(j) {
				m.tickleOne(j, t.LeaseMs)
				result.Held++
			} else if j.lateOf(c) || j.claim != c && j.Status != job.Purged {
				result.Lost = append(result.Lost, applied.JobResult{ID: j.ID, Refusal: job.ClaimLost})
			} else if j.Status == job.Cancelled {
				result.Lost = append(result.Lost, applied.JobResult{ID: j.ID, Refusal: job.WasCancelled})
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
	for _, c := range m.Claims {
		if c.Runner == t.Runner {
			held += len(c.Held())
		}
	}
	lost := m.notices(t.Runner)
	if held == 0 {
		return &applied.Tickled{Refusal: job.ClaimLost, Lost: lost}
	}
	r := m.Runners[t.Runner]
	r.At = m.At
	if t.LeaseMs == 0 {
		r.plainAt = m.At
	} else {
		r.until, r.untilSeq = max(r.until, m.At+t.LeaseMs), m.Seq
	}
	return &applied.Tickled{Held: held, Lost: lost}
}

// notices returns the recently cancelled jobs of a runner's claims.
func (m *Model) notices(runner string) (lost []applied.JobResult) {
	var claims []*Claim
	for id, c := range m.Claims {
		if c.Runner == runner && m.Known(id) != nil && c.cancelledAt != 0 {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b *Claim) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, c := range claims {
		if c.cancelledAt+job.NoticeMs < m.At {
			c.cancelledAt = 0
			continue
		}
		for _, j := range c.Handed {
			if j.claim == c && j.Status == job.Cancelled {
				lost = append(lost, applied.JobResult{ID: j.ID, Refusal: job.WasCancelled})
			}
		}
	}
	return lost
}

func (m *Model) tickleJobs(t job.Tickle) applied.Result {
	result := &applied.Tickled{}
	seen := map[job.ID]bool{}
	for _, id := range t.IDs {
		j := m.find(id)
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
				j.steps = append(slices.Clone(j.steps), job.Step{At: m.At, Name: t.Step})
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
func (m *Model) tickleOne(j *Job, lease int64) {
	if lease == 0 {
		lease = j.Tickle.lease
	}
	j.Tickle = tickle{m.Seq, m.At, lease}
}

func (m *Model) Deadline(j *Job) int64 {
	r := m.Runners[j.claim.Runner]
	at := max(j.Tickle.At, m.graceAt, r.plainAt) + j.Tickle.lease
	if r.untilSeq > j.Tickle.seq {
		at = max(at, r.until)
	}
	if j.timeout != 0 {
		at = min(at, j.timeout)
	}
	return at
}

func (m *Model) forgetRunners() {
	held := map[string]bool{}
	for _, j := range m.Jobs {
		if j.Status == job.Active {
			held[j.claim.Runner] = true
		}
	}
	for name := range m.Runners {
		if !held[name] {
			delete(m.Runners, name)
		}
	}
}
