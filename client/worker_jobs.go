package client

import (
	"context"
	"slices"
	"time"
)

// task is a job that the worker holds.
type task struct {
	claim *heldClaim
	job   *Job

	// running.mu guards these.
	state   taskState
	lost    error     // why the worker no longer holds the job
	giveUp  time.Time // when the job is returned to its queue if it still waits; zero means never
	timeout *time.Timer
	cancel  context.CancelCauseFunc // of ctx; set when the job runs

	ctx context.Context // of the handler; set before the job runs
	how ending          // set before the task is added to the reports
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

	// running.mu guards these.
	unreported int // tasks that have not been reported
	leaseTimes

	// reports.mu guards these.
	unended  int       // tasks that have not ended
	toReport []*task   // tasks that have ended and that are in no report yet
	since    time.Time // when the first of toReport ended
}

// heldJobs are the jobs that the worker holds, from the claim to the end of the run. running.mu guards it.
type heldJobs struct {
	queue      []*task // jobs that wait for a handler
	held       int     // jobs that wait or run
	unreported int     // jobs that have ended and are not reported
	stopped    bool    // no handler begins another job
	// meanTook is the moving average of how long a handler takes for a job. It is negative until the first job has
	// ended.
	meanTook time.Duration
}

const (
	// timeoutShare bounds how long a job waits in the worker: its timeout_ms divided by timeoutShare. The server counts
	// the time-out from the claim.
	timeoutShare = 20
	// maxAheadWait bounds how long a job waits that was claimed in advance without Prefetch. Another runner may be free
	// for it.
	maxAheadWait = 10 * time.Second
	// noAheadFor is how long the worker claims only for free handlers after a job has waited too long.
	noAheadFor = time.Minute
)

// take adds the jobs of a claim. It returns those that must be returned to their queues at once, since the worker
// stops.
func (r *running) take(got *Claim, sent time.Time) (back []*task) {
	c := &heldClaim{id: got.ID, lease: time.Duration(got.LeaseMs) * time.Millisecond, tasks: make([]task, len(got.Jobs))}
	c.unended, c.unreported = len(c.tasks), len(c.tasks)
	c.leaseTimes = startLease(c.lease, sent, got)
	r.underWay.heldClaims.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs.held += len(c.tasks)
	r.hold(c)
	var first time.Time // the earliest giveUp
	for i := range c.tasks {
		t := &c.tasks[i]
		t.claim, t.job = c, got.Jobs[i]
		t.job.Handler = got.HandlerOf(t.job)
		if r.jobs.stopped {
			back = append(back, t)
			continue
		}
		if limit := r.mayWait(t.job); limit > 0 {
			if t.giveUp = got.received.Add(limit); first.IsZero() || t.giveUp.Before(first) {
				first = t.giveUp
			}
		}
		r.jobs.queue = append(r.jobs.queue, t)
	}
	if !first.IsZero() {
		r.lookAt(first)
	}
	r.ready.Broadcast()
	return back
}

// mayWait returns how long a job may wait for a handler until it is returned to its queue. 0 means without a limit.
func (r *running) mayWait(j *Job) time.Duration {
	switch {
	case j.TimeoutMs > 0:
		return time.Duration(j.TimeoutMs) * time.Millisecond / timeoutShare
	case r.Prefetch > 0:
		return 0
	}
	return maxAheadWait
}

// next waits for a job and returns it to a handler. It returns nil when no more jobs will come. When the worker must
// stop, no job begins, even if Run has not noticed it yet. Run then returns the waiting jobs to their queues.
func (r *running) next() *task {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.jobs.queue) == 0 || r.ctx.stopping.Err() != nil {
		if r.jobs.stopped {
			return nil
		}
		r.ready.Wait()
	}
	t := r.jobs.queue[0]
	r.jobs.queue[0] = nil
	if r.jobs.queue = r.jobs.queue[1:]; len(r.jobs.queue) == 0 {
		r.jobs.queue = nil
		r.claimMore() // which sends no claim for a few jobs while jobs wait
	}
	t.state = started
	t.ctx, t.cancel = context.WithCancelCause(r.ctx.handlers)
	if t.lost != nil {
		t.cancel(t.lost)
	}
	if ms := t.job.TimeoutMs; ms > 0 {
		left := time.Until(t.claim.received.Add(time.Duration(ms) * time.Millisecond))
		t.timeout = time.AfterFunc(left, func() { t.cancel(errTimedOut) })
	}
	return t
}

// end records how the run of a job ended, and adds the job to the reports.
func (r *running) end(t *task, how ending) {
	t.how = how
	r.mu.Lock()
	if t.state == started {
		t.cancel(nil)
		if t.timeout != nil {
			t.timeout.Stop()
		}
		if mean := &r.jobs.meanTook; *mean < 0 {
			*mean = how.took
		} else {
			*mean += (how.took - *mean) / 16
		}
	}
	t.state = ended
	r.jobs.held--
	r.jobs.unreported++
	r.claimMore()
	r.mu.Unlock()
	r.reports.add(t)
}

// removeWaiting removes from the queue, and returns, the waiting jobs for which remove returns true. running.mu is
// held.
func (r *running) removeWaiting(remove func(*task) bool) (removed []*task) {
	r.jobs.queue = slices.DeleteFunc(r.jobs.queue, func(t *task) bool {
		if !remove(t) {
			return false
		}
		removed = append(removed, t)
		return true
	})
	return removed
}

// giveBackAll returns jobs that no handler has begun to their queues.
func (r *running) giveBackAll(tasks []*task) {
	for _, t := range tasks {
		r.end(t, ending{giveBack: true})
	}
}

// reported records that tasks are reported. A claim is released with its last task.
func (r *running) reported(tasks []*task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs.unreported -= len(tasks)
	for _, t := range tasks {
		if t.claim.unreported--; t.claim.unreported == 0 {
			r.release(t.claim)
			r.underWay.heldClaims.Done()
		}
	}
	r.claimMore()
}
