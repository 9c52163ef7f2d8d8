package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Handler does a job. A nil error reports the outcome, whose zero value is ok; an error is reported as outcome error, which runs
// again after the job's backoff, unless it is made by Fail or RetryAfter.
//
// Its context ends when the lease is lost (cause ErrLeaseLost: another runner may have the job by now, and nothing is reported) or
// when the worker has drained for too long (cause ErrDraining: the job is given back as if it had never been claimed, unless the handler
// ends it without an error).
type Handler func(ctx context.Context, j *Job) (Outcome, error)

var (
	// ErrLeaseLost is why a handler's context ends when its job is no longer held.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrDraining is why it ends when the worker stops and the handler took longer than DrainTimeout.
	ErrDraining = errors.New("the worker is stopping")
)

// Worker is a runner: it claims jobs, has a handler do them, tickles them meanwhile, and reports their outcomes. Client and Handler must
// be given; the zero value of the rest works.
type Worker struct {
	Client  *Client
	Handler Handler

	RunnerID string   // "" stands for the host's name, the process and a random number
	Clients  []string // whose jobs; empty: everybody's
	Types    []string // which jobs; empty: all
	// Concurrency is how many handlers run at once; 0 stands for 1.
	Concurrency int
	// Batch bounds the jobs of one claim; 0 stands for Concurrency. Up to as many again are held in advance, so that handlers do not wait
	// for claims.
	Batch int
	// Lease is how long the server waits for a tickle; 0 stands for what the jobs were created with. Tickles come three times as often.
	Lease time.Duration
	// Wait is how long a claim waits for a job; 0 stands for 20 s.
	Wait time.Duration
	// DrainTimeout is how long running handlers may go on after Run's context has ended; 0 stands for 30 s.
	DrainTimeout time.Duration
	// Logger receives what goes wrong; nil drops it.
	Logger *slog.Logger
	// OnEvent, where given, is told what happens, from many goroutines.
	OnEvent func(Event)
}

// Event is something that happened to a worker: a claim with Jobs, or the end of the run of one job. Err is why a run was not reported as
// it ended.
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
)

// failure and delay are what handlers wrap their errors in.
type (
	failure struct{ error }
	delay   struct {
		error
		after time.Duration
	}
)

func (f failure) Unwrap() error { return f.error }
func (d delay) Unwrap() error   { return d.error }

// Fail makes err final: the job ends as failed, and does not run again.
func Fail(err error) error { return failure{err} }

// RetryAfter has the job run again after d, instead of its backoff, unless its attempts are used up.
func RetryAfter(d time.Duration, err error) error { return delay{err, d} }

// Run works until ctx ends, and then drains: it claims no more, gives back what was not begun, waits for the running handlers up to
// DrainTimeout, and reports everything. It returns nil then; an error only when the worker is not set up right. A server that is down is
// waited for.
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
	r.claimUntil(ctx)
	close(r.jobs)
	patience := time.AfterFunc(r.DrainTimeout, func() { end(ErrDraining) })
	defer patience.Stop()
	handlers.Wait()
	last := time.AfterFunc(reportTime, endReports)
	defer last.Stop()
	r.held.Wait()
	return nil
}

// running is a worker that runs.
type running struct {
	Worker
	life      context.Context // of handlers
	reporting context.Context // of tickles and reports
	jobs      chan *task      // to the handlers
	held      sync.WaitGroup  // of claims

	mu     sync.Mutex
	inHand int           // jobs claimed and not ended
	room   chan struct{} // capacity 1: inHand has shrunk
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

// claimUntil claims until ctx ends, and gives back what no handler has begun by then.
func (r *running) claimUntil(ctx context.Context) {
	var tasks []*task // claimed, and not with a handler
	claims := make(chan []*task)
	claiming, failures := false, 0
	claimCtx, stop := context.WithCancel(ctx)
	defer stop()
	for ctx.Err() == nil {
		if want := r.want(len(tasks)); want > 0 && !claiming {
			claiming = true
			go func() { claims <- r.claim(claimCtx, want, &failures) }()
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
			tasks, claiming = append(tasks, got...), false
		case <-r.room:
		case <-ctx.Done():
		}
	}
	stop()
	if claiming {
		tasks = append(tasks, <-claims...)
	}
	for _, t := range tasks {
		t.claim.report(t, unget(), 0)
	}
}

// want returns how many jobs to claim: a batch, when fewer than that are in advance of the handlers.
func (r *running) want(waiting int) int {
	if waiting >= r.Batch {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.Batch, r.Concurrency+r.Batch-r.inHand)
}

// claim claims once. While that fails it waits, longer each time.
func (r *running) claim(ctx context.Context, want int, failures *int) []*task {
	asked := time.Now()
	got, err := r.Client.Claim(ctx, ClaimRequest{
		RunnerID: r.RunnerID, Max: want, Clients: r.Clients, Types: r.Types, LeaseMs: r.Lease.Milliseconds(), Wait: r.Wait,
	})
	if err != nil {
		if ctx.Err() == nil {
			r.Logger.WarnContext(ctx, "cannot claim; trying again", "error", err)
			sleep(ctx, backoff(*failures))
			*failures++
		}
		return nil
	}
	*failures = 0
	if got == nil || len(got.Jobs) == 0 {
		return nil
	}
	c := r.hold(got, asked)
	r.OnEvent(Event{Claim: got.ID, Jobs: len(got.Jobs), Took: time.Since(asked)})
	return c.tasks()
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

// call shields the worker from a panic in a handler.
func (r *running) call(t *task) (o Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, firstLines(string(debug.Stack()), 24))
		}
	}()
	return r.Handler(t.ctx, t.job)
}

func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

// verdict is what is to be reported of a run: an outcome, its giving back, or nothing because of err.
type verdict struct {
	outcome Outcome
	unget   bool
	err     error
}

func unget() verdict { return verdict{unget: true} }

// judge turns what a handler returned into what is reported.
func (r *running) judge(t *task, o Outcome, err error) verdict {
	if cause := context.Cause(t.ctx); errors.Is(cause, ErrLeaseLost) {
		return verdict{err: cause}
	} else if err != nil && errors.Is(cause, ErrDraining) {
		return unget()
	}
	var final failure
	var later delay
	switch {
	case err == nil:
	case errors.As(err, &final):
		o.Code, o.Error = "failed", text(err)
	case errors.As(err, &later):
		ms := later.after.Milliseconds()
		o.Code, o.Error, o.DelayMs = "retry", text(err), &ms
	default:
		o.Code, o.Error = "error", text(err)
	}
	return verdict{outcome: o}
}

// text is an error's text within the server's limit, and without what is not UTF-8.
func text(err error) string {
	const limit = 64 << 10
	s := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
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
