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
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

const (
	defaultWait   = 20 * time.Second
	defaultDrain  = 30 * time.Second
	defaultReport = 2 * time.Minute
	// lastClaim is how long a claim that waits at the server may continue when the worker stops. If it were aborted at
	// once, its answer might already have been sent, and its jobs would be idle until their lease ends. A claim that
	// still waits after lastClaim most likely gets no jobs. It is repeated once to make sure, for lastRepeat. On a slow
	// network both are longer: see patience.
	lastClaim, lastRepeat = 250 * time.Millisecond, 750 * time.Millisecond
	// lastAnswer is the limit for a claim that does not wait. Its answer arrives soon, unless the server is down.
	lastAnswer = 5 * time.Second
)

// lastSettled is how long before the end of Run's time its requests are aborted, so that Run can still report which
// outcomes were not reported. It is at most a quarter of ReportTimeout.
const lastSettled = time.Second

// ErrUnfinished is in the error of Run if handlers had not returned when its time was over. Their jobs are no longer
// tickled, and run again.
var ErrUnfinished = errors.New("handlers have not returned")

// Run runs the worker until ctx ends, and then drains it: it claims no more, returns the jobs that no handler has begun
// to their queues, waits for the running handlers up to DrainTimeout, ends their contexts, and reports all outcomes.
// Then Run returns nil.
//
// Draining takes no longer than DrainTimeout and ReportTimeout together, whatever handlers do. Run gives up a handler
// that has not returned by then: it returns ErrUnfinished, and the server hands the job out again when the job's lease
// has ended, or when the stream has lingered. The run has used an attempt.
//
// While the server is down, Run waits for it. If the server refuses a claim for good (for example as malformed, or
// since it does not serve this host), Run drains and returns that refusal. Run also returns an error if outcomes could
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
	defer r.ctx.endAll()

	kept, done := make(chan struct{}), make(chan struct{}) // closed when keepLeases, and then sendReports, must end
	keepNoLeases := sync.OnceFunc(func() { close(kept) })
	var loops sync.WaitGroup
	loops.Go(func() { r.keepLeases(kept) })
	loops.Go(func() { r.sendReports(done) })
	if r.Take != nil {
		r.underWay.handlers.Go(r.handOver)
	} else {
		for range r.Concurrency {
			r.underWay.handlers.Go(r.handle)
		}
	}
	if r.NoStream {
		r.noStream()
	} else {
		r.underWay.claims.Go(r.keepStream)
	}
	<-r.ctx.stopping.Done()

	whole := r.DrainTimeout + r.ReportTimeout
	over := time.NewTimer(whole)
	defer over.Stop()
	defer time.AfterFunc(whole-min(lastSettled, r.ReportTimeout/4), r.ctx.endRequests).Stop()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.drain()
		r.farewell()
		keepNoLeases()
		close(done)
		loops.Wait()
		r.underWay.requests.Wait()
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
	if err := r.session.end(r.ctx.requests); err != nil {
		r.Logger.Debug("cannot end the session; the server forgets it after a day", "error", err)
	}
	if s := r.current.Load(); s != nil {
		s.Close()
	}
	r.ctx.endRequests() // aborts outstanding tickles
}

// giveUp ends the connection of a worker whose handlers do not return. It returns the error of Run. The stream is cut
// without a closing handshake, since the jobs still run here: the server must not hand them out at once.
func (r *running) giveUp() error {
	r.ctx.endRequests()
	if s := r.current.Load(); s != nil {
		go s.Abort()
	}
	var ids []string
	n := 0
	r.mu.Lock()
	for c := range r.leases.claims {
		for i := range c.tasks {
			if t := &c.tasks[i]; t.state == started {
				if n++; len(ids) < maxProblems {
					ids = append(ids, t.run.Job.ID)
				}
			}
		}
	}
	r.mu.Unlock()
	if n == 0 { // all handlers have returned, but a callback or a request has not
		return errors.Join(r.problems.err(), fmt.Errorf("the worker could not stop within %v: OnEvent, Take or a request has not returned", r.DrainTimeout+r.ReportTimeout))
	}
	return errors.Join(r.problems.err(), fmt.Errorf("%w within %v: %d, of the jobs %s", ErrUnfinished, r.DrainTimeout+r.ReportTimeout, n, strings.Join(ids, ", ")))
}

// drain returns the jobs that no handler has begun to their queues, and waits until all other jobs have ended and are
// reported.
func (r *running) drain() {
	drained := time.AfterFunc(r.DrainTimeout, func() { r.endHandlers(ErrDraining) })
	defer drained.Stop()
	r.mu.Lock()
	r.jobs.stopped = true
	back := r.removeWaiting(func(*task) bool { return true })
	r.ready.Broadcast()
	r.mu.Unlock()
	r.reports.hurry()
	r.giveBackAll(back)
	r.underWay.claims.Wait()
	r.underWay.handlers.Wait()
	last := time.AfterFunc(r.ReportTimeout, r.ctx.endRequests)
	defer last.Stop()
	r.underWay.heldClaims.Wait()
}

// running is a worker that runs. Claims call take to add jobs. Handlers begin jobs with next and end them with end.
// With Take, handOver begins them with nextSome, and sendReports ends them with recordEnds. Reports settle them with
// reported. All the time keepLeases keeps their leases. Handlers and leases do not know how jobs are claimed or
// reported.
type running struct {
	Worker
	session  *session
	current  atomic.Pointer[client.Stream] // has the worker's jobs; nil: there is none
	ctx      contexts
	stop     context.CancelFunc // ends ctx.stopping
	underWay underWay
	problems problems
	ends     ends
	reports  reports                       // has its own lock, which is never held together with mu
	begins   atomic.Pointer[client.Stream] // the last stream, in which the worker announces that runs begin
	ungets   chan struct{}                 // its capacity is how many jobs may be returned to their queues at the same time

	// mu guards the fields below, and the fields of task and heldClaim that say so. They share one lock, since one
	// event changes several of them in one step: the end of a run makes room for a claim, and a lost lease ends
	// handlers.
	mu     sync.Mutex
	ready  sync.Cond // with mu; signals that jobs.queue has grown, that jobs.stopped is set, or, with Take, that runs have ended
	jobs   heldJobs
	claims claimState
	leases leases
	stream streamState
}

// contexts are two periods in the life of a worker, and the values of its handlers.
type contexts struct {
	// stopping ends when the worker must claim no more: with the context of Run, or when a claim is refused for good.
	stopping context.Context
	handlers context.Context // has the values of the handlers' contexts, and does not end
	requests context.Context // of all requests; ends after ReportTimeout

	endRequests context.CancelFunc
	endAll      func()
}

// underWay counts the goroutines that Run waits for before it returns.
type underWay struct {
	claims, handlers sync.WaitGroup
	heldClaims       sync.WaitGroup // claims with jobs that are not reported
	requests         sync.WaitGroup // tickles and reports
}

// newRunning returns a worker that is ready to run until ctx ends.
func (w *Worker) newRunning(ctx context.Context) (*running, error) {
	r := &running{Worker: *w, ungets: make(chan struct{}, ungetsAtOnce)}
	if err := r.setDefaults(); err != nil {
		return nil, err
	}
	r.session = newSession(r.RunnerID, r.Logger)
	r.stream.opening, r.stream.changed = true, make(chan struct{}, 1)
	r.ready.L = &r.mu
	r.jobs.meanTook = -1
	r.claims.atOnce, r.claims.most, r.claims.roundTrip = 1, r.Batch, firstRoundTrip
	r.leases.claims, r.leases.changed = map[*heldClaim]struct{}{}, make(chan struct{}, 1)
	r.reports.changed, r.ends.changed = make(chan struct{}, 1), make(chan struct{}, 1)

	// Handlers and requests outlive ctx, since they continue while the worker drains.
	r.ctx.stopping, r.stop = context.WithCancel(ctx)
	r.ctx.handlers = context.WithoutCancel(ctx)
	r.ctx.requests, r.ctx.endRequests = context.WithCancel(r.ctx.handlers)
	r.ctx.endAll = func() {
		r.stop()
		r.ctx.endRequests()
	}
	return r, nil
}

func (r *running) setDefaults() error {
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
			return fmt.Errorf("name the runner after the host: %w; set RunnerID", err)
		}
		r.RunnerID = fmt.Sprintf("%.90s-%d-%06x", host, os.Getpid(), rand.N(1<<24))
	}
	return nil
}

// maxProblems bounds the error of Run. A disk that is full for an hour causes one problem for each job.
const maxProblems = 10

// problems collects the errors that Run returns.
type problems struct {
	mu         sync.Mutex // guards all fields
	refused    error      // a claim that the server refused for good
	unreported int        // outcomes that could not be reported
	first      []error    // the reasons for the first maxProblems of them
}

func (p *problems) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = err
}

func (p *problems) addUnreported(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unreported++; len(p.first) < maxProblems {
		p.first = append(p.first, err)
	}
}

func (p *problems) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unreported == 0 {
		return p.refused
	}
	return errors.Join(p.refused, fmt.Errorf("cannot report %d outcomes; the first errors: %w", p.unreported, errors.Join(p.first...)))
}

// signal notifies a goroutine through a channel of capacity 1. The channel may hold a signal already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func jitter(d time.Duration) time.Duration { return rand.N(d + 1) }
