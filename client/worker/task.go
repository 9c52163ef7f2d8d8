package worker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// Run is one run of a job. The Worker passes it to Take. It is also the context of the run, which ends when the job is
// lost, when draining takes longer than DrainTimeout, and when the program calls Cancel or End.
type Run struct {
	Job *client.Job

	host  *host
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

// End ends the run with the same result as a Handler returns. Only the first call counts. It does not wait.
func (u *Run) End(o client.Outcome, err error) {
	if u.recordEnd(o, err) {
		u.host.ended.add(u.t)
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
func (u *Run) Value(key any) any { return u.host.values.Value(key) }

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

// Begin announces that runs begin now, for a Worker with BeginLater. It returns when the server knows, or cannot be
// reached: if the process ends after that, the runs count as attempts. It takes a few microseconds, so pass it many
// runs in one call.
func Begin(runs []*Run) {
	for len(runs) > 0 {
		h := runs[0].host
		var tasks []*task
		var others []*Run
		for _, u := range runs {
			if u.host == h {
				tasks = append(tasks, u.t)
			} else {
				others = append(others, u)
			}
		}
		h.begin(tasks)
		runs = others
	}
}

// task is a job that the worker holds.
type task struct {
	claim *heldClaim
	run   Run

	// jobs.mu guards the fields up to announcement.
	state   taskState
	giveUp  time.Time // when the job is returned to its queue if it still waits; zero means never
	timeout *time.Timer
	begun   bool // the server knows that the run begins, or the announcement is being sent
	// announcement is the message that announces the begin; nil: none was made.
	announcement *announcement

	how ending // set before the task is added to the reports
}

type taskState uint8

const (
	waiting taskState = iota // for a handler
	started
	ended
)

// heldClaim is a claim with jobs that are not reported yet.
type heldClaim struct {
	id    string
	lease time.Duration
	tasks []task // in the order of the claim's answer

	received   time.Time // when the claim's answer arrived
	unreported int       // tasks that have not been reported; jobs.mu guards it
	leaseTimes           // leases.mu guards them

	// reports.mu guards these.
	unended  int       // tasks that have not ended
	toReport []*task   // tasks that have ended and that are in no report yet
	since    time.Time // when the first of toReport ended
}

// lose ends the handlers of the jobs that the server has reported as lost.
func (c *heldClaim) lose(lost []client.Lost) {
	for _, one := range lost {
		for i := range c.tasks {
			if t := &c.tasks[i]; t.run.Job.ID != one.JobID {
				continue
			} else if one.Code == "cancelled" {
				t.run.lose(errCancelledRun)
			} else {
				t.run.lose(ErrLeaseLost)
			}
			break
		}
	}
}

// loseAll ends the handlers of all jobs of a claim. Handlers that have returned are not affected. A job that waits
// for a handler ends without one when its turn arrives.
func (c *heldClaim) loseAll(cause error) {
	for i := range c.tasks {
		c.tasks[i].run.lose(cause)
	}
}

// announcement is one message which notifies the server that some runs have begun. If the process ends then, only these
// runs count as attempts.
type announcement struct {
	tasks []*task       // the goroutine of the first one sends it
	sent  chan struct{} // closed when it is written
}

// host is the part of a worker that its runs use.
type host struct {
	values context.Context // has the values of the handlers' contexts, and does not end
	begin  func([]*task)   // announces that runs begin now
	ended  ends
}

// ends are runs that have ended. recordEnds takes all of them at once, so that ending a run costs little and waits for
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
