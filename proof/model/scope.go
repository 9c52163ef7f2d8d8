package model

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// A command of an actor with a scope sees nothing outside of it.

// sees reports whether the jobs of a queue are in the scope. A queue that was deleted has none.
func (m *Model) sees(q *Queue) bool {
	return m.By.All() || m.Queues[q.Name] != q || m.By.Has(q.Name.Client, q.Name.Name)
}

func (m *Model) others(j *Job) bool { return !m.sees(j.Queue) }

// knownInScope is Known for the id of a command.
func (m *Model) knownInScope(id job.ID) *Claim {
	c := m.Known(id)
	if c == nil || slices.ContainsFunc(c.Handed, func(j *Job) bool { return slices.Contains(m.Batches, j.Batch) && m.others(j) }) {
		return nil
	}
	return c
}

// submissionInScope is Submission for the id of a command.
func (m *Model) submissionInScope(id job.ID) *Submission {
	s := m.Submission(id)
	if s == nil || m.By.All() || m.By.Has(s.Client, s.Type) && len(s.queues) <= job.MaxClaimNames && !slices.ContainsFunc(s.queues, func(q *Queue) bool { return !m.sees(q) }) {
		return s
	}
	return nil
}

// batchInScope returns the standalone batch with the id of a command, or nil.
func (m *Model) batchInScope(id job.ID) *Batch {
	for _, b := range m.Batches {
		if b.Submission == nil && b.shown() == id && !slices.ContainsFunc(b.Lines, m.others) {
			return b
		}
	}
	return nil
}
