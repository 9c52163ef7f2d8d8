package model

import "github.com/daybookq/daybook/job"

// Tally counts the events of the jobs of a queue, and has each duration in milliseconds.
type Tally struct {
	Created, Claimed, Completed, Failed, Retried, Returned, Abandoned, Cancelled, Expired, Deleted, Redriven uint64

	Waiting, Running []int64
}

// tally returns the counts of the queue of a job.
func (m *Model) tally(j *Job) *Tally {
	t := m.Tallies[j.Queue.Name]
	if t == nil {
		t = &Tally{}
		m.Tallies[j.Queue.Name] = t
	}
	return t
}

func (t *Tally) countClaimed(waited int64) {
	t.Claimed++
	t.Waiting = append(t.Waiting, waited)
}

// ended counts the end of a run. again says that the job has attempts left.
func (t *Tally) ended(code job.Code, again bool, ran int64) {
	switch {
	case code == job.Unget || code == job.Damaged:
		t.Returned++
		return
	case code == job.Lost:
		t.Abandoned++
		if !again {
			t.Failed++
		}
		return
	case code == job.OK:
		t.Completed++
	case code == job.Fail || !again:
		t.Failed++
	default:
		t.Retried++
	}
	t.Running = append(t.Running, ran)
}

// OldestPending looks at the first job of each lane, and returns when the oldest of these jobs became pending.
func (m *Model) OldestPending(name Name) (since int64) {
	type lane struct {
		priority int
		cameBack bool
	}
	first := map[lane]*Job{}
	for _, j := range m.AllJobs(func(j *Job) bool { return j.Queue.Name == name && j.Status == job.Pending }) {
		lane := lane{j.Attr.Priority, j.cameBack}
		if f := first[lane]; f == nil || !j.cameBack && j.order < f.order {
			first[lane] = j
		}
	}
	for _, j := range first {
		if since == 0 || j.movedAt < since {
			since = j.movedAt
		}
	}
	return since
}
