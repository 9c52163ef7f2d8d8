package measure

import (
	"sync"
	"time"

	"github.com/daybookq/daybook/bench/peers/process"
	"github.com/daybookq/daybook/internal/load"
)

// Turn is one measurement.
type Turn struct {
	Work Work
	Jobs int // how many jobs to do

	server int // its process id

	began      time.Time
	took       time.Duration
	serverTime time.Duration // used when the turn began, then within it
	loadTime   time.Duration // likewise, of this process
	err        error

	*load.Latencies // of calls

	mu    sync.Mutex
	extra time.Duration // processor time of other processes of the load
}

// Begin starts the clock, and discards all earlier measurements.
func (t *Turn) Begin() {
	t.mu.Lock()
	t.Latencies, t.extra, t.took = load.NewLatencies(), 0, 0
	t.mu.Unlock()
	t.serverTime, t.err = process.Time(t.server)
	t.loadTime = ownTime()
	t.began = time.Now()
}

// End stops the clock. Only the first call after Begin counts.
func (t *Turn) End() {
	if t.took != 0 {
		return
	}
	t.took = time.Since(t.began)
	t.loadTime = ownTime() - t.loadTime
	used, err := process.Time(t.server)
	if t.err == nil {
		t.err = err
	}
	t.serverTime = used - t.serverTime
}

// AddLoadTime adds processor time that another process of the load has used.
func (t *Turn) AddLoadTime(d time.Duration) {
	t.mu.Lock()
	t.extra += d
	t.mu.Unlock()
}

// Took replaces the measured time, for a load in another process that measures the time itself.
func (t *Turn) Took(d time.Duration) { t.took = d }

// result returns the measurements.
func (t *Turn) result(round int) (TurnResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	latencies := t.Summary()
	r := TurnResult{
		Round: round, Jobs: t.Jobs, Seconds: t.took.Seconds(), Calls: int(latencies.Count), P50: latencies.P50, P99: latencies.P99,
		ServerSeconds: t.serverTime.Seconds(), LoadSeconds: (t.loadTime + t.extra).Seconds(),
	}
	return r, t.err
}

// ownTime returns the processor time that this process has used.
func ownTime() time.Duration {
	used, err := load.Own()
	if err != nil {
		panic(err) // no system refuses it
	}
	return used
}
