package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Open sends calls at a fixed rate.
type Open struct {
	Rate float64       // calls per second
	For  time.Duration // time in which calls are due
	// UnderWay bounds the outstanding calls. While that many are outstanding, due calls wait, and their wait counts as
	// latency.
	UnderWay int
	// Patience is how long outstanding calls may still take after the end. Then their context ends. 0 means 10 s.
	Patience time.Duration

	sleep func(time.Duration) // set by tests; nil means Sleep
}

// Arrival is a call that is due.
type Arrival struct {
	N   int64     // its number, from 0
	Due time.Time // when it is due
}

// defaultPatience is the default of Open.Patience.
const defaultPatience = 10 * time.Second

// maxRate bounds the arrivals per second. The sender alone needs about a microsecond for each.
const maxRate = 500_000

// Outcome is the result of an open loop.
type Outcome struct {
	Due    int64 // calls that were due
	Done   int64
	Failed int64 // calls whose function returned an error
	Err    error // the first of these errors
	// Unsent is the number of calls that were never sent, because they still waited at the end while UnderWay calls were
	// outstanding.
	Unsent int64
	// MostBehind is the maximum number of calls that were due but not yet sent.
	MostBehind int64
	// Took is the time from the start to the last answer.
	Took time.Duration
	// Latencies are counted from a call's due time to its answer. A call that failed or was not sent counts with its wait
	// until then, which is a lower bound.
	Latencies *Latencies
	// Lateness is counted from a call's due time until it was sent.
	Lateness *Latencies
	Start    time.Time
	Stalls   []Stall
}

// KeptUp reports whether the server answered as many calls as were due. It did not if calls failed or were not sent, or
// if the last answer came too late after the end: by more than a second, and by more than a twentieth of the time.
func (o *Outcome) KeptUp(length time.Duration) bool {
	return o.Unsent == 0 && o.Failed == 0 && o.Took <= length+max(length/20, time.Second)
}

// openRun is the state of one run of an Open. The sender owns outcome.Due and outcome.Unsent.
type openRun struct {
	o       Open
	call    func(context.Context, Arrival) error
	start   time.Time
	due     chan Arrival
	outcome Outcome
	line    *timeline
	done    atomic.Int64

	mu  sync.Mutex // guards the fields below, and outcome.MostBehind
	err error
	bad int64
}

// Run calls the function for each arrival, until the time is over or ctx ends. It returns an error for a wrong setting,
// or the error of ctx. It only counts errors of calls.
func (o Open) Run(ctx context.Context, call func(context.Context, Arrival) error) (*Outcome, error) {
	if o.Rate <= 0 || o.Rate > maxRate || o.For <= 0 || o.UnderWay <= 0 {
		return nil, fmt.Errorf("load at %g calls/s for %v with %d under way: the rate must be more than 0 and at most %d, the others more than 0", o.Rate, o.For, o.UnderWay, maxRate)
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.sleep == nil {
		o.sleep = Sleep
	}
	r := &openRun{o: o, call: call, due: make(chan Arrival), line: newTimeline(o.For)}
	r.outcome = Outcome{Latencies: NewLatencies(), Lateness: NewLatencies()}
	calls, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var callers sync.WaitGroup
	r.start = time.Now()
	for range o.UnderWay {
		callers.Go(func() {
			for a := range r.due {
				r.one(calls, a)
			}
		})
	}
	r.send(ctx)
	close(r.due)
	impatient := time.AfterFunc(o.Patience, func() { cancel(errPatience) })
	callers.Wait()
	impatient.Stop()
	r.outcome.Took = time.Since(r.start)
	r.outcome.Start, r.outcome.Stalls = r.start, r.line.stalls()
	r.outcome.Done, r.outcome.Failed, r.outcome.Err = r.done.Load(), r.bad, r.err
	return &r.outcome, ctx.Err()
}

// errPatience is the cause for which outstanding calls end when the patience is over.
var errPatience = errors.New("the call was not answered in time after the load had ended")

// at returns the time at which an arrival is due.
func (r *openRun) at(n int64) time.Time {
	return r.start.Add(time.Duration(float64(n) / r.o.Rate * float64(time.Second)))
}

// send passes each arrival to a caller at its due time. If all callers are busy, it waits, and so do the arrivals that
// become due during the wait.
func (r *openRun) send(ctx context.Context) {
	end := r.start.Add(r.o.For)
	timeUp := time.NewTimer(r.o.For)
	defer timeUp.Stop()
	n := int64(0)
	for {
		due := r.at(n)
		if !due.Before(end) {
			break
		}
		for wait := time.Until(due); wait > 0 && ctx.Err() == nil; wait = time.Until(due) {
			r.o.sleep(min(wait, longestSleep))
		}
		if ctx.Err() != nil {
			break
		}
		select {
		case r.due <- Arrival{n, due}:
			n++
			continue
		case <-ctx.Done():
		case <-timeUp.C:
		}
		break
	}
	r.outcome.Due = n
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	for ; r.at(n).Before(end); n++ {
		due := r.at(n)
		r.outcome.Due, r.outcome.Unsent = n+1, r.outcome.Unsent+1
		r.record(due, now)
		r.outcome.Lateness.Add(now.Sub(due))
	}
	r.behind(r.outcome.Unsent)
}

// longestSleep bounds the time until the sender notices the end of its context.
const longestSleep = 50 * time.Millisecond

func (r *openRun) one(ctx context.Context, a Arrival) {
	sent := time.Now()
	late := sent.Sub(a.Due)
	r.outcome.Lateness.Add(late)
	r.behind(int64(late.Seconds() * r.o.Rate))
	err := r.call(ctx, a)
	r.record(a.Due, time.Now())
	if err == nil {
		r.done.Add(1)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad++
	if r.err == nil {
		r.err = err
	}
}

// behind records that n arrivals were due but not sent.
func (r *openRun) behind(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.MostBehind = max(r.outcome.MostBehind, n)
}

func (r *openRun) record(due, answered time.Time) {
	latency := answered.Sub(due)
	r.outcome.Latencies.Add(latency)
	r.line.add(due.Sub(r.start), latency)
}
