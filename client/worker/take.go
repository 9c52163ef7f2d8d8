package worker

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// Run is one run of a job. The Worker passes it to Take. It is also the context of the run, which ends when the job is
// lost, when draining takes longer than DrainTimeout, and when the program calls Cancel or End.
type Run struct {
	Job *client.Job

	r     *running
	t     *task
	began time.Time

	mu    sync.Mutex    // guards the fields below
	ended bool          // End was called
	lost  error         // the reason why the worker ignores the outcome, or ignores an error
	err   error         // the reason why the context has ended
	done  chan struct{} // made when Done is called
	// When the context ends, cancel is called, and each of after in its own goroutine.
	cancel context.CancelCauseFunc
	after  []*func()
}

var _ context.Context = (*Run)(nil)

func (u *Run) begin(r *running, t *task, j *client.Job) { u.r, u.t, u.Job = r, t, j }

// End ends the run with the same result as a Handler returns. Only the first call counts. It does not wait.
func (u *Run) End(o client.Outcome, err error) {
	if u.recordEnd(o, err) {
		u.r.ends.add(u.t)
	}
}

// recordEnd records how the run ended, and ends the context. It reports whether this is the first call.
func (u *Run) recordEnd(o client.Outcome, err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return false
	}
	u.ended = true
	u.t.how = judge(u.lost, o, err)
	u.t.how.took = time.Since(u.began)
	u.endContext(context.Canceled)
	return true
}

// Cancel ends the context. The program must still call End. The cause does not change the report of End; nil means
// context.Canceled.
func (u *Run) Cancel(cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.endContext(cmp.Or(cause, context.Canceled))
}

// lose ends the context because the worker ignores the outcome, or ignores an error. The first cause counts.
func (u *Run) lose(cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lost == nil {
		u.lost = cause
	}
	u.endContext(cause)
}

// lostBy returns the cause of lose, or nil.
func (u *Run) lostBy() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lost
}

// endContext ends the context. u.mu is held.
func (u *Run) endContext(cause error) {
	if u.err != nil {
		return
	}
	if u.err = cause; cause != context.Canceled {
		u.err = &runEnded{cause}
	}
	if u.done != nil {
		close(u.done)
	}
	if u.cancel != nil {
		u.cancel(cause)
	}
	for _, f := range u.after {
		go (*f)()
	}
	u.after = nil
}

// runEnded is the error of a context that has ended early. It is context.Canceled, and its cause.
type runEnded struct{ cause error }

func (e *runEnded) Error() string   { return e.cause.Error() }
func (e *runEnded) Unwrap() []error { return []error{context.Canceled, e.cause} }

// onEnd sets the function that is called when the context ends.
func (u *Run) onEnd(cancel context.CancelCauseFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cancel = cancel; u.err != nil {
		cancel(u.lost)
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
		if u.done = make(chan struct{}); u.err != nil {
			close(u.done)
		}
	}
	return u.done
}

// Err implements context.Context. By errors.Is the error is context.Canceled, and also the reason why the context has
// ended: ErrLeaseLost, ErrDraining, or the cause that was passed to Cancel. context.Cause returns the same.
func (u *Run) Err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// AfterFunc is context.AfterFunc at a lower cost.
func (u *Run) AfterFunc(f func()) (stop func() bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
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
			r.announced(t)
			u := &t.run
			u.began = now
			if cause := u.lostBy(); cause != nil { // before it began
				u.End(client.Outcome{}, cause)
				continue
			}
			runs = append(runs, u)
		}
		if len(runs) > 0 && !r.callTake(runs) {
			return
		}
	}
}

// callTake calls Take. A panic of Take, or the end of its goroutine, is an error of all runs that have not ended. If
// the goroutine ends, a new one continues.
func (r *running) callTake(runs []*Run) (returned bool) {
	err := errGoexit
	defer func() {
		p := recover()
		if p != nil {
			returned, err = true, fmt.Errorf("panic: %v\n%s", p, firstLines(string(debug.Stack()), 24))
		}
		if err == nil {
			return
		}
		for _, u := range runs {
			u.End(client.Outcome{}, err)
		}
		if p == nil {
			r.underWay.handlers.Go(r.handOver)
		}
	}()
	r.Take(runs)
	err = nil
	return true
}

// ends are runs that have ended. sendReports takes all of them at once, so that ending a run costs little and waits for
// nothing.
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
