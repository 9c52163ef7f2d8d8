package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/runner/slots"
	"github.com/daybookq/daybook/runner/task"
)

// queue names the jobs that a lane runs: one client's jobs of a type, or all clients' with client "".
type queue struct{ client, typ string }

// lane holds this runner's jobs for one handler. It divides them into batches, and runs each batch when it gets slots.
// It does not wait for a batch to fill: when a run gets its slots, it takes the jobs that are waiting.
type lane struct {
	queue
	r     *Runner
	local bool // the handler is in the configuration
	// implicit: the jobs have no handler, and name their own binaries.
	implicit bool
	rest     rest
	share    *slots.Share
	slots    int // slots per run
	ctx      context.Context
	stop     context.CancelFunc
	runs     sync.WaitGroup
	users    sync.WaitGroup // jobs that have not ended; call Add only while holding r.mu

	making sync.Mutex // held while an executor is created

	mu        sync.Mutex
	newest    version
	batch     int // most jobs in a run
	most      int // most runs at a time
	executors map[string]*executor
	waiting   []*waiting
	late      *time.Timer   // calls giveUpLate
	lookAt    time.Time     // when it fires next; in the past if it is not set
	stopped   bool          // no more runs begin
	noneAhead time.Time     // until then, the lane holds at most one job per run
	acquiring int           // runs that wait for slots
	running   int           // runs that have slots
	each      time.Duration // moving average of a run's time per job; 0 until the first run has ended
}

// waiting is a job that waits for a run.
type waiting struct {
	*task.Task
	version string    // of the handler
	giveUp  time.Time // when to return it to its queue
}

// executor is a version's executor, with the number of runs that use it.
type executor struct {
	task.Executor
	err  error // why it could not be created
	used int
}

const (
	// longestWait bounds how long a job waits in the runner, because another runner may be free to run it.
	longestWait = 10 * time.Second
	// timeoutShare bounds the wait of a job with a timeout_ms to this fraction of it, because the server counts
	// timeout_ms from the claim.
	timeoutShare = 20
	// batchTime is about how long a run should take. If jobs are slow, batches are smaller, which leaves jobs to other
	// runs and runners.
	batchTime = 250 * time.Millisecond
	// firstBatch bounds a batch until the lane has measured how long its jobs take.
	firstBatch = 10
	// mostHeld bounds the jobs that a lane holds. mostHeldBytes bounds the payloads that the whole runner holds.
	mostHeld      = 1000
	mostHeldBytes = 256 << 20
	// batchBytes bounds the payloads of a batch. A single longer payload is a batch alone.
	batchBytes = 8 << 20
	// After a job has waited too long, the lane holds at most one job per run for noneAheadFor. Otherwise it would
	// claim and return jobs again and again.
	noneAheadFor = time.Minute
)

func (r *Runner) newLane(q queue, v version) (*lane, error) {
	l := &lane{queue: q, r: r, local: v.id == "" && !v.implicit, implicit: v.implicit, executors: map[string]*executor{}}
	o := v.options()
	l.slots = max(o.Slots, 1)
	most := v.most(r.Concurrency)
	share, err := r.slots.Register(q.typ, max(o.Weight, 1), l.slots, most)
	if err != nil {
		return nil, err
	}
	l.share = share
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.newest, l.batch, l.most = v, v.batch(), most
	l.late = time.AfterFunc(longestWait, l.giveUpLate)
	return l, nil
}

// capacity returns the most jobs that the lane ever holds.
func (l *lane) capacity() int { return min(l.fill(l.batch), max(mostHeld, 2*l.most)) }

// room returns how many jobs the lane should hold now.
func (l *lane) room() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.r.heldBytes.Load() > mostHeldBytes {
		return 1
	}
	if time.Now().Before(l.noneAhead) {
		return l.most
	}
	return min(l.fill(l.batchNow()), l.capacity())
}

// fill returns how many jobs fill all runs with batches of this size, plus the runs that begin next. Without waiting
// jobs, the lane would lose part of its share between two runs.
func (l *lane) fill(batch int) int { return l.most*batch + max(l.most, batch) }

// batchNow returns the most jobs that the next run may take. l.mu is held.
func (l *lane) batchNow() int {
	if l.each == 0 {
		return min(firstBatch, l.batch)
	}
	return min(max(int(batchTime/l.each), 1), l.batch)
}

// add adds jobs, and starts runs for them if the lane may have more runs.
func (l *lane) add(jobs []*waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		for _, w := range jobs {
			w.End(task.Unget())
		}
		return
	}
	now := time.Now()
	for _, w := range jobs {
		limit := longestWait
		if ms := w.Job.TimeoutMs; ms > 0 {
			limit = min(limit, time.Duration(ms)*time.Millisecond/timeoutShare)
		}
		w.giveUp = now.Add(limit)
	}
	l.waiting = append(l.waiting, jobs...)
	l.endUnwanted()
	l.lookAgain(now)
	l.start()
}

// lookAgain sets the timer of giveUpLate to the time at which the next job has waited too long, but at most a second
// ahead, because waiting jobs may be lost or cancelled. l.mu is held.
func (l *lane) lookAgain(now time.Time) {
	if len(l.waiting) == 0 {
		return
	}
	at := now.Add(time.Second)
	for _, w := range l.waiting {
		if w.giveUp.Before(at) {
			at = w.giveUp
		}
	}
	if l.lookAt.Before(now) || at.Before(l.lookAt) {
		l.lookAt = at
		l.late.Reset(at.Sub(now))
	}
}

// giveUpLate returns to their queues the jobs that have waited too long for a run.
func (l *lane) giveUpLate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.lookAt = time.Time{}
	l.endUnwanted()
	if l.removeWaiting(func(w *waiting) bool { return !now.Before(w.giveUp) }) > 0 {
		l.noneAhead = now.Add(noneAheadFor)
	}
	l.lookAgain(now)
}

// removeWaiting returns to their queues the waiting jobs that remove selects, and returns their number. l.mu is held.
func (l *lane) removeWaiting(remove func(*waiting) bool) int {
	n := len(l.waiting)
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiting) bool {
		if remove(w) {
			w.End(task.Unget())
			return true
		}
		return false
	})
	return n - len(l.waiting)
}

// endUnwanted returns the waiting jobs whose context has ended: they were lost or cancelled, or the runner drops them.
// l.mu is held.
func (l *lane) endUnwanted() {
	l.removeWaiting(func(w *waiting) bool { return w.Context.Err() != nil })
}

// giveBack returns the waiting jobs to their queues, and all jobs that are added later. Running runs continue.
func (l *lane) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.removeWaiting(func(*waiting) bool { return true })
}

// start starts runs for the waiting jobs. It lets one run more than the lane may have wait for slots, so that the lane
// gets its whole share. l.mu is held.
func (l *lane) start() {
	for l.acquiring*l.batchNow() < len(l.waiting) && l.acquiring+l.running <= l.most && l.ctx.Err() == nil {
		l.acquiring++
		l.runs.Go(l.run)
	}
}

// run waits for slots, and runs batches until no job is waiting.
func (l *lane) run() {
	for {
		err := l.share.Acquire(l.ctx)
		tasks, e := l.take(err)
		if err != nil {
			return
		}
		if len(tasks) == 0 {
			l.share.Release()
			return
		}
		began := time.Now()
		l.runBatch(tasks, e)
		l.share.Release()
		if !l.done(e, time.Since(began)/time.Duration(len(tasks))) {
			return
		}
	}
}

// begin reports to the server that the runs of tasks begin.
func begin(tasks []*task.Task) {
	runs := make([]*worker.Run, 0, len(tasks))
	for _, t := range tasks {
		if u, ok := t.Context.(*worker.Run); ok {
			runs = append(runs, u)
		}
	}
	worker.Begin(runs)
}

// runBatch runs a batch. It ends every task, even if the executor panics or leaves one without an outcome.
func (l *lane) runBatch(tasks []*task.Task, e *executor) {
	defer func() {
		reason := "the handler left the job without an outcome"
		if p := recover(); p != nil {
			reason = fmt.Sprintf("panic of the runner: %v", p)
			l.r.Log.Error("a kind of handlers has panicked", "type", l.typ, "panic", fmt.Sprint(p))
		}
		for _, t := range tasks {
			t.End(task.Error(reason))
		}
	}()
	if e.err != nil {
		for _, t := range tasks {
			t.End(task.CannotRun(e.err.Error()))
		}
		return
	}
	begin(tasks)
	e.Run(tasks)
}

// take takes a batch of the waiting jobs, and returns it with its executor. err is the error of waiting for slots.
func (l *lane) take(err error) (tasks []*task.Task, e *executor) {
	l.mu.Lock()
	l.acquiring--
	l.endUnwanted()
	if err != nil || len(l.waiting) == 0 {
		l.mu.Unlock()
		return nil, nil
	}
	id := l.waiting[0].version
	tasks = l.takeBatch(id, l.waiting[0].Job.Client)
	l.running++
	l.start()
	l.mu.Unlock()
	return tasks, l.executor(id)
}

// executor returns a version's executor and counts the caller as a user. It creates the executor if there is none.
func (l *lane) executor(id string) *executor {
	l.making.Lock()
	defer l.making.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.executors[id]
	if e == nil {
		e = &executor{}
		v := l.newest
		l.mu.Unlock()
		e.Executor, e.err = l.r.executorOf(l.ctx, &v, id)
		l.mu.Lock()
		l.executors[id] = e
		l.closeUnused(id)
	}
	e.used++
	return e
}

// takeBatch takes the oldest jobs of one version and one client, because clients do not share contexts. A job with a
// timeout_ms runs alone: jobs that were claimed together time out together, so a job that hangs would end its
// neighbours. l.mu is held.
func (l *lane) takeBatch(version, client string) (tasks []*task.Task) {
	most, bytes, rest := l.batchNow(), 0, l.waiting[:0]
	for _, w := range l.waiting {
		bytes += len(w.Job.Payload)
		if len(tasks) == 0 || len(tasks) < most && w.version == version && w.Job.Client == client && bytes <= batchBytes && w.Job.TimeoutMs == 0 {
			if tasks = append(tasks, w.Task); w.Job.TimeoutMs > 0 {
				most = 1
			}
		} else {
			rest = append(rest, w)
		}
	}
	clear(l.waiting[len(rest):])
	l.waiting = rest
	return tasks
}

// closeUnused closes the executors that no run uses, except version but. l.mu is held.
func (l *lane) closeUnused(but string) {
	for id, e := range l.executors {
		if id == but || e.used > 0 {
			continue
		}
		delete(l.executors, id)
		if e.err == nil {
			e.Close()
		}
	}
}

// done ends a run in which each job took this long. It reports whether the caller should wait for slots again.
func (l *lane) done(e *executor, each time.Duration) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.used--
	if e.err != nil { // the next run tries again to create it
		for id, x := range l.executors {
			if x == e && e.used == 0 {
				delete(l.executors, id)
			}
		}
	}
	each = max(each, 1)
	if l.each == 0 {
		l.each = each
	} else {
		l.each = max(l.each+(each-l.each)/4, 1)
	}
	l.running--
	if len(l.waiting) == 0 || l.acquiring*l.batchNow() >= len(l.waiting) {
		return false
	}
	l.acquiring++
	return true
}

// close ends the lane. It must not get more jobs.
func (l *lane) close() {
	l.stop()
	l.late.Stop()
	l.runs.Wait()
	l.share.Unregister()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeUnused("\x00")
}
