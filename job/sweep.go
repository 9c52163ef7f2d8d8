package job

import "slices"

// Sweep is an operation on all jobs of a batch or queue. The server carries it out in steps and applies other commands in
// between. It looks at each job at some time between its request and its end. The rules in this file decide the result
// when commands overlap.
type Sweep struct {
	Op     Op
	Status Status // of the jobs to move; 0: every status that Op takes
	Now           // of the sweep's request
}

// Takes lists the statuses of the jobs that the sweep moves, in order.
func (w *Sweep) Takes() []Status {
	if w.Status != 0 {
		return []Status{w.Status}
	}
	return w.Op.Takes()
}

// TakesAll reports whether the sweep moves every job that existed at its request, even if other commands change the job
// before the sweep reaches it. Cancel and delete without a status do. Other sweeps leave a job alone if it has changed
// since the request.
func (w *Sweep) TakesAll() bool { return w.Status == 0 && w.Op != Redrive }

// Moves reports whether the sweep moves a job in state s. others are the sweeps in progress for the same job. A redrive
// leaves a job alone if a delete of all jobs, or a later cancel of all jobs, is in progress. That sweep may already have
// passed the job, which would then stay pending. (The store makes one more check: a redrive also leaves a job alone if
// another job has its unique key by now.)
func (w *Sweep) Moves(s *State, others []*Sweep) bool {
	if !slices.Contains(w.Takes(), s.Status) || !w.TakesAll() && s.UpdatedAt > w.At {
		return false
	}
	return w.Op != Redrive || !slices.ContainsFunc(others, func(other *Sweep) bool {
		return other.TakesAll() && (other.Op == Delete || other.Seq > w.Seq)
	})
}

// Deletes reports whether the sweep deletes every job that it covers. Requests then treat these jobs as not found.
func (w *Sweep) Deletes() bool { return w.Op == Delete && w.TakesAll() }

// TakesBack reports whether the sweep moves a job immediately when a run or a patch returns it to the waiting state s.
// The sweep may have passed the job already.
func (w *Sweep) TakesBack(s *State) bool { return w.TakesAll() && s.Status.Waits() }
