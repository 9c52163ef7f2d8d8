package model

import (
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// loseRunner ends the runs of a lost runner that moves name. If moves is nil, it ends all of its runs.
func (m *Model) loseRunner(cmd job.LoseRunner, moves []Move) applied.Result {
	holds := func(j *Job) bool {
		return j.Status == job.Active && j.claim.Runner == cmd.Runner && j.claim.Seq <= cmd.Through
	}
	lost := &applied.RunnerLost{}
	if moves == nil {
		for _, j := range m.AllJobs(holds) {
			m.vanish(j)
			lost.Jobs++
		}
		return lost
	}
	for _, e := range moves {
		if e.Why != job.ReasonEnded {
			continue // it follows from the other moves
		}
		j := m.Jobs[e.ID]
		if j == nil || !holds(j) {
			panic(violation(fmt.Sprintf("the loss of %q up to %d returned %v, which it does not hold", cmd.Runner, cmd.Through, j)))
		}
		m.vanish(j)
		lost.Jobs++
	}
	lost.More = len(m.AllJobs(holds)) > 0
	if lost.More && lost.Jobs == 0 {
		panic(violation(fmt.Sprintf("the loss of %q up to %d returned nothing, and should have", cmd.Runner, cmd.Through)))
	}
	return lost
}

// vanish ends a run whose runner was lost: it counts if it has begun.
func (m *Model) vanish(j *Job) {
	o := &job.Outcome{Code: job.Unget, DelayMs: -1}
	if j.claim.begun == nil || j.claim.begun[j] {
		o.Code = job.Lost
	}
	m.end([]*Job{j}, o)
}

// lateOf reports whether the job waits because a claim has lost it, so that its runner may still report the outcome.
func (j *Job) lateOf(c *Claim) bool {
	return c != nil && j.claim == c && j.Status.Waits() && (j.code == job.NoCode || j.code == job.Lost)
}

// endLate gives the last run of a waiting job an outcome.
func (m *Model) endLate(j *Job, o *job.Outcome) {
	if len(j.history) > 0 {
		j.history = j.history[:len(j.history)-1]
	}
	before := len(m.tally(j).Running)
	m.end([]*Job{j}, o)
	m.tally(j).Running = m.tally(j).Running[:before] // its duration is not known
}

// AllJobs returns the jobs for which is returns true, in the order of their ids.
func (m *Model) AllJobs(is func(*Job) bool) (jobs []*Job) {
	for _, b := range m.Batches {
		for _, j := range b.Lines {
			if is(j) {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}
