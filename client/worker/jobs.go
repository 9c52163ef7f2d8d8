package worker

import (
	"slices"
	"time"

	"github.com/daybookq/daybook/client"
)

// task is a job that the worker holds.
type task struct {
	claim *heldClaim
	run   Run

	// running.mu guards the fields up to announcement.
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
	started    int     // jobs that run
	unreported int     // jobs that have ended and are not reported
	stopped    bool    // no more jobs begin
	endedBy    error   // the reason why the handlers of all jobs must return; nil while they need not
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

// take adds the jobs of a claim. It returns the jobs that must be returned to their queues at once, because the worker
// stops.
func (r *running) take(got *client.Claim, sent time.Time) (back []*task) {
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
		t.claim = c
		t.run.begin(r, t, got.Jobs[i])
		t.run.Job.Handler = got.HandlerOf(t.run.Job)
		if r.jobs.stopped {
			back = append(back, t)
			continue
		}
		if limit := r.mayWait(t.run.Job); limit > 0 {
			if t.giveUp = got.Received.Add(limit); first.IsZero() || t.giveUp.Before(first) {
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
func (r *running) mayWait(j *client.Job) time.Duration {
	switch {
	case j.TimeoutMs > 0:
		return time.Duration(j.TimeoutMs) * time.Millisecond / timeoutShare
	case r.Prefetch > 0:
		return 0
	}
	return maxAheadWait
}

// next waits for a job and returns it to a handler. It returns nil when no more jobs will arrive. When the worker must
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
	return r.start(1)[0]
}

// nextSome waits for jobs, and returns the jobs that Take gets: all that wait, as far as Concurrency allows. It returns
// nil when no more jobs will arrive and all that have begun have ended.
func (r *running) nextSome() []*task {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		n := min(len(r.jobs.queue), r.Concurrency-r.jobs.started)
		switch {
		case n > 0 && r.ctx.stopping.Err() == nil:
			return r.start(n)
		case r.jobs.stopped && r.jobs.started == 0:
			return nil
		}
		r.ready.Wait()
	}
}

// start takes the first n waiting jobs: they run from now on. running.mu is held.
func (r *running) start(n int) []*task {
	tasks := slices.Clone(r.jobs.queue[:n])
	clear(r.jobs.queue[:n])
	r.jobs.started += n
	if r.jobs.queue = r.jobs.queue[n:]; len(r.jobs.queue) == 0 {
		r.jobs.queue = nil
		r.claimMore() // claimMore sends no claim for a few jobs while jobs wait
	}
	r.announceStarted(tasks)
	for _, t := range tasks {
		t.state = started
		if r.jobs.endedBy != nil {
			t.run.lose(r.jobs.endedBy)
		}
		if ms := t.run.Job.TimeoutMs; ms > 0 {
			left := time.Until(t.claim.received.Add(time.Duration(ms) * time.Millisecond))
			t.timeout = time.AfterFunc(left, func() { t.run.lose(errTimedOut) })
		}
	}
	return tasks
}

// end records how the run of a job ended, and adds the job to the reports.
func (r *running) end(t *task, how ending) {
	t.how = how
	r.recordEnds([]*task{t})
}

// recordEnds records that the runs of jobs have ended, and adds the jobs to the reports.
func (r *running) recordEnds(tasks []*task) {
	if len(tasks) == 0 {
		return
	}
	r.mu.Lock()
	for _, t := range tasks {
		if t.state == started {
			r.jobs.started--
			if t.timeout != nil {
				t.timeout.Stop()
			}
			if mean := &r.jobs.meanTook; *mean < 0 {
				*mean = t.how.took
			} else {
				*mean += (t.how.took - *mean) / 16
			}
		}
		t.state = ended
	}
	r.jobs.held -= len(tasks)
	r.jobs.unreported += len(tasks)
	r.claimMore()
	if r.Take != nil {
		r.ready.Signal() // wakes handOver, the only waiter: other jobs may begin now
	}
	r.mu.Unlock()
	r.reports.add(tasks)
}

// endHandlers ends the contexts of all handlers, also of handlers that begin later.
func (r *running) endHandlers(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs.endedBy = cause
	for c := range r.leases.claims {
		for i := range c.tasks {
			if t := &c.tasks[i]; t.state == started {
				t.run.lose(cause)
			}
		}
	}
}

// removeWaiting removes the waiting jobs for which remove returns true from the queue, and returns them. running.mu is
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
		t.how = ending{giveBack: true}
	}
	r.recordEnds(tasks)
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
