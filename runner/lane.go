package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/slots"
	"github.com/daybookq/daybook/runner/task"
)

// queue names the jobs that a lane runs: those of a type, and of a client, or of all clients with "".
type queue struct{ client, typ string }

// lane has the jobs of one handler that this runner holds. It divides them into batches, and runs each batch when it gets
// slots. Nothing waits for a batch to fill: a run takes what waits when its turn comes.
type lane struct {
	queue
	r     *Runner
	local bool // the handler is one of the configuration
	// implicit: the lane has jobs without a handler, which name their own binaries.
	implicit bool
	rest     rest
	share    *slots.Share
	slots    int // of a run
	ctx      context.Context
	stop     context.CancelFunc
	runs     sync.WaitGroup
	users    sync.WaitGroup // jobs that have not ended; Add while r.mu is held

	making sync.Mutex // while an executor is made

	mu        sync.Mutex
	newest    version
	batch     int // jobs in a run, at most
	most      int // runs at a time, at most
	executors map[string]*executor
	waiting   []*waiting
	late      *time.Timer   // looks for jobs that have waited too long
	lookAt    time.Time     // when it does next; in the past if it does not
	stopped   bool          // no run begins any more
	noneAhead time.Time     // until then, the lane holds only jobs that run
	acquiring int           // runs that wait for their slots
	running   int           // runs that have them
	each      time.Duration // moving average of how long a job takes in a run; 0 until the first run has ended
}

// waiting is a job that waits for a run.
type waiting struct {
	*task.Task
	version string    // of its handler
	giveUp  time.Time // when it is returned to its queue
}

// executor is an executor of a version, and how many runs use it.
type executor struct {
	task.Executor
	err  error // why there is none
	used int
}

const (
	// longestWait bounds how long a job waits in the runner. Another runner may be free for it.
	longestWait = 10 * time.Second
	// timeoutShare bounds the same for a job with a timeout_ms, which the server counts from the claim.
	timeoutShare = 20
	// batchTime is about how long a run may take. With slow jobs, runs have fewer jobs, so that the others are left to
	// other runs and runners.
	batchTime = 250 * time.Millisecond
	// firstBatch is how many jobs a run has, at most, before it is known how long they take.
	firstBatch = 10
	// mostHeld bounds how many jobs a lane holds, and mostHeldBytes the payloads that the runner holds.
	mostHeld      = 1000
	mostHeldBytes = 256 << 20
	// batchBytes bounds the payloads of a batch. One payload may be longer.
	batchBytes = 8 << 20
	// noneAheadFor is how long a lane holds only jobs that run after one has waited too long, so that it does not claim
	// and return jobs again and again.
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

// capacity returns how many jobs the lane holds at most.
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

// fill returns how many jobs fill all runs with batches of that many, and those that begin next: without jobs that wait,
// the lane would lose a part of its share.
func (l *lane) fill(batch int) int { return l.most*batch + max(l.most, batch) }

// batchNow returns how many jobs the next run may have. l.mu is held.
func (l *lane) batchNow() int {
	if l.each == 0 {
		return min(firstBatch, l.batch)
	}
	return min(max(int(batchTime/l.each), 1), l.batch)
}

// add adds jobs, and starts runs for them if there may be more.
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

// lookAgain sets the timer of giveUpLate to when the next job has waited too long, but to a second at most, since jobs may
// be lost. l.mu is held.
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

// giveUpLate ends the jobs that have waited too long for a run, so that they go back to their queues.
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

// removeWaiting ends the waiting jobs that remove selects, so that they go back to their queues. It returns how many.
// l.mu is held.
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

// endUnwanted ends the waiting jobs that are lost or cancelled, or that the runner drops. l.mu is held.
func (l *lane) endUnwanted() {
	l.removeWaiting(func(w *waiting) bool { return w.Context.Err() != nil })
}

// giveBack returns the jobs that no run has taken, and all that come later. Runs that are under way go on.
func (l *lane) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.removeWaiting(func(*waiting) bool { return true })
}

// start starts runs for the jobs that wait. One run more than there may be waits for slots, so that the lane gets all of
// its share. l.mu is held.
func (l *lane) start() {
	for l.acquiring*l.batchNow() < len(l.waiting) && l.acquiring+l.running <= l.most && l.ctx.Err() == nil {
		l.acquiring++
		l.runs.Go(l.run)
	}
}

// run waits for slots, and runs batches until no job waits.
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

// begin says to the server that the runs of tasks begin.
func begin(tasks []*task.Task) {
	runs := make([]*client.Run, 0, len(tasks))
	for _, t := range tasks {
		if u, ok := t.Context.(*client.Run); ok {
			runs = append(runs, u)
		}
	}
	client.Begin(runs)
}

// runBatch ends all tasks, whatever the executor does.
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

// take takes a batch from the jobs that wait, and returns its executor. err is that of waiting for slots.
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

// executor returns the executor of a version, and counts the caller as one of its users.
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

// takeBatch takes the oldest jobs of a version and a client: contexts are not shared between clients. A job with a
// timeout_ms is alone: the time-outs of a batch that was claimed together would end together, and a job that hangs would
// end its neighbours. l.mu is held.
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

// closeUnused closes the executors of other versions that no run uses. l.mu is held.
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

// done ends a run in which each job took so long. It reports whether the caller should wait for slots again.
func (l *lane) done(e *executor, each time.Duration) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.used--
	if e.err != nil { // look for it again with the next run
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

// close ends the lane, which gets no more jobs.
func (l *lane) close() {
	l.stop()
	l.late.Stop()
	l.runs.Wait()
	l.share.Unregister()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeUnused("\x00")
}
