// Package task describes the run of one job to the kinds of handlers: its input and how it ended.
//
// Not for: claiming and reporting (package client), running (packages program, webhook, script).
package task

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
)

// Task is the run of one job.
type Task struct {
	// Context ends when nobody waits for the result any more: the job was cancelled, its lease was lost, or draining
	// takes too long. The kind must then end the run soon.
	Context context.Context
	Job     *client.Job

	ended atomic.Bool
	end   func(End)
}

// New returns a task. It calls end once, with the run's end.
func New(ctx context.Context, j *client.Job, end func(End)) *Task {
	return &Task{Context: ctx, Job: j, end: end}
}

// End reports how the run ended. Only the first call counts, so that after a failure a kind can simply end all its
// tasks.
func (t *Task) End(e End) {
	if t.ended.CompareAndSwap(false, true) {
		t.end(e)
	}
}

// AfterFunc is context.AfterFunc for the task's Context.
func (t *Task) AfterFunc(f func()) (stop func() bool) {
	if run, ok := t.Context.(*worker.Run); ok { // this is cheaper
		return run.AfterFunc(f)
	}
	return context.AfterFunc(t.Context, f)
}

// WhileWanted returns a context that ends when the contexts of all tasks have ended, or when the caller calls stop.
func WhileWanted(tasks []*Task) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var left atomic.Int64
	left.Store(int64(len(tasks)))
	stops := make([]func() bool, len(tasks))
	for i, t := range tasks {
		stops[i] = t.AfterFunc(func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(t.Context))
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// Ended reports whether End was called.
func (t *Task) Ended() bool { return t.ended.Load() }

// Executor runs the tasks of one handler. Its methods may be called from many goroutines.
type Executor interface {
	// Run runs a batch of tasks, at least one and at most the handler's batch size, and ends each of them. It returns
	// when nothing of the batch runs any more.
	Run(tasks []*Task)
	// Close ends everything that the executor has kept between batches. It is called after all calls of Run have
	// returned.
	Close()
}

// End is how a run ended.
type End struct {
	client.Outcome
	// Then are jobs to create in the same record that stores the outcome.
	Then []client.NewJob
	// MostInline is the longest output that is reported with the outcome. The runner stores a longer one as a blob and
	// reports its address. 0 means that the executor has already done so, or that there is no output.
	MostInline int64
	// Unget returns the job to its queue as if it had never been claimed. It costs no attempt, and all other fields but
	// Unable are ignored.
	Unget bool
	// Unable is the reason that no job of the handler can run now, if Unget is set because of that. The runner claims
	// none of its jobs for a while.
	Unable string
}

// OK ends a run successfully. kind says how the output is stored.
func OK(output []byte, kind client.Kind) End {
	return End{Outcome: client.Outcome{Code: "ok", Output: output, OutputKind: kind}}
}

// Error ends a run with an error. The job runs again after its backoff if it has attempts left.
func Error(text string) End { return End{Outcome: client.Outcome{Code: "error", Error: Text(text)}} }

// Failed ends the job for good.
func Failed(text string) End { return End{Outcome: client.Outcome{Code: "failed", Error: Text(text)}} }

// Retry makes the job run again after delay, or after its backoff if delay is negative.
func Retry(text string, delay time.Duration) End {
	o := client.Outcome{Code: "retry", Error: Text(text)}
	if delay >= 0 {
		ms := delay.Milliseconds()
		o.DelayMs = &ms
	}
	return End{Outcome: o}
}

// CannotRun returns the job to its queue because the handler can run no job at all: it cannot be loaded, or something
// that it needs is missing.
func CannotRun(text string) End { return End{Unget: true, Unable: Text(text)} }

// Unget returns the job to its queue as if it had never been claimed.
func Unget() End { return End{Unget: true} }
