package store

import (
	"slices"
	"sync"
	"sync/atomic"
)

// jobEnds wakes the callers that wait for the end of a job. It costs nothing while no caller waits.
type jobEnds struct {
	waiting atomic.Int64 // how many callers wait

	mu      sync.Mutex
	callers map[uint64]map[uint32][]*JobEnd // by the seq of the batch of their job, and its line
	pending []*JobEnd                       // callers whose job has ended in a command that is not committed
}

// JobEnd is a caller that waits for the end of a job.
type JobEnd struct {
	all  *jobEnds
	at   position
	done chan struct{}
}

// await begins to wait for the end of a line.
func (e *jobEnds) await(at position) *JobEnd {
	w := &JobEnd{all: e, at: at, done: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.callers == nil {
		e.callers = map[uint64]map[uint32][]*JobEnd{}
	}
	if e.callers[at.seq] == nil {
		e.callers[at.seq] = map[uint32][]*JobEnd{}
	}
	e.callers[at.seq][at.line] = append(e.callers[at.seq][at.line], w)
	e.waiting.Add(1)
	return w
}

// Done returns a channel that is closed when a query shows that the job has ended or is purged.
func (w *JobEnd) Done() <-chan struct{} { return w.done }

// Stop ends the wait. A caller must call it once.
func (w *JobEnd) Stop() {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.all.waiting.Add(-1)
	of := w.all.callers[w.at.seq]
	if of[w.at.line] = slices.DeleteFunc(of[w.at.line], func(x *JobEnd) bool { return x == w }); len(of[w.at.line]) == 0 {
		delete(of, w.at.line)
	}
	if len(of) == 0 {
		delete(w.all.callers, w.at.seq)
	}
}

// ended records that lines have ended. committed wakes their callers.
func (e *jobEnds) ended(r Run) {
	if e.waiting.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.callers[r.Batch]
	if r.Lines() < len(of) {
		for n, line := 0, r.First; n < r.Lines(); n, line = n+1, line+1 { // line may wrap after the last
			e.pending = append(e.pending, of[line]...)
		}
		return
	}
	for line, callers := range of {
		if line >= r.First && line <= r.Last {
			e.pending = append(e.pending, callers...)
		}
	}
}

// committed wakes the callers whose jobs have ended.
func (e *jobEnds) committed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.pending {
		select {
		case <-w.done: // a job that ended and was purged is in the list twice
		default:
			close(w.done)
		}
	}
	e.pending = nil
}
