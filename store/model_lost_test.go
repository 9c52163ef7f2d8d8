package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// loseRunner ends the runs of a lost runner that events name. If events is nil, it ends all of its runs.
func (m *model) loseRunner(cmd job.LoseRunner, events []event) applied.Result {
	holds := func(j *modelJob) bool {
		return j.status == job.Active && j.claim.runner == cmd.Runner && j.claim.seq <= cmd.Through
	}
	lost := &applied.RunnerLost{}
	if events == nil {
		for _, j := range m.allJobs(holds) {
			m.vanish(j)
			lost.Jobs++
		}
		return lost
	}
	for _, e := range events {
		if e.why != job.ReasonEnded {
			continue // it follows from the other events
		}
		j := m.jobs[e.id]
		if j == nil || !holds(j) {
			panic(fmt.Sprintf("the loss of %q up to %d returned %v, which it does not hold", cmd.Runner, cmd.Through, j))
		}
		m.vanish(j)
		lost.Jobs++
	}
	lost.More = len(m.allJobs(holds)) > 0
	if lost.More && lost.Jobs == 0 {
		panic(fmt.Sprintf("the loss of %q up to %d returned nothing, and should have", cmd.Runner, cmd.Through))
	}
	return lost
}

// vanish ends a run whose runner was lost: it counts if it has begun.
func (m *model) vanish(j *modelJob) {
	o := &job.Outcome{Code: job.Unget, DelayMs: -1}
	if j.claim.begun == nil || j.claim.begun[j] {
		o.Code = job.Lost
	}
	m.End([]*modelJob{j}, o)
}

// lateOf reports whether the job waits because a claim has lost it, so that its runner may still report the outcome.
func (j *modelJob) lateOf(c *modelClaim) bool {
	return c != nil && j.claim == c && j.status.Waits() && (j.code == job.NoCode || j.code == job.Lost)
}

// endLate gives the last run of a waiting job an outcome.
func (m *model) endLate(j *modelJob, o *job.Outcome) {
	if len(j.history) > 0 {
		j.history = j.history[:len(j.history)-1]
	}
	before := len(m.tally(j).running)
	m.End([]*modelJob{j}, o)
	m.tally(j).running = m.tally(j).running[:before] // its duration is not known
}

// allJobs returns the jobs for which is returns true, in the order of their ids.
func (m *model) allJobs(is func(*modelJob) bool) (jobs []*modelJob) {
	for _, b := range m.batches {
		for _, j := range b.lines {
			if is(j) {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// lostRunner generates the loss of a runner: of all its claims, or of its claims up to an earlier command.
func (g *generator) lostRunner() job.Command {
	through := g.seq - 1
	if len(g.claims) > 0 && g.some(30) {
		if c := g.m.claims[g.anyClaim()]; c != nil {
			through = c.seq - uint64(g.IntN(2))
		}
	}
	return job.LoseRunner{Runner: g.anyRunner(), Through: through}
}
