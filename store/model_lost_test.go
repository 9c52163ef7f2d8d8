package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// loseRunner abandons the jobs of a lost runner that events name. With nil it abandons all.
func (m *model) loseRunner(cmd job.LoseRunner, events []event) Result {
	holds := func(j *modelJob) bool {
		return j.status == job.Active && j.claim.runner == cmd.Runner && j.claim.seq <= cmd.Through
	}
	lost := &RunnerLost{}
	if events == nil {
		for _, j := range m.allJobs(holds) {
			m.abandon(j, lostText)
			lost.Jobs++
		}
		return lost
	}
	for _, e := range events {
		if e.why != reasonAbandoned {
			continue // it follows from the others
		}
		j := m.jobs[e.id]
		if j == nil || !holds(j) {
			panic(fmt.Sprintf("the loss of %q up to %d returned %v, which it does not hold", cmd.Runner, cmd.Through, j))
		}
		m.abandon(j, lostText)
		lost.Jobs++
	}
	lost.More = len(m.allJobs(holds)) > 0
	if lost.More && lost.Jobs == 0 {
		panic(fmt.Sprintf("the loss of %q up to %d returned nothing, and should have", cmd.Runner, cmd.Through))
	}
	return lost
}

// allJobs returns the jobs for which is is true, in the order of their ids.
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

// lostRunner generates the loss of a runner: with all its claims, or with those up to an earlier command.
func (g *generator) lostRunner() job.Command {
	through := g.seq - 1
	if len(g.claims) > 0 && g.some(30) {
		if c := g.m.claims[g.anyClaim()]; c != nil {
			through = c.seq - uint64(g.IntN(2))
		}
	}
	return job.LoseRunner{Runner: g.anyRunner(), Through: through}
}
