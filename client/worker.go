package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
)

// Handler does a job. A nil error reports the outcome, whose zero value is ok. An error is reported as outcome error,
// and the job runs again after its backoff, unless the error is made by Fail or RetryAfter.
//
// Its context ends
//   - when the job is lost (cause ErrLeaseLost, and ErrCancelled as well if somebody cancelled the job): another runner
//     may have it by now;
//   - when the worker has drained for DrainTimeout (cause ErrDraining): the job is given back as if it had never been
//     claimed, unless the handler ends it without an error.
//
// The handler must return then: Run waits for it.
//
// A panic, and the end of its goroutine (runtime.Goexit, as by the FailNow of a test), are errors too.
type Handler func(ctx context.Context, j *Job) (Outcome, error)

var (
	// ErrLeaseLost ends a handler's context when the worker no longer holds the job: the server says so, or the lease
	// or the job's timeout_ms has ended by the worker's clock. In the second case the worker still reports the work of
	// a handler that returns without an error; the server refuses the report if it has given the job to another runner.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrDraining ends it when the worker stops and the handler took longer than DrainTimeout.
	ErrDraining = errors.New("the worker is stopping")

	errCancelledRun = fmt.Errorf("%w: %w", ErrLeaseLost, ErrCancelled)
	errWaited       = errors.New("the job waited too long for a handler, and was given back")
)

// Worker is a runner: it claims jobs, has a handler do them, tickles them meanwhile, and reports their outcomes. Client
// and Handler must be given; the zero value of the rest works.
type Worker struct {
	Client  *Client
	Handler Handler

	RunnerID string   // "": the host's name, the process id and a random number
	Clients  []string // whose jobs; empty: everybody's
	Types    []string // which jobs; empty: all
	Strategy string   // which first: oldest, newest, random or fair; "" is oldest
	// Concurrency is how many handlers run at once; 0 is 1.
	Concurrency int
	// Batch bounds the jobs of one claim, up to 1000; 0 is Concurrency. With quick handlers a larger batch is faster.
	Batch int
	// Prefetch is how many jobs are held beyond those that handlers work on. A job that is held in advance waits here
	// while another runner might be free for it.
	//
	// With 0 only those are held that handlers begin within about two round trips to the server, as far as the worker
	// knows from the jobs before: none when a job takes longer than that. A job that waits for 10 s all the same is
	// given back. With a negative number none is ever held.
	//
	// A job with a timeout_ms waits no longer than a twentieth of it, since the server counts the time-out from the
	// claim; then it is given back as if it had never been claimed, and for a minute no job is held in advance.
	Prefetch int
	// Lease is how long the server waits for a tickle; 0 is what the jobs were created with. Tickles come three times
	// as often.
	//
	// When no tickle has succeeded for the length of the lease, the handlers' contexts end, whatever the reason. Two
	// runners can both believe that they hold a job only for as long as a handler takes to return after its context has
	// ended, and
	//   - for as long as the answer to the claim took to arrive, less a tenth of the lease;
	//   - for a third of the lease, if that answer was lost, and the network breaks again once the repeat was answered.
	Lease time.Duration
	// Wait is how long a claim waits for a job, at most a minute; 0 is 20 s.
	Wait time.Duration
	// DrainTimeout is how long running handlers may go on after Run's context has ended; 0 is 30 s.
	DrainTimeout time.Duration
	// ReportTimeout is how long outcomes are reported after the last handler has returned, so that a server that
	// restarts meanwhile loses no finished work; 0 is 2 minutes. While the worker runs, a report is repeated for at
	// least as long.
	ReportTimeout time.Duration
	// Logger receives what goes wrong; nil drops it.
	Logger *slog.Logger
	// OnEvent, where given, is called with what happens, from many goroutines. Reports wait for it.
	OnEvent func(Event)
}

// Event is something that happened to a worker: a claim with Jobs, or the end of the run of one job, once it has been
// reported. Err is why the run was not reported as it ended: ErrLeaseLost, ErrDraining for a job that was given back,
// or why the report failed.
type Event struct {
	Claim   string
	Jobs    int // of a new claim; 0 for the end of a run
	Job     *Job
	Outcome Outcome
	Err     error
	Took    time.Duration // of the claim's request, or of the handler
}

const (
	defaultWait   = 20 * time.Second
	defaultDrain  = 30 * time.Second
	defaultReport = 2 * time.Minute
	// lastClaim is how long a claim that waits at the server may go on when the worker is to stop. If it were broken
	// off at once, jobs whose answer was on its way would be nobody's until their lease runs out. A claim that still
	// waits by then has most likely none; it is repeated once to make sure, for lastRepeat. Both are longer where
	// requests take long.
	lastClaim, lastRepeat = 250 * time.Millisecond, 750 * time.Millisecond
	// lastAnswer is the same for a claim that does not wait: its answer is on its way unless the server is down.
	lastAnswer = 5 * time.Second
)

// Run works until ctx ends, and then drains: it claims no more, gives back the jobs that were not begun, waits for the
// running handlers up to DrainTimeout, and reports everything. Then it returns nil.
//
// A server that is down is waited for. One that refuses the claim for good (as malformed, or for a host that it does
// not serve) ends the work as ctx does, with that refusal as the error. Outcomes that could not be reported are an
// error too, at the end, which names the first few of them. Jobs whose lease was lost are no error: they run again, and
// OnEvent reports them.
func (w *Worker) Run(ctx context.Context) error {
	if w.Client == nil || w.Handler == nil {
		return errors.New("run worker: Client and Handler must be given")
	}
	r := &running{Worker: *w, leasesChanged: make(chan struct{}, 1), reportsChanged: make(chan struct{}, 1)}
	if err := r.setDefaults(); err != nil {
		return err
	}
	r.session = newWorkerSession(r.RunnerID)
	r.Client = w.Client.in(r.session)
	r.ready.L = &r.mu
	r.jobs.meanTook = -1
	r.claims.atOnce, r.claims.most, r.claims.roundTrip = 1, r.Batch, firstRoundTrip
	r.leases.claims = map[*heldClaim]struct{}{}

	// Handlers and reports outlive ctx by the time that draining takes.
	var end context.CancelCauseFunc
	var endStopping, endReports context.CancelFunc
	r.life, end = context.WithCancelCause(context.WithoutCancel(ctx))
	r.reporting, endReports = context.WithCancel(context.WithoutCancel(ctx))
	r.stopping, endStopping = context.WithCancel(ctx)
	defer end(nil)
	defer endReports()
	defer endStopping()
	r.stop = func(refused error) {
		r.refused = refused
		endStopping()
	}

	done := make(chan struct{})
	var loops sync.WaitGroup
	loops.Go(func() { r.keepLeases(done) })
	loops.Go(func() { r.sendReports(done) })
	for range r.Concurrency {
		r.handlers.Go(r.handle)
	}
	r.mu.Lock()
	r.claimMore()
	r.mu.Unlock()
	<-r.stopping.Done()

	patience := time.AfterFunc(r.DrainTimeout, func() { end(ErrDraining) })
	defer patience.Stop()
	r.mu.Lock()
	r.jobs.stopped, r.reports.urgent = true, true
	back := r.removeWaiting(func(*task) bool { return true })
	r.ready.Broadcast()
	r.mu.Unlock()
	signal(r.reportsChanged)
	r.giveBackAll(back)
	r.claiming.Wait()
	r.handlers.Wait()
	last := time.AfterFunc(r.ReportTimeout, endReports)
	defer last.Stop()
	r.claimsHeld.Wait()
	if err := r.session.end(r.reporting); err != nil {
		r.Logger.Debug("cannot end the session; the server forgets it after a day", "error", err)
	}
	endReports() // which ends the tickles under way
	close(done)
	loops.Wait()
	r.requests.Wait()
	return errors.Join(r.refused, r.unreportedErr())
}

// running is a worker that runs. Jobs come in by take, which claims call, and go out by toReport; between the two they
// are heldJobs, whose leases keepLeases keeps. Neither handlers nor leases know how jobs are claimed, or how they are
// reported.
type running struct {
	Worker
	session   *workerSession  // of Client
	stopping  context.Context // ends when the worker is to claim no more
	stop      func(refused error)
	life      context.Context // of handlers
	reporting context.Context // of all requests

	handlers, claiming, requests  sync.WaitGroup
	claimsHeld                    sync.WaitGroup // claims with unreported jobs
	leasesChanged, reportsChanged chan struct{}  // capacity 1: keepLeases, sendReports must look again

	mu      sync.Mutex
	ready   sync.Cond // of mu: jobs.queue has grown, or jobs.stopped is set
	jobs    heldJobs
	claims  claimState
	leases  leases
	reports reports
	refused error   // a claim, for good
	failed  int     // outcomes that could not be reported
	first   []error // of those, up to maxToldErrors
}

// maxToldErrors bounds the error of Run: a disk that is full for an hour has one for each job.
const maxToldErrors = 10

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
			return fmt.Errorf("name the runner: %w", err)
		}
		r.RunnerID = fmt.Sprintf("%.90s-%d-%06x", host, os.Getpid(), rand.N(1<<24))
	}
	return nil
}

// unreported notes an outcome that could not be reported.
func (r *running) unreported(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed++; len(r.first) < maxToldErrors {
		r.first = append(r.first, err)
	}
}

func (r *running) unreportedErr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == 0 {
		return nil
	}
	return fmt.Errorf("outcomes that could not be reported: %d; the first of them: %w", r.failed, errors.Join(r.first...))
}

// signal notifies a goroutine through a channel of capacity 1, which may hold a signal already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func jitter(d time.Duration) time.Duration { return rand.N(d + 1) }

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
