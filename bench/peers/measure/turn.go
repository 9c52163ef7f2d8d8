package measure

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/daybookq/daybook/bench/peers/process"
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

	mu    sync.Mutex
	times []time.Duration
	extra time.Duration // processor time of other processes of the load
}

// Begin starts the clock, and discards all earlier measurements.
func (t *Turn) Begin() {
	t.mu.Lock()
	t.times, t.extra, t.took = t.times[:0], 0, 0
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

// Time runs f and records how long it took if it succeeded.
func (t *Turn) Time(f func() error) error {
	start := time.Now()
	if err := f(); err != nil {
		return err
	}
	t.Record(time.Since(start))
	return nil
}

// Record adds latencies of calls.
func (t *Turn) Record(latencies ...time.Duration) {
	t.mu.Lock()
	t.times = append(t.times, latencies...)
	t.mu.Unlock()
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
	slices.Sort(t.times)
	r := TurnResult{
		Round: round, Jobs: t.Jobs, Seconds: t.took.Seconds(), Calls: len(t.times),
		P50: milliseconds(quantile(t.times, 0.5)), P99: milliseconds(quantile(t.times, 0.99)),
		ServerSeconds: t.serverTime.Seconds(), LoadSeconds: (t.loadTime + t.extra).Seconds(),
	}
	return r, t.err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ownTime returns the processor time that this process has used.
func ownTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it fails only for arguments that do not exist
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
