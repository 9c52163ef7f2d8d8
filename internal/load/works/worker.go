package works

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/load"
)

// Worker is the work of the Go client's Worker: 16 handlers that do nothing, and claims of up to 100 jobs.
var Worker = Work{Name: "worker", Title: "a Worker with 16 handlers that do nothing", Jobs: arrivingJobs, Callers: 16, UnderWay: 64, Takes: true, Type: "worker"}

// arrivingType is the type of jobs in WorkerAt. It differs from WorkerPeak's, so that the jobs do not wait for jobs that
// WorkerPeak left.
const arrivingType = "worker-arriving"

const (
	workerHandlers, workerBatch = 16, 100
	// arrivingJobs is the number of jobs in each arrival of WorkerAt.
	arrivingJobs = 100
)

// running is a running Worker.
type running struct {
	stop  context.CancelFunc
	ended chan error
	err   atomic.Pointer[error] // of the first outcome that could not be reported
}

// runWorker starts a Worker for a type. It calls done for each job whose outcome was reported.
func (t *Target) runWorker(ctx context.Context, typ string, done func(*client.Job)) *running {
	r := &running{ended: make(chan error, 1)}
	w := worker.Worker{
		Client: t.client, Clients: []string{t.Name}, Types: []string{typ}, RunnerID: t.Name + "-worker", Concurrency: workerHandlers, Batch: workerBatch,
		Handler: func(context.Context, *client.Job) (client.Outcome, error) { return client.Outcome{}, nil },
	}
	w.OnEvent = func(e worker.Event) {
		switch {
		case e.Job == nil, errors.Is(e.Err, worker.ErrDraining): // a claim, or a job returned because the measurement ends
		case e.Err != nil:
			r.err.CompareAndSwap(nil, &e.Err)
		default:
			done(e.Job)
		}
	}
	ctx, r.stop = context.WithCancel(ctx)
	go func() { r.ended <- w.Run(ctx) }()
	return r
}

// end stops the worker, and returns the error of its run.
func (r *running) end() error {
	r.stop()
	err := <-r.ended
	if unreported := r.err.Load(); err == nil && unreported != nil {
		err = *unreported
	}
	if err != nil {
		return fmt.Errorf("run a worker: %w", err)
	}
	return nil
}

// firstJob is how much longer than its time WorkerPeak waits for the first job. A slow disk can delay the first claim.
const firstJob = 10 * time.Second

// WorkerPeak measures how many jobs a second a Worker completes. It ends when the time is over or the given number of
// jobs, which must be waiting, are completed. If no job was completed in time, it continues for up to firstJob. Its Rate
// counts jobs.
func (t *Target) WorkerPeak(ctx context.Context, length time.Duration, jobs int64) (*load.Rate, error) {
	ctx, cancel := context.WithTimeout(ctx, length+firstJob)
	defer cancel()
	r := &load.Rate{Latencies: load.NewLatencies()}
	var done, last atomic.Int64
	start := time.Now()
	over, first := make(chan struct{}), make(chan struct{})
	timer := time.AfterFunc(length, func() { close(over) })
	defer timer.Stop()
	w := t.runWorker(ctx, Worker.Type, func(*client.Job) {
		last.Store(int64(time.Since(start)))
		n := done.Add(1)
		if n == jobs {
			cancel()
		}
		if n == 1 {
			close(first)
		}
	})
	for _, reached := range []chan struct{}{over, first} {
		select {
		case <-reached:
		case <-ctx.Done():
		}
	}
	cancel()
	r.Calls, r.Took = done.Load(), time.Duration(last.Load())
	return r, w.end()
}

// WorkerAt measures the latency of jobs that arrive at a fixed rate, from when they are due to be created until a Worker
// has completed them. o.Rate counts arrivals of Worker.Jobs jobs each. Latencies has one value for each job.
func (t *Target) WorkerAt(ctx context.Context, o load.Open) (*load.Outcome, error) {
	o.UnderWay = Worker.UnderWay
	jobs := arrivals{start: time.Now(), latencies: load.NewLatencies(), all: make(chan struct{}, 1)}
	working, stop := context.WithCancel(ctx)
	defer stop()
	w := t.runWorker(working, arrivingType, jobs.completed)
	outcome, err := o.Run(ctx, func(ctx context.Context, a load.Arrival) error {
		if err := t.add(ctx, arrivingType, jobs.lines(a)); err != nil {
			return err
		}
		jobs.created(arrivingJobs)
		return nil
	})
	if err == nil {
		jobs.wait(ctx, time.Now().Add(10*time.Second))
	}
	if ended := w.end(); err == nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	jobs.count(outcome)
	return outcome, nil
}

// arrivals tracks the jobs of WorkerAt. Each payload starts with the job's due time, in nanoseconds after start.
type arrivals struct {
	start     time.Time
	latencies *load.Latencies
	all       chan struct{} // capacity 1: all created jobs are completed

	mu              sync.Mutex // guards the fields below
	nCreated, nDone int64
	last            time.Time // when the last job was completed
}

func (a *arrivals) lines(at load.Arrival) []byte {
	due := strconv.FormatInt(int64(at.Due.Sub(a.start)), 10) + " "
	line := due + string(onePayload[len(due):]) + "\n"
	return []byte(strings.Repeat(line, arrivingJobs))
}

func (a *arrivals) created(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nCreated += n
	a.signal()
}

func (a *arrivals) completed(j *client.Job) {
	due, _, _ := strings.Cut(string(j.Payload[:min(len(j.Payload), 24)]), " ")
	after, err := strconv.ParseInt(due, 10, 64)
	if err != nil {
		return // a job of an earlier measurement
	}
	now := time.Now()
	a.latencies.Add(now.Sub(a.start) - time.Duration(after))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nDone++
	a.last = now
	a.signal()
}

// signal signals all if all created jobs are completed. The caller holds the mutex.
func (a *arrivals) signal() {
	if a.nDone < a.nCreated {
		return
	}
	select {
	case a.all <- struct{}{}:
	default:
	}
}

// wait returns when all created jobs are completed, when ctx ends, or at the given time.
func (a *arrivals) wait(ctx context.Context, until time.Time) {
	patience := time.NewTimer(time.Until(until))
	defer patience.Stop()
	for {
		a.mu.Lock()
		left := a.nCreated - a.nDone
		a.mu.Unlock()
		if left <= 0 {
			return
		}
		select {
		case <-a.all:
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// count changes the outcome from counting posts to counting jobs. Uncompleted jobs count as unsent.
func (a *arrivals) count(o *load.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.nCreated - a.nDone
	if left > 0 {
		a.latencies.AddMany(time.Since(a.start), left)
	}
	o.Due, o.Done, o.Failed = o.Due*arrivingJobs, a.nDone, o.Failed*arrivingJobs
	o.Unsent = o.Unsent*arrivingJobs + max(left, 0)
	o.MostBehind *= arrivingJobs
	o.Latencies, o.Stalls = a.latencies, nil
	if !a.last.IsZero() {
		o.Took = max(o.Took, a.last.Sub(o.Start))
	}
}
