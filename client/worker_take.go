package client

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Run is the run of a job that a Worker has handed to Take. It is a context, too, which ends as that of a Handler does, or
// by Cancel. It ends with End as well.
type Run struct {
	Job *Job
	r   *running
	t   *task

	began  time.Time
	mu     sync.Mutex // guards the fields below
	isOver bool       // End was called
	ended  *runEnded  // nil while the context has not ended
	done   chan struct{}
	// after are called when the context ends: cancelled at once, and the others in goroutines.
	cancelled context.CancelCauseFunc
	after     []*func()
}

var _ context.Context = (*Run)(nil)

func (u *Run) begin(r *running, t *task, j *Job) { u.r, u.t, u.Job = r, t, j }

// End says how the run ended, with what a Handler returns. Only the first call counts. It does not wait.
func (u *Run) End(o Outcome, err error) {
	if u.over(o, err) {
		u.r.ends.add(u.t)
	}
}

// over records how the run ended, and ends the context. It reports whether this is the first call.
func (u *Run) over(o Outcome, err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.isOver {
		return false
	}
	u.isOver = true
	var cause error
	if u.ended != nil {
		cause = u.ended
	}
	u.t.how = judge(cause, o, err)
	u.t.how.took = time.Since(u.began)
	u.cancel(context.Canceled)
	return true
}

// Cancel ends the context. The run goes on until End is called.
func (u *Run) Cancel(cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancel(cause)
}

func (u *Run) cancel(cause error) {
	if u.ended != nil {
		return
	}
	if u.ended = &ranWell; cause != context.Canceled {
		u.ended = &runEnded{cause}
	}
	if u.done != nil {
		close(u.done)
	}
	if u.cancelled != nil {
		u.cancelled(cause)
	}
	for _, f := range u.after {
		go (*f)()
	}
	u.after = nil
}

// runEnded is the error of a context that has ended. It is context.Canceled, and its cause.
type runEnded struct{ cause error }

func (e *runEnded) Error() string   { return e.cause.Error() }
func (e *runEnded) Unwrap() []error { return []error{context.Canceled, e.cause} }

// ranWell is the error of contexts that have ended with their runs.
var ranWell = runEnded{context.Canceled}

// whenCancelled has cancel be called when the context ends.
func (u *Run) whenCancelled(cancel context.CancelCauseFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cancelled = cancel; u.ended != nil {
		cancel(u.ended.cause)
	}
}

// Deadline implements context.Context. There is none: a time-out ends the context.
func (u *Run) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context, with the values of the context of Worker.Run.
func (u *Run) Value(key any) any { return u.r.ctx.handlers.Value(key) }

// Done implements context.Context.
func (u *Run) Done() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done == nil {
		if u.done = make(chan struct{}); u.ended != nil {
			close(u.done)
		}
	}
	return u.done
}

// Err implements context.Context. The error is context.Canceled, and why: ErrLeaseLost, ErrDraining, or what Cancel got.
func (u *Run) Err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended == nil {
		return nil
	}
	return u.ended
}

// AfterFunc does what context.AfterFunc does, and costs less.
func (u *Run) AfterFunc(f func()) (stop func() bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended != nil {
		go f()
		return func() bool { return false }
	}
	u.after = append(u.after, &f)
	return func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		i := slices.Index(u.after, &f)
		if i < 0 {
			return false
		}
		u.after = slices.Delete(u.after, i, i+1)
		return true
	}
}

// handOver calls Take with the jobs that begin, until the worker has stopped and none runs.
func (r *running) handOver() {
	for tasks := r.nextSome(); tasks != nil; tasks = r.nextSome() {
		now := time.Now()
		runs := make([]*Run, 0, len(tasks))
		for _, t := range tasks {
			u := &t.run
			u.began = now
			if cause := u.Err(); cause != nil { // the job was lost before it began
				u.End(Outcome{}, cause)
				continue
			}
			runs = append(runs, u)
		}
		if len(runs) > 0 {
			r.Take(runs)
		}
	}
}

// ends are runs that have ended. sendReports takes them, as many at once as there are, so that the end of a run costs
// little and waits for nothing.
type ends struct {
	changed chan struct{} // capacity 1; signals that there are some

	mu   sync.Mutex // guards list
	list []*task
}

func (s *ends) add(t *task) {
	s.mu.Lock()
	s.list = append(s.list, t)
	first := len(s.list) == 1
	s.mu.Unlock()
	if first {
		signal(s.changed)
	}
}

func (s *ends) take() []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}
