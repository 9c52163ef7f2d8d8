package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/daybookq/daybook/store/internal/row"
)

// jobEnds wakes the callers that wait for the end of a job. It costs nothing while no caller waits.
type jobEnds struct {
	Waiting atomic.Int64 // how many callers wait

	mu      sync.Mutex
	callers map[uint64]map[uint32][]*JobEnd // by the seq of the batch of their job, and its line
	pending []*JobEnd                       // callers whose job has ended in a command that is not committed
}

// JobEnd is a caller that waits for the end of a job.
type JobEnd struct {
	all  *jobEnds
	at   row.Position
	done chan struct{}
}

// Await begins to wait for the end of a line.
func (e *jobEnds) Await(at row.Position) *JobEnd {
	w := &JobEnd{all: e, at: at, done: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.callers == nil {
		e.callers = map[uint64]map[uint32][]*JobEnd{}
	}
	if e.callers[at.Seq] == nil {
		e.callers[at.Seq] = map[uint32][]*JobEnd{}
	}
	e.callers[at.Seq][at.Line] = append(e.callers[at.Seq][at.Line], w)
	e.Waiting.Add(1)
	return w
}

// Done returns a channel that is closed when a query shows that the job has ended or is purged.
func (w *JobEnd) Done() <-chan struct{} { return w.done }

// Stop ends the wait. A caller must call it once.
func (w *JobEnd) Stop() {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.all.Waiting.Add(-1)
	of := w.all.callers[w.at.Seq]
	if of[w.at.Line] = slices.DeleteFunc(of[w.at.Line], func(x *JobEnd) bool { return x == w }); len(of[w.at.Line]) == 0 {
		delete(of, w.at.Line)
	}
	if len(of) == 0 {
		delete(w.all.callers, w.at.Seq)
	}
}

// Ended records that lines have ended. committed wakes their callers.
func (e *jobEnds) Ended(r row.Run) {
	if e.Waiting.Load() == 0 {
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

// Committed wakes the callers whose jobs have ended.
func (e *jobEnds) Committed() {
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
