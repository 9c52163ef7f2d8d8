package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/encryption"
)

// jobs are the jobs that the worker holds, from the claim to the report of the run's end. Claims call take to add them.
// Handlers begin them with next or nextSome, and end them with end. Reports call reported.
type jobs struct {
	concurrency int
	beginLater  bool
	decodes     bool // the client has a Codec
	byTake      bool // the program gets the jobs by Take
	prefetch    int
	host        *host
	stopping    context.Context // when it ends, no more jobs begin
	leases      *leases
	reports     *reports
	logger      *slog.Logger

	// The claims set these: more is called when there may be room for more jobs, and late when a job has waited too long.
	more, late func()

	unreportedClaims sync.WaitGroup // claims with jobs that are not reported

	mu         sync.Mutex // guards the fields below, and the fields of task and heldClaim that say so
	ready      sync.Cond  // with mu; signals that queue has grown, that stopped is set, or, with Take, that runs have ended
	claims     map[*heldClaim]struct{}
	queue      []*task     // jobs that wait for a handler
	aside      []*task     // jobs that cannot be decoded, and are returned to their queues after undecodablePause
	warned     time.Time   // when the worker last logged that jobs cannot be decoded
	expiry     *time.Timer // calls expire; nil: no job has had to wait
	expireAt   time.Time   // when expiry calls it; zero means never
	held       int         // jobs that wait or run
	started    int         // jobs that run
	unreported int         // jobs that have ended and are not reported
	stopped    bool        // no more jobs begin
	endedBy    error       // the reason why the handlers of all jobs must return; nil while they need not
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
	// beginsAhead bounds how much later than the first a run may begin that is announced in the same message. A message
	// for each job would cost quick handlers more than their work.
	beginsAhead = 100 * time.Microsecond
	// undecodablePause is how long the worker keeps a job that it cannot decode before it returns the job. Without the
	// pause, it would claim the same job again and again.
	undecodablePause = 5 * time.Second
	// warnUndecodable is how often the worker logs that it cannot decode jobs.
	warnUndecodable = time.Minute
	// maxBegins bounds the runs of a message.
	maxBegins = 64
)

func newJobs(w *Worker, h *host, stopping context.Context, l *leases, r *reports) *jobs {
	j := &jobs{
		concurrency: w.Concurrency, beginLater: w.BeginLater, decodes: w.Client.Codec() != nil, byTake: w.Take != nil, prefetch: w.Prefetch, logger: w.Logger, host: h, stopping: stopping, leases: l, reports: r,
		claims: map[*heldClaim]struct{}{}, meanTook: -1,
	}
	j.ready.L = &j.mu
	r.reported = j.reported
	return j
}

// load is how many jobs a worker holds.
type load struct {
	held, waiting, unreported int
	meanTook                  time.Duration
}

func (j *jobs) load() load {
	j.mu.Lock()
	defer j.mu.Unlock()
	return load{held: j.held, waiting: len(j.queue), unreported: j.unreported, meanTook: j.meanTook}
}

// take adds the jobs of a claim. It returns the jobs that must be returned to their queues at once, because the worker
// stops.
func (j *jobs) take(got *client.Claim, sent time.Time) (back []*task) {
	c := &heldClaim{id: got.ID, lease: time.Duration(got.LeaseMs) * time.Millisecond, tasks: make([]task, len(got.Jobs)), received: got.Received}
	c.unended, c.unreported = len(c.tasks), len(c.tasks)
	c.leaseTimes = startLease(c.lease, sent, got)
	for i := range c.tasks {
		t := &c.tasks[i]
		t.claim = c
		t.run.Job, t.run.host, t.run.t = got.Jobs[i], j.host, t
		t.run.Job.Handler = got.HandlerOf(t.run.Job)
		if !j.decodes {
			refuseEncrypted(t.run.Job)
		}
	}
	j.unreportedClaims.Add(1)
	j.leases.hold(c)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held += len(c.tasks)
	j.claims[c] = struct{}{}
	for i := range c.tasks {
		t := &c.tasks[i]
		if j.stopped {
			back = append(back, t)
			continue
		}
		if t.run.Job.Undecodable != nil {
			j.putAside(t)
			continue
		}
		if limit := j.mayWait(t.run.Job); limit > 0 {
			t.giveUp = got.Received.Add(limit)
			j.expireBy(t.giveUp)
		}
		j.queue = append(j.queue, t)
	}
	j.ready.Broadcast()
	return back
}

// refuseEncrypted marks a job whose payload is encrypted as one that cannot be decoded, for a worker without a Codec. A handler
// would take the encrypted text for the payload.
func refuseEncrypted(one *client.Job) {
	if one.Kind != client.Text || one.Undecodable != nil {
		return
	}
	if id, is := encryption.KeyOf(client.PartPayload, one.Payload); is {
		one.Payload, one.Kind = nil, client.None
		one.Undecodable = fmt.Errorf("job %s: %w: the payload: %w: its id is %q, and the client has no Codec", one.ID, client.ErrUndecodable, encryption.ErrNoKey, id)
	}
}

// putAside keeps a job that cannot be decoded for undecodablePause, and then returns it to its queue as if it had never been
// claimed. mu is held.
func (j *jobs) putAside(t *task) {
	j.aside = append(j.aside, t)
	if len(j.aside) == 1 {
		time.AfterFunc(undecodablePause, func() { j.giveBack(j.takeAside()) })
	}
	if now := time.Now(); j.warned.IsZero() || now.Sub(j.warned) >= warnUndecodable {
		j.warned = now
		one := t.run.Job
		j.logger.Warn("jobs cannot be decoded, and are returned to their queues without an attempt", "job_id", one.ID, "type", one.Type, "client", one.Client, "error", one.Undecodable)
	}
}

// takeAside returns the jobs that were put aside, which are no longer there.
func (j *jobs) takeAside() []*task {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := j.aside
	j.aside = nil
	return list
}

// mayWait returns how long a job may wait for a handler until it is returned to its queue. 0 means without a limit.
func (j *jobs) mayWait(one *client.Job) time.Duration {
	switch {
	case one.TimeoutMs > 0:
		return time.Duration(one.TimeoutMs) * time.Millisecond / timeoutShare
	case j.prefetch > 0:
		return 0
	}
	return maxAheadWait
}

// expireBy makes expire run at this time or earlier. mu is held.
func (j *jobs) expireBy(at time.Time) {
	switch {
	case !j.expireAt.IsZero() && !at.Before(j.expireAt):
		return
	case j.expiry == nil:
		j.expiry = time.AfterFunc(time.Until(at), j.expire)
	default:
		j.expiry.Reset(time.Until(at))
	}
	j.expireAt = at
}

// expire returns jobs that have waited too long for a handler to their queues.
func (j *jobs) expire() {
	j.mu.Lock()
	now := time.Now()
	j.expireAt = time.Time{}
	back := j.removeWaiting(func(t *task) bool {
		late := !t.giveUp.IsZero() && !now.Before(t.giveUp)
		if !late && !t.giveUp.IsZero() {
			j.expireBy(t.giveUp)
		}
		return late
	})
	j.mu.Unlock()
	if len(back) > 0 {
		j.late()
		j.giveBack(back)
	}
}

// next waits for a job and returns it to a handler. It returns nil when no more jobs will arrive.
func (j *jobs) next() *task {
	tasks := j.await(func() (n int, over bool) { return min(len(j.queue), 1), j.stopped })
	if tasks == nil {
		return nil
	}
	return tasks[0]
}

// nextSome waits for jobs, and returns the jobs that Take gets: all that wait, as far as Concurrency allows. It returns
// nil when no more jobs will arrive and all that have begun have ended.
func (j *jobs) nextSome() []*task {
	return j.await(func() (n int, over bool) {
		return min(len(j.queue), j.concurrency-j.started), j.stopped && j.started == 0
	})
}

// await waits until some jobs may begin, and returns these, or nil when none will. When the worker must stop, no job
// begins, even if Run has not noticed it yet. Run then returns the waiting jobs to their queues.
func (j *jobs) await(ready func() (n int, over bool)) []*task {
	j.mu.Lock()
	for {
		n, over := ready()
		switch {
		case n > 0 && j.stopping.Err() == nil:
			tasks := j.start(n)
			empty := j.queue == nil
			j.mu.Unlock()
			if empty {
				j.more() // it sends no claim for a few jobs while jobs wait
			}
			return tasks
		case over:
			j.mu.Unlock()
			return nil
		}
		j.ready.Wait()
	}
}

// start takes the first n waiting jobs: they run from now on. mu is held.
func (j *jobs) start(n int) []*task {
	tasks := slices.Clone(j.queue[:n])
	clear(j.queue[:n])
	j.started += n
	if j.queue = j.queue[n:]; len(j.queue) == 0 {
		j.queue = nil
	}
	j.prepare(tasks)
	for _, t := range tasks {
		t.state = started
		if j.endedBy != nil {
			t.run.lose(j.endedBy)
		}
		if ms := t.run.Job.TimeoutMs; ms > 0 {
			left := time.Until(t.claim.received.Add(time.Duration(ms) * time.Millisecond))
			t.timeout = time.AfterFunc(left, func() { t.run.lose(errTimedOut) })
		}
	}
	return tasks
}

// prepare prepares the announcement of jobs that begin now, and of the jobs that begin next if handlers are
// quick. mu is held.
func (j *jobs) prepare(tasks []*task) {
	if j.beginLater {
		return
	}
	var a *announcement
	add := func(t *task) {
		if t.announcement != nil {
			return
		}
		if a == nil {
			a = &announcement{sent: make(chan struct{})}
		}
		a.tasks = append(a.tasks, t)
		t.announcement, t.begun = a, true
	}
	for _, t := range tasks {
		add(t)
	}
	if mean := j.meanTook; a != nil && mean >= 0 && mean < beginsAhead {
		next := int(beginsAhead*time.Duration(j.concurrency)/max(mean, time.Microsecond)) - len(tasks)
		for _, t := range j.queue[:min(max(next, 0), maxBegins, len(j.queue))] {
			add(t)
		}
	}
}

// begin records that runs begin, and returns the runs for which that is new.
func (j *jobs) begin(tasks []*task) (begin []*task) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range tasks {
		if !t.begun {
			t.begun = true
			begin = append(begin, t)
		}
	}
	return begin
}

// begun returns the runs that have begun and not ended.
func (j *jobs) begun() (begun []*task) {
	j.eachStarted(func(t *task) {
		if t.begun {
			begun = append(begun, t)
		}
	})
	return begun
}

// eachStarted calls f with each job that runs. mu is held meanwhile.
func (j *jobs) eachStarted(f func(*task)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for c := range j.claims {
		for i := range c.tasks {
			if t := &c.tasks[i]; t.state == started {
				f(t)
			}
		}
	}
}

// end records how the runs of jobs ended, and adds the jobs to the reports.
func (j *jobs) end(tasks []*task) {
	if len(tasks) == 0 {
		return
	}
	j.mu.Lock()
	for _, t := range tasks {
		if t.state == started {
			j.started--
			if t.timeout != nil {
				t.timeout.Stop()
			}
			if mean := &j.meanTook; *mean < 0 {
				*mean = t.how.took
			} else {
				*mean += (t.how.took - *mean) / 16
			}
		}
		t.state = ended
	}
	j.held -= len(tasks)
	j.unreported += len(tasks)
	if j.byTake {
		j.ready.Signal() // wakes the only waiter: other jobs may begin now
	}
	j.mu.Unlock()
	j.more()
	j.reports.add(tasks)
}

// giveBack returns jobs that no handler has begun to their queues.
func (j *jobs) giveBack(tasks []*task) {
	for _, t := range tasks {
		t.how = ending{giveBack: true}
	}
	j.end(tasks)
}

// reported records that tasks are reported. A claim is released with its last task.
func (j *jobs) reported(tasks []*task) {
	var whole []*heldClaim
	j.mu.Lock()
	j.unreported -= len(tasks)
	for _, t := range tasks {
		if t.claim.unreported--; t.claim.unreported == 0 {
			delete(j.claims, t.claim)
			whole = append(whole, t.claim)
		}
	}
	j.mu.Unlock()
	if len(whole) > 0 {
		j.leases.release(whole)
	}
	j.more()
	for range whole {
		j.unreportedClaims.Done()
	}
}

// stop begins no more jobs, and returns the jobs that no handler has begun to their queues.
func (j *jobs) stop() {
	j.mu.Lock()
	j.stopped = true
	back := append(j.removeWaiting(func(*task) bool { return true }), j.aside...)
	j.aside = nil
	j.ready.Broadcast()
	j.mu.Unlock()
	j.giveBack(back)
}

// loseAll ends the contexts of all handlers, also of handlers that begin later.
func (j *jobs) loseAll(cause error) {
	j.mu.Lock()
	j.endedBy = cause
	j.mu.Unlock()
	j.eachStarted(func(t *task) { t.run.lose(cause) })
}

// removeWaiting removes the waiting jobs for which remove returns true from the queue, and returns them. mu is held.
func (j *jobs) removeWaiting(remove func(*task) bool) (removed []*task) {
	j.queue = slices.DeleteFunc(j.queue, func(t *task) bool {
		if !remove(t) {
			return false
		}
		removed = append(removed, t)
		return true
	})
	return removed
}
