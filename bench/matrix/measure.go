package matrix

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/load"
)

// Counters are readings of figures that grow while a benchmark works.
type Counters struct {
	CPU    time.Duration
	Allocs uint64
	Bytes  uint64
	Syncs  uint64
}

// ProcessorTime returns the processor time that this process has used. Unlike the elapsed time, it does not grow because
// other processes run.
func ProcessorTime() time.Duration {
	used, err := load.Own()
	if err != nil {
		panic(err) // no system refuses it
	}
	return used
}

// OwnCounters returns the processor time and the allocations of this process.
func OwnCounters() Counters {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return Counters{CPU: ProcessorTime(), Allocs: memory.Mallocs}
}

// Caller is one of several goroutines that work at the same time.
type Caller struct {
	Index int
	Latencies
}

// Workload is the work of a point. It is done in rounds of the same number of jobs, so that all commits and machines do
// the same work: a round is an iteration of package testing.
type Workload struct {
	// Calls is the number of calls (of the point's batch) in a round.
	Calls int
	// Prepare prepares a round. It is not measured, and may be nil.
	Prepare func(ctx context.Context) error
	// Round does the work: Calls × Batch jobs. It returns when all of it is done.
	Round func(ctx context.Context, callers []*Caller) error
	// Read reads the counters.
	Read func(ctx context.Context) (Counters, error)
}

const (
	// roundBytes and roundCalls bound a round, so that it takes between a twentieth of a second and half a second.
	roundBytes = 8 << 20
	roundCalls = 1000
	// callsPerConn is the least number of calls: with fewer, a round would mostly begin and end.
	callsPerConn = 16
	// testedCalls is the round of a test.
	testedCalls = 1
)

// Calls returns the number of calls in a round of the point.
func (p Point) Calls(tb testing.TB) int {
	conns := max(1, p.Conns)
	if _, test := tb.(*testing.T); test {
		return conns * testedCalls
	}
	return max(conns*callsPerConn, min(roundCalls, roundBytes/(p.Batch*p.Size)))
}

// Share lets the callers make n calls together.
func Share(ctx context.Context, callers []*Caller, n int, call func(ctx context.Context, c *Caller) error) error {
	return load.Share(ctx, len(callers), n, func(ctx context.Context, i int) error { return call(ctx, callers[i]) })
}

// warmBytes is about as large as the heap grows in a benchmark.
const warmBytes = 512 << 20

// warmHeap makes the process touch memory before the rounds. The system clears each page that a growing heap touches for
// the first time, which took some per cent of the processor time of a short benchmark. The more garbage the untimed
// preparation of a round makes, the fewer of these pages the round meets. A server in a separate process is not warmed.
func warmHeap() {
	heap := make([]byte, warmBytes)
	for i := 0; i < len(heap); i += os.Getpagesize() {
		heap[i] = 1
	}
	runtime.KeepAlive(heap)
	runtime.GC()
}

// Measure does rounds of the workload until the benchmark has run for its time (in a test: one round), and reports the
// figures.
func Measure(tb testing.TB, p Point, w Workload) {
	tb.Helper()
	callers := make([]*Caller, max(1, p.Conns))
	for i := range callers {
		callers[i] = &Caller{Index: i}
	}
	var total Counters
	var elapsed time.Duration
	rounds := 0
	round := func(start, stop func()) {
		ctx := tb.Context()
		if w.Prepare != nil {
			if err := w.Prepare(ctx); err != nil {
				tb.Fatalf("prepare a round: %v", err)
			}
		}
		before, err := w.Read(ctx)
		if err != nil {
			tb.Fatalf("read the counters before a round: %v", err)
		}
		began := time.Now()
		start()
		err = w.Round(ctx, callers)
		stop()
		elapsed += time.Since(began)
		if err != nil {
			tb.Fatalf("a round of %d calls: %v", w.Calls, err)
		}
		after, err := w.Read(ctx)
		if err != nil {
			tb.Fatalf("read the counters after a round: %v", err)
		}
		total.CPU += after.CPU - before.CPU
		total.Allocs += after.Allocs - before.Allocs
		total.Bytes += after.Bytes - before.Bytes
		total.Syncs += after.Syncs - before.Syncs
		rounds++
	}
	report := func(value float64, unit string) { tb.Logf("%g %s", value, unit) }
	if b, ok := tb.(*testing.B); ok {
		warmHeap()
		for b.Loop() {
			b.StopTimer()
			round(b.StartTimer, b.StopTimer)
			b.StartTimer()
		}
		report = b.ReportMetric
		report(0, "ns/op") // it would be the time of a round
	} else {
		round(func() {}, func() {})
	}
	var times Latencies
	for _, c := range callers {
		times = append(times, c.Latencies...)
	}
	if len(times) == 0 {
		tb.Fatal("no call was timed")
	}
	if total.Bytes == 0 || total.Allocs == 0 {
		tb.Errorf("%d bytes and %d allocations were counted, want more than 0", total.Bytes, total.Allocs)
	}
	jobs := float64(rounds) * float64(w.Calls) * float64(p.Batch)
	report(jobs/elapsed.Seconds(), "jobs/s")
	report(float64(elapsed.Nanoseconds())/jobs, "ns/job")
	report(float64(times.Quantile(0.5).Nanoseconds()), "p50-ns")
	report(float64(times.Quantile(0.99).Nanoseconds()), "p99-ns")
	report(float64(times.Quantile(0.999).Nanoseconds()), "p999-ns")
	report(float64(total.CPU.Nanoseconds())/jobs, "cpu-ns/job")
	report(float64(total.Allocs)/jobs, "allocs/job")
	report(float64(total.Bytes)/jobs, "bytes/job")
	report(float64(total.Syncs)/jobs, "fsyncs/job")
}
