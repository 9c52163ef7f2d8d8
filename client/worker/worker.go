package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/daybookq/daybook/client"
)

// Handler runs a job. If it returns a nil error, the outcome is reported; the zero Outcome means ok. An error is
// reported as outcome error, and the job runs again after its backoff, unless the error was made by Fail or RetryAfter.
//
// The context ends
//   - if the job is lost: the cause is ErrLeaseLost, and ErrCancelled as well if the job was cancelled. Another runner
//     may have the job by now;
//   - if draining takes longer than DrainTimeout: the cause is ErrDraining. The job is returned to its queue as if it
//     had never been claimed, unless the handler returns without an error.
//
// The handler must return then. A handler that does not return occupies its place in the worker, and Run gives it up
// when the worker stops.
//
// A panic is an error too, and so is the end of the handler's goroutine by runtime.Goexit (which FailNow of a test
// calls).
type Handler func(ctx context.Context, j *client.Job) (client.Outcome, error)

// Worker is a runner: it claims jobs, calls a handler for each, tickles the jobs while they run, and reports their
// outcomes. Client, and one of Handler and Take, are required. The zero value of every other field works.
//
// A job that the client's Codec cannot decode never reaches a handler, and neither does a job with a payload of package
// encryption if the client has no Codec. The worker logs the reason, keeps the job for a few
// seconds, and returns it to its queue as if it had never been claimed. Meanwhile, the job occupies a place of Concurrency.
type Worker struct {
	Client  *client.Client
	Handler Handler
	// Take replaces Handler in a program that runs many jobs together, without a goroutine for each. The worker calls
	// it with jobs that begin now, and again while fewer than Concurrency runs have not ended, one call at a time, so
	// it must not wait. The program may keep the slice, and ends each Run from any goroutine.
	Take func([]*Run)
	// BeginLater makes the runs that Take gets begin when the program calls Begin for them. Without it, they begin when
	// Take gets them. If the process dies, runs that had begun count as attempts, and all other jobs return to their
	// queues at no cost.
	BeginLater bool

	RunnerID string          // "" means the host's name, the process id and a random number, after the prefix that the key requires
	Clients  []string        // whose jobs to claim; empty means all clients
	Types    []string        // which jobs to claim; empty means all types
	Strategy client.Strategy // which jobs to claim first; "" means Oldest
	// Concurrency is how many handlers run at once, or how many jobs that Take got have not ended. 0 means 1.
	Concurrency int
	// Batch is how many jobs one claim requests at most, up to 1000. 0 means Concurrency. With quick handlers a larger
	// batch is faster. In a stream, the server decides how many jobs a claim has.
	Batch int
	// Room, if not nil, returns how many handlers may have a job now, if that is less than Concurrency. It is for a
	// program that decides which of its handlers continue. The Worker calls it when jobs begin and end. It must not wait.
	Room func() int
	// Prefetch is how many jobs the worker holds in advance, beyond those that run. Such a job waits in the worker
	// while another runner might be free for it.
	//
	// With 0, the worker holds in advance only the jobs that its handlers will begin within about two round trips to the
	// server. It estimates this from earlier jobs. If jobs take longer than two round trips, it holds none in advance. A
	// job that still waits after 10 s is returned to its queue. With a negative number the worker holds no job in
	// advance.
	//
	// A job with a timeout_ms waits at most a twentieth of it, since the server counts the time-out from the claim.
	// Then the worker returns it to its queue as if it had never been claimed, and holds no jobs in advance for a
	// minute.
	Prefetch int
	// Lease is how long the server waits for a tickle. 0 means the lease that the jobs were created with. The worker
	// tickles about three times as often.
	//
	// If no tickle succeeds for the length of the lease, for whatever reason, the worker ends the contexts of the
	// handlers. While a handler has not returned after that, another runner may have its job. Apart from this, two
	// runners can both believe that they hold a job only
	//   - for as long as the answer to the claim took to arrive, less a tenth of the lease;
	//   - for a third of the lease, if that answer was lost, and the network fails again after the repeat was answered.
	Lease time.Duration
	// Wait is how long a claim waits for a job at the server, at most a minute. 0 means 20 s. In a stream, jobs arrive as
	// soon as there are any.
	Wait time.Duration
	// DrainTimeout is how long handlers may still run after the context of Run has ended. 0 means 30 s.
	DrainTimeout time.Duration
	// ReportTimeout is how long the worker repeats reports after the last handler has returned, so that a restart of
	// the server at that time loses no finished work. 0 means 2 minutes. While the worker runs, it repeats a report for
	// at least as long. Run returns when DrainTimeout and ReportTimeout have passed, even if handlers have not
	// returned.
	ReportTimeout time.Duration
	// NoStream makes the worker claim, tickle and report in HTTP requests, although the server offers streams. With a
	// stream, the server returns the worker's jobs to their queues when the connection has been broken for 30 s, even
	// if their leases are longer.
	NoStream bool
	// Logger receives warnings and errors. nil means no logging.
	Logger *slog.Logger
	// OnEvent, if not nil, is called for each Event, from many goroutines. Reports wait until it returns.
	OnEvent func(Event)
}
