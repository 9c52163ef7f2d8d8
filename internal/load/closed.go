package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Closed sends calls from a number of callers. Each sends its next call when its last call is answered.
type Closed struct {
	Callers int
	For     time.Duration
	Most    int64 // bounds the calls of all callers; 0 means no bound
}

// Rate is the result of a closed loop.
type Rate struct {
	Calls int64
	// Took is the time from the start to the last answer.
	Took      time.Duration
	Latencies *Latencies // of the calls
}

// PerSecond returns the calls per second.
func (r *Rate) PerSecond() float64 { return float64(r.Calls) / max(r.Took.Seconds(), 1e-9) }

// Run calls the function from each caller until the time is over. It ends early at the first error, or when the function
// returns false for more. That last call does not count.
func (c Closed) Run(ctx context.Context, call func(ctx context.Context, caller int) (more bool, err error)) (*Rate, error) {
	if c.Callers <= 0 || c.For <= 0 {
		return nil, fmt.Errorf("load from %d callers for %v: both must be more than 0", c.Callers, c.For)
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &Rate{Latencies: NewLatencies()}
	var begun, done atomic.Int64
	var ended atomic.Bool
	var group sync.WaitGroup
	start := time.Now()
	for caller := range c.Callers {
		group.Go(func() {
			for running.Err() == nil && !ended.Load() && time.Since(start) < c.For && (c.Most == 0 || begun.Add(1) <= c.Most) {
				sent := time.Now()
				more, err := call(running, caller)
				if err != nil {
					cancel(err)
					return
				}
				if !more {
					ended.Store(true)
					return
				}
				r.Latencies.Add(time.Since(sent))
				done.Add(1)
			}
		})
	}
	group.Wait()
	r.Calls, r.Took = done.Load(), time.Since(start)
	return r, context.Cause(running)
}
