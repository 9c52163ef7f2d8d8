package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
)

// Handler does a job. A nil error reports the outcome, whose zero value is ok; an error is reported as outcome error, which runs
// again after the job's backoff, unless it is made by Fail or RetryAfter.
//
// Its context ends when the lease is lost (cause ErrLeaseLost: another runner may have the job by now, and nothing is reported; it is
// ErrCancelled as well when somebody cancelled the job) or
// when the worker has drained for too long (cause ErrDraining: the job is given back as if it had never been claimed, unless the handler
// ends it without an error). It must return then: Run waits for it.
//
// A panic, and the end of its goroutine (runtime.Goexit, as by the FailNow of a test), are errors too.
type Handler func(ctx context.Context, j *Job) (Outcome, error)

var (
	// ErrLeaseLost is why a handler's context ends when its job is no longer held.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrDraining is why it ends when the worker stops and the handler took longer than DrainTimeout.
	ErrDraining = errors.New("the worker is stopping")

	errCancelledRun = fmt.Errorf("%w: %w", ErrLeaseLost, ErrCancelled)
)

// Worker is a runner: it claims jobs, has a handler do them, tickles them meanwhile, and reports their outcomes. Client and Handler must
// be given; the zero value of the rest works.
type Worker struct {
	Client  *Client
	Handler Handler

	RunnerID string   // "" stands for the host's name, the process and a random number
	Clients  []string // whose jobs; empty: everybody's
	Types    []string // which jobs; empty: all
	Strategy string   // which first: oldest, newest, random or fair; "" stands for oldest
	// Concurrency is how many handlers run at once; 0 stands for 1.
	Concurrency int
	// Batch bounds the jobs of one claim, up to 1000; 0 stands for Concurrency.
	Batch int
	// Prefetch is how many jobs are held in advance, so that handlers do not wait for claims; 0 stands for Batch, a negative number for
	// none. A job held in advance waits here while another runner might have been free for it.
	Prefetch int
	// Lease is how long the server waits for a tickle; 0 stands for what the jobs were created with. Tickles come three times as often.
	Lease time.Duration
	// Wait is how long a claim waits for a job, at most a minute; 0 stands for 20 s.
	Wait time.Duration
	// DrainTimeout is how long running handlers may go on after Run's context has ended; 0 stands for 30 s.
	DrainTimeout time.Duration
	// Logger receives what goes wrong; nil drops it.
	Logger *slog.Logger
	// OnEvent, where given, is told what happens, from many goroutines. Reports wait for it.
	OnEvent func(Event)
}

// Event is something that happened to a worker: a claim with Jobs or, once it has been reported, the end of the run of one job. Err is
// why it was not reported as it ended: ErrLeaseLost, ErrDraining for a job that was given back, or what the report failed of.
type Event struct {
	Claim   string
	Jobs    int // of a new claim; 0 for the end of a run
	Job     *Job
	Outcome Outcome
	Err     error
	Took    time.Duration // of the claim's request, or of the handler
}

const (
	defaultWait  = 20 * time.Second
	defaultDrain = 30 * time.Second
	// reportTime bounds what is reported after the worker has drained.
	reportTime = 10 * time.Second
	// lastClaim is how long the claim under way may take when the worker is to stop. Were it broken off at once, jobs whose answer
	// was on its way would be nobody's until their lease runs out; a claim that still waits by then has most likely none.
	lastClaim = 250 * time.Millisecond
)

// Run works until ctx ends, and then drains: it claims no more, gives back what was not begun, waits for the running handlers up to
// DrainTimeout, and reports everything. It returns nil then. A server that is down is waited for; one that refuses the claim for good (as
// malformed, say, or for a host that it does not serve) ends the work as ctx does, with that refusal as the error. Outcomes that
// could not be reported are an error too, at the end, of which the first few are told; those of jobs whose lease was lost are not: they
// run again, and OnEvent tells of them.
func (w *Worker) Run(ctx context.Context) error {
	if w.Client == nil || w.Handler == nil {
		return errors.New("run worker: Client and Handler must be given")
	}
	r := &running{Worker: *w, jobs: make(chan *task), room: make(chan struct{}, 1)}
	if err := r.setDefaults(); err != nil {
		return err
	}
	// Handlers and reports outlive ctx by the time that draining takes.
	var end context.CancelCauseFunc
	var endReports context.CancelFunc
	r.life, end = context.WithCancelCause(context.WithoutCancel(ctx))
	r.reporting, endReports = context.WithCancel(context.WithoutCancel(ctx))
	defer end(nil)
	defer endReports()
	var handlers sync.WaitGroup
	for range r.Concurrency {
		handlers.Go(func() {
			for t := range r.jobs {
				r.do(t)
			}
		})
	}
	refused := r.claimUntil(ctx)
	close(r.jobs)
	patience := time.AfterFunc(r.DrainTimeout, func() { end(ErrDraining) })
	defer patience.Stop()
	handlers.Wait()
	last := time.AfterFunc(reportTime, endReports)
	defer last.Stop()
	r.held.Wait()
	return errors.Join(refused, r.unreportedErr())
}

// running is a worker that runs.
type running struct {
	Worker
	life      context.Context // of handlers
	reporting context.Context // of tickles and reports
	jobs      chan *task      // to the handlers
	held      sync.WaitGroup  // of claims
	room      chan struct{}   // capacity 1: inHand has shrunk

	// Of claimUntil and the claim that it has under way.
	failures int // of claims, since the last success
	most     int // jobs to claim: Batch, unless an answer was too large

	mu     sync.Mutex
	inHand int     // jobs claimed and not ended
	failed int     // outcomes that could not be reported
	first  []error // of those, up to maxToldErrors
}

// maxToldErrors bounds the error of Run: a disk that is full for an hour has one for each job.
const maxToldErrors = 10

func (r *running) setDefaults() error {
	r.Concurrency = max(r.Concurrency, 1)
	if r.Batch <= 0 {
		r.Batch = r.Concurrency
	}
	r.Batch = min(r.Batch, 1000)
	r.most = r.Batch
	if r.Prefetch == 0 {
		r.Prefetch = r.Batch
	}
	r.Prefetch = max(r.Prefetch, 0)
	if r.Wait <= 0 {
		r.Wait = defaultWait
	}
	r.Wait = min(r.Wait, job.MaxWaitMs*time.Millisecond)
	if r.DrainTimeout <= 0 {
		r.DrainTimeout = defaultDrain
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

// claimed is what came of a claim.
type claimed struct {
	tasks   []*task
	refused error // for good
}

// claimUntil claims until ctx ends or the server refuses for good, and gives back what no handler has begun by then.
func (r *running) claimUntil(ctx context.Context) (refused error) {
	var tasks []*task // claimed, and not with a handler
	claims := make(chan claimed)
	claiming := false
	claimCtx, stop := context.WithCancel(r.reporting)
	defer stop()
	for ctx.Err() == nil && refused == nil {
		if !claiming {
			if want := r.want(); want > 0 {
				claiming = true
				go func() { claims <- r.claim(ctx, claimCtx, want) }()
			}
		}
		var next chan<- *task
		var first *task
		if len(tasks) > 0 {
			next, first = r.jobs, tasks[0]
		}
		select {
		case next <- first:
			tasks = tasks[1:]
		case got := <-claims:
			tasks, refused, claiming = append(tasks, got.tasks...), got.refused, false
		case <-r.room:
		case <-ctx.Done():
		}
	}
	if claiming {
		last := time.AfterFunc(lastClaim, stop)
		tasks = append(tasks, (<-claims).tasks...)
		last.Stop()
	}
	for _, t := range tasks {
		t.claim.report(t, unget(), 0)
	}
	return refused
}

// want returns how many jobs to claim: what the handlers and Prefetch have room for.
func (r *running) want() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.most, r.Concurrency+r.Prefetch-r.inHand)
}

// claim claims once, until claimCtx ends. While that fails it waits, longer each time, until ctx ends.
func (r *running) claim(ctx, claimCtx context.Context, want int) claimed {
	asked := time.Now()
	q := ClaimRequest{
		RunnerID: r.RunnerID, Max: want, Clients: r.Clients, Types: r.Types, LeaseMs: r.Lease.Milliseconds(), Wait: r.Wait,
		Strategy: r.Strategy, Key: NewKey(),
	}
	got, err := r.Client.Claim(claimCtx, q)
	if err != nil && ctx.Err() != nil {
		// It was broken off, and the server waits for whoever has the key. What it handed out all the same is asked for once more, to be
		// given back; when it handed out nothing it waits, and is broken off again.
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastClaim)
		got, err = r.Client.single(lastClaim).Claim(once, q)
		cancel()
	}
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return claimed{}
		case refusedForGood(err):
			return claimed{refused: fmt.Errorf("claim: %w", err)}
		case errors.Is(err, errAnswerTooLarge):
			// Histories and outputs do not count in what a claim may hand out. Half as many jobs have half of them; one always fits.
			r.most = max(want/2, 1)
		}
		r.Logger.WarnContext(ctx, "cannot claim; trying again", "error", err)
		sleep(ctx, backoff(r.failures))
		r.failures++
		return claimed{}
	}
	r.failures, r.most = 0, min(2*r.most, r.Batch)
	if got == nil || len(got.Jobs) == 0 {
		return claimed{}
	}
	c := r.hold(got)
	r.OnEvent(Event{Claim: got.ID, Jobs: len(got.Jobs), Took: time.Since(asked)})
	return claimed{tasks: slices.Clone(c.all)}
}

// refusedForGood reports whether a claim that ended with err would always end so.
func refusedForGood(err error) bool {
	var refused *Error
	if !errors.As(err, &refused) {
		return errors.Is(err, ErrBadRequest) // it cannot even be sent
	}
	return refused.Status >= 400 && refused.Status < 500 && refused.Status != http.StatusRequestTimeout && refused.Status != http.StatusTooManyRequests
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

func (r *running) ended() {
	r.mu.Lock()
	r.inHand--
	r.mu.Unlock()
	select {
	case r.room <- struct{}{}:
	default:
	}
}

// do runs the handler for one job.
func (r *running) do(t *task) {
	if t.ctx.Err() != nil {
		t.claim.report(t, verdict{err: context.Cause(t.ctx)}, 0)
		return
	}
	began := time.Now()
	outcome, err := r.call(t)
	t.claim.report(t, r.judge(t, outcome, err), time.Since(began))
}

// call shields the worker from a handler that panics or ends its goroutine: it gets one of its own.
func (r *running) call(t *task) (o Outcome, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = errGoexit // which is all that is left behind then
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, firstLines(string(debug.Stack()), 24))
			}
		}()
		o, err = r.Handler(t.ctx, t.job)
	}()
	<-ended
	return o, err
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
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
