package machine

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// A command of an actor with a scope sees nothing outside of it: jobs, batches and claims of other clients and types are to it
// as if they did not exist. So each function that looks something up by an id of the command is here.

// sees reports whether the jobs of a queue are in the scope of the command. A queue that was deleted has none.
func (a *Applying) sees(queue uint32) bool {
	if a.By.All() {
		return true
	}
	q := a.AllQueues.ByID[queue]
	return q == nil || a.By.Has(q.Client, q.Typ)
}

// Find returns the job with an id. ok is false if the job does not exist or is purged, or is outside of the scope.
func (a *Applying) Find(id job.ID) (p row.Part, ok bool) {
	p, ok = a.Machine.Find(id)
	if ok && !a.sees(p.Group().QueueID) {
		return row.Part{}, false
	}
	return p, ok
}

// seesLines reports whether all lines of a run are in the scope.
func (a *Applying) seesLines(r row.Run) bool {
	if a.By.All() {
		return true
	}
	b := a.Batch(r.Batch)
	if b == nil {
		return true
	}
	for line := r.First; line <= r.Last; {
		g := a.Group(b, line)
		if !a.sees(g.QueueID) {
			return false
		}
		line = g.Last + 1
	}
	return true
}

// claimInScope returns the claim with an id, or nil if there is none, or if it has handed out a job outside of the scope.
func (a *Applying) claimInScope(id job.ID) *row.Claim {
	c := a.claimByID(id)
	if c == nil || a.By.All() {
		return c
	}
	for _, r := range c.Runs {
		if !a.seesLines(r) {
			return nil
		}
	}
	return c
}

// submissionInScope returns the submission with an id, or nil if there is none, or if it has jobs outside of the scope.
func (a *Applying) submissionInScope(id job.ID) *row.Submission {
	s := a.submissionByID(id)
	if s == nil || a.By.All() || a.By.Has(s.Client, s.Typ) && s.InQueues(a.sees) {
		return s
	}
	return nil
}

// batchInScope returns the standalone batch with an id, or nil if there is none, or if it has jobs outside of the scope.
func (a *Applying) batchInScope(id job.ID) *row.Batch {
	b := a.batchOf(id)
	if b == nil || !b.IsBatch(id) || b.Lines > 0 && !a.seesLines(row.Run{Batch: b.Seq, First: 0, Last: b.Lines - 1}) {
		return nil
	}
	return b
}

// sessionInScope returns the session with an id, or nil if there is none, or if an actor with a scope has not opened it.
func (a *Applying) sessionInScope(id job.ID) *row.Session {
	if n := a.SessionOf(id); n != nil && n.For(a.By) {
		return n
	}
	return nil
}
