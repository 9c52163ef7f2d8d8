package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	defaultWait   = 20 * time.Second
	defaultDrain  = 30 * time.Second
	defaultReport = 2 * time.Minute
)

// lastSettled is how long before the end of Run's time its requests are aborted, so that Run can still report which
// outcomes were not reported. It is at most a quarter of ReportTimeout.
const lastSettled = time.Second

// Run runs the worker until ctx ends, and then drains it: it claims no more, returns the jobs that no handler has begun
// to their queues, waits for the running handlers up to DrainTimeout, ends their contexts, and reports all outcomes.
// Then Run returns nil.
//
// Draining takes no longer than DrainTimeout and ReportTimeout together, whatever handlers do. Run gives up a handler
// that has not returned by then: it returns ErrUnfinished, and the server hands the job out again when the job's lease
// has ended, or when the stream has lingered. The run has used an attempt.
//
// While the server is down, Run waits for it. If the server refuses a claim for good (for example as malformed, or
// since the client's key lacks a role), Run drains and returns that refusal. If the server refuses the key itself, also with the
// text that Options.KeySource returns then, the worker's jobs are lost: the contexts of the handlers end with ErrLeaseLost, and
// nothing is reported. Run also returns an error if outcomes could
// not be reported; it contains the first few reasons. A lost lease is no error of Run: the job runs again, and OnEvent
// gets an Event.
func (w *Worker) Run(ctx context.Context) error {
	if w.Client == nil || (w.Handler == nil) == (w.Take == nil) {
		return errors.New("run worker: Client, and one of Handler and Take, are required")
	}
	r, err := w.newRunning(ctx)
	if err != nil {
		return err
	}
	defer r.abort()
	defer r.stop()

	kept, done := make(chan struct{}), make(chan struct{}) // closed when leases.keep, and then reports.sendAll, must end
	keepNoLeases := sync.OnceFunc(func() { close(kept) })
	var loops sync.WaitGroup
	loops.Go(func() { r.leases.keep(kept) })
	loops.Go(func() { r.reports.sendAll(done) })
	loops.Go(func() { r.handlers.recordEnds(done) })
	r.handlers.start()
	if r.NoStream {
		r.claims.noStream()
	} else {
		r.claims.underWay.Go(r.streams.keep)
	}
	<-r.stopping.Done()

	whole := r.DrainTimeout + r.ReportTimeout
	over := time.NewTimer(whole)
	defer over.Stop()
	defer time.AfterFunc(whole-min(lastSettled, r.ReportTimeout/4), r.abort).Stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.drain()
		r.farewell()
		keepNoLeases()
		close(done)
		loops.Wait()
		r.underWay.Wait()
	}()
	select {
	case <-drained:
		return r.problems.err()
	case <-over.C:
		keepNoLeases()
		return r.giveUp()
	}
}

// farewell ends the session and the stream of a worker that holds no jobs any more.
func (r *running) farewell() {
	if err := r.session.end(r.ctx); err != nil {
		r.Logger.Debug("cannot end the session; the server forgets it after a day", "error", err)
	}
	if s := r.stream.Load(); s != nil {
		s.Close()
	}
	r.abort() // outstanding tickles
}

// giveUp ends the connection of a worker whose handlers do not return. It returns the error of Run. The stream is cut
// without a closing handshake, since the jobs still run here: the server must not hand them out at once.
func (r *running) giveUp() error {
	r.abort()
	if s := r.stream.Load(); s != nil {
		go s.Abort()
	}
	var ids []string
	n := 0
	r.jobs.eachStarted(func(t *task) {
		if n++; len(ids) < maxProblems {
			ids = append(ids, t.run.Job.ID)
		}
	})
	if n == 0 { // all handlers have returned, but a callback or a request has not
		return errors.Join(r.problems.err(), fmt.Errorf("the worker could not stop within %v: OnEvent, Take or a request has not returned", r.DrainTimeout+r.ReportTimeout))
	}
	return errors.Join(r.problems.err(), fmt.Errorf("%w within %v: %d, of the jobs %s", ErrUnfinished, r.DrainTimeout+r.ReportTimeout, n, strings.Join(ids, ", ")))
}

// drain returns the jobs that no handler has begun to their queues, and waits until all other jobs have ended and are
// reported.
func (r *running) drain() {
	drained := time.AfterFunc(r.DrainTimeout, func() { r.jobs.loseAll(ErrDraining) })
	defer drained.Stop()
	r.reports.hurry()
	r.jobs.stop()
	r.claims.wait()
	r.handlers.underWay.Wait()
	last := time.AfterFunc(r.ReportTimeout, r.abort)
	defer last.Stop()
	r.jobs.unreportedClaims.Wait()
}

// running is a worker that runs. Each part has its own lock and calls only the parts after it: streams and claims add
// jobs, handlers run them, leases keep them, and reports end them, over the transport. Jobs call the claims when there
// may be room for more, and reports call the jobs when they are reported. No lock is held during these two calls.
type running struct {
	*Worker
	*transport
	stopping context.Context // ends when the worker must claim no more: with the context of Run, or when a claim is refused for good
	stop     context.CancelFunc
	problems problems

	streams  *streams
	handlers *handlers
	claims   *claims
	jobs     *jobs
	leases   *leases
	reports  *reports
}

// newRunning returns a worker that is ready to run until ctx ends. Handlers and requests outlive ctx, since they
// continue while the worker drains.
func (w *Worker) newRunning(ctx context.Context) (*running, error) {
	w, err := w.withDefaults(ctx)
	if err != nil {
		return nil, err
	}
	t := &transport{client: w.Client, session: newSession(w.RunnerID, w.Logger)}
	t.ctx, t.abort = context.WithCancel(context.WithoutCancel(ctx))
	r := &running{Worker: w, transport: t}
	r.stopping, r.stop = context.WithCancel(ctx)
	h := &host{values: context.WithoutCancel(ctx), ended: ends{changed: make(chan struct{}, 1)}}
	r.leases = newLeases(t, w.Logger)
	r.reports = newReports(t, w, r.stopping, &r.problems)
	r.jobs = newJobs(w, h, r.stopping, r.leases, r.reports)
	r.claims = newClaims(w, t, r.jobs, &r.problems, r.stopping, r.stop)
	b := &begins{transport: t, jobs: r.jobs, later: w.BeginLater, runner: w.RunnerID, logger: w.Logger}
	h.begin = b.announce
	r.handlers = &handlers{Worker: w, jobs: r.jobs, begins: b, host: h}
	r.streams = &streams{Worker: w, transport: t, claims: r.claims, jobs: r.jobs, leases: r.leases, begins: b, stopping: r.stopping}
	return r, nil
}

// withDefaults returns the worker with values for the fields that are not set.
func (w *Worker) withDefaults(ctx context.Context) (*Worker, error) {
	r := *w
	r.Concurrency = max(r.Concurrency, 1)
	if r.Batch <= 0 {
		r.Batch = r.Concurrency
	}
	r.Batch = min(r.Batch, 1000)
	if r.Wait <= 0 {
		r.Wait = defaultWait
	}
	r.Wait = min(r.Wait, job.MaxWaitMs*time.Millisecond)
	if r.DrainTimeout <= 0 {
		r.DrainTimeout = defaultDrain
	}
	if r.ReportTimeout <= 0 {
		r.ReportTimeout = defaultReport
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	if r.OnEvent == nil {
		r.OnEvent = func(Event) {}
	}
	if r.RunnerID == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name the runner after the host: %w; set RunnerID", err)
		}
		// The prefix of a key has at most job.MaxRunnerPrefixBytes, and the whole id job.MaxRunnerBytes.
		if r.RunnerID, err = r.Client.RunnerID(ctx, fmt.Sprintf("%.46s-%d-%06x", host, os.Getpid(), rand.N(1<<24))); err != nil {
			return nil, err
		}
	}
	return &r, nil
}
