package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
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
