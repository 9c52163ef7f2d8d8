package ingest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// The benchmarks run an engine on the disk of the test's directory, without HTTP, for callers that send one job per
// request. BenchmarkIngest measures the matrix, and the other benchmarks measure special cases. cpu-ns/command is the
// processor time of the whole process: callers, journal, applier, Pebble and garbage collector. To profile the applier,
// use `-cpuprofile` with `go tool pprof -focus 'Engine..apply'`.

const benchCallers = 64

// benchEngine is an engine under measurement.
type benchEngine struct {
	*Engine
	b *testing.B
}

func newBenchEngine(b *testing.B) *benchEngine {
	dir := b.TempDir()
	e := testkit.Must(Open(Options{Dir: dir}))(b)
	b.Cleanup(serve(b, e))
	return &benchEngine{Engine: e, b: b}
}

// single returns a create of one job of 100 bytes.
func single() *job.Create {
	c := lines(1)
	c.Joined = true
	c.Longest, c.Payloads = 100, make([]byte, 100, 101)
	for i := range c.Payloads {
		c.Payloads[i] = byte('a' + i%26)
	}
	c.Payloads = append(c.Payloads, '\n')
	return c
}

// run makes callers carry out b.N jobs, and reports the cost per job. Each job takes the given number of commands.
func (n *benchEngine) run(commands int, work func(ctx context.Context, caller int) error) {
	ctx := n.b.Context()
	before := n.log.Status()
	commits, cpu := n.commits.count.Load(), matrix.ProcessorTime()
	n.b.ReportAllocs()
	n.b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(n.b.N))
	var callers sync.WaitGroup
	for caller := range benchCallers {
		callers.Go(func() {
			for left.Add(-1) >= 0 {
				if err := work(ctx, caller); err != nil {
					n.b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	testkit.NoError(n.b, n.CatchUp(ctx, 0))
	n.b.StopTimer()
	after := n.log.Status()
	jobs := float64(n.b.N)
	n.b.ReportMetric(float64((matrix.ProcessorTime()-cpu).Nanoseconds())/jobs/float64(commands), "cpu-ns/command")
	n.b.ReportMetric(jobs/n.b.Elapsed().Seconds(), "jobs/s")
	n.b.ReportMetric(float64(after.Syncs-before.Syncs)/jobs, "fsyncs/job")
	n.b.ReportMetric(float64(after.BytesWritten-before.BytesWritten)/jobs, "journal-bytes/job")
	n.b.ReportMetric(float64(n.commits.count.Load()-commits)/jobs, "commits/job")
	n.b.ReportMetric(0, "ns/op")
}

func completeOf(id job.ID) job.Complete {
	return job.Complete{Claim: id, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}
}

func runnerName(caller int) string { return fmt.Sprintf("runner-%d", caller) }

// BenchmarkClaimsBesideOutputs claims and completes single jobs while 60 callers complete jobs with 8 MiB of outputs per
// request. The time of the claims must not depend on the number of these callers.
func BenchmarkClaimsBesideOutputs(b *testing.B) {
	const callers, outputs, bytes = 60, 1000, 8 << 10
	n := newBenchEngine(b)
	ctx, end := context.WithCancel(b.Context())
	defer end()
	var others sync.WaitGroup
	var sent atomic.Int64
	for caller := range callers {
		others.Go(func() {
			output := make([]byte, bytes)
			for i := range output {
				output[i] = byte('a' + (i*i+caller)%26)
			}
			for ctx.Err() == nil {
				large := lines(outputs)
				large.Groups[0].Client = "large"
				if _, _, err := n.Create(ctx, large); err != nil {
					continue
				}
				claim := claimOf(outputs)
				claim.Runner, claim.Clients = runnerName(caller), []string{"large"}
				_, jobs, _, err := n.Claim(ctx, claim, time.Minute)
				if err != nil {
					continue
				}
				done := job.Complete{}
				for _, j := range jobs {
					done.Outcomes = append(done.Outcomes, job.Outcome{ID: j.ID, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: output}})
				}
				if _, _, err := n.Complete(ctx, done); err == nil {
					sent.Add(int64(len(jobs) * bytes))
				}
			}
		})
	}
	time.Sleep(time.Second) // until the callers with outputs send at full speed
	var times []time.Duration
	for b.Loop() {
		testkit.Must2(n.Create(ctx, single()))(b)
		claim := claimOf(1)
		claim.Clients = []string{"default"}
		began := time.Now()
		claimed, _, _, err := n.Claim(ctx, claim, 0)
		testkit.NoError(b, err)
		times = append(times, time.Since(began))
		testkit.Must2(n.Complete(ctx, completeOf(claimed.Claim)))(b)
	}
	b.StopTimer()
	end()
	others.Wait()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/1e6, "p50-ms/claim")
	b.ReportMetric(float64(times[len(times)*99/100])/1e6, "p99-ms/claim")
	b.ReportMetric(float64(times[len(times)-1])/1e6, "max-ms/claim")
	b.ReportMetric(float64(sent.Load())/(1<<20)/b.Elapsed().Seconds(), "outputs-MiB/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSingleExchanges completes one job and claims the next in one request, from a backlog of batches of 1000.
func BenchmarkSingleExchanges(b *testing.B) {
	for _, form := range []string{"exchange", "in turn"} {
		b.Run(form, func(b *testing.B) {
			n := newBenchEngine(b)
			for left := b.N + 2*benchCallers; left > 0; left -= 1000 {
				testkit.Must2(n.Create(b.Context(), lines(1000)))(b)
			}
			var held [benchCallers]job.ID
			n.run(2, func(ctx context.Context, caller int) error {
				claim := claimOf(1)
				claim.Runner = runnerName(caller)
				if held[caller].IsZero() {
					claimed, _, _, err := n.Claim(ctx, claim, time.Minute)
					held[caller] = claimed.Claim
					return err
				}
				done := []job.Complete{completeOf(held[caller])}
				x := InTurn(n.Engine, done, claim)
				if form == "exchange" {
					var err error
					if x, err = n.Exchange(ctx, done, claim); err != nil {
						return err
					}
				}
				if _, _, err := x.Ended(ctx); err != nil {
					return err
				}
				claimed, _, _, err := x.Claimed(ctx, time.Minute, admitAll)
				held[caller] = claimed.Claim
				return err
			})
		})
	}
}
