package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
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

// BenchmarkApplierPauses measures the longest step of the applier with 100,000 queues and 10,000 parked claims, 4,000 of
// which are woken. It includes the first claim of each strategy, and the switch from stop to start. Other processes may
// delay a try, so the best of several counts.
func BenchmarkApplierPauses(b *testing.B) {
	queues, parked, woken := 100_000, 10_000, 4000
	if testing.Short() {
		queues, parked, woken = 5000, 1000, 400
	}
	const (
		tries    = 5
		perBatch = 100 // so that creates take little of the measured time
	)
	ctx, cancel := context.WithCancel(b.Context())
	dir := b.TempDir()
	e, stop := start(b, dir)
	create := func(e *Engine, client string, from, n int) {
		b.Helper()
		for i := from; i < from+n; i += perBatch {
			c := lines(perBatch)
			group := c.Groups[0]
			c.Groups = nil
			for j := range perBatch {
				group.Lines, group.Client, group.Type = 1, client, fmt.Sprintf("t%d", i+j)
				c.Groups = append(c.Groups, group)
			}
			testkit.Must2(e.Create(ctx, c))(b)
		}
	}
	create(e, "busy", 0, queues)
	stop()

	// Open the store without its journal, so that the start does not apply the last commands again.
	took := time.Duration(1 << 62)
	for range tries {
		began, cpu := time.Now(), cpuTime(b)
		s := testkit.Must(store.Open(StoreDir(dir), store.Options{ReadOnly: true}))(b)
		took = min(took, time.Since(began), cpuTime(b)-cpu) // other processes may use the processors
		testkit.NoError(b, s.Close())
	}
	b.ReportMetric(took.Seconds()*1e3, "start-ms")

	e, stop = start(b, dir)
	defer stop()
	var claims sync.WaitGroup
	defer claims.Wait()
	defer cancel()
	var got atomic.Int64
	park := func(from, n int) {
		for i := from; i < from+n; i++ {
			claims.Go(func() {
				c := claimOf(1)
				c.Clients, c.Types = []string{"idle"}, []string{fmt.Sprintf("t%d", i)}
				if claimed, _, _, err := e.Claim(ctx, c, time.Hour); err == nil && claimed.Jobs() == 1 {
					got.Add(1)
				}
			})
		}
	}
	waitFor := func(what string, n *atomic.Int64, want int) {
		b.Helper()
		testkit.Eventually(b, fmt.Sprintf("%d %s", want, what), func() bool { return n.Load() == int64(want) })
	}
	park(woken, parked-woken) // these are never woken
	best := map[string]time.Duration{}
	measure := func(what string, do func()) {
		e.counters.longestStep.Store(0)
		do()
		took := time.Duration(e.counters.longestStep.Load())
		if before, ok := best[what]; !ok || took < before {
			best[what] = took
		}
	}
	for range tries {
		park(0, woken)
		waitFor("claims are parked", &e.parked.n, parked)
		got.Store(0)
		measure("waking claims", func() { create(e, "idle", 0, woken); waitFor("claims were answered", &got, woken) })
		for _, strategy := range []job.Strategy{job.Newest, job.Random, job.Fair} { // only the first try has the first claim of the strategy
			measure(strategy.String(), func() {
				c := claimOf(1)
				c.Strategy = strategy
				if claimed, _, _, err := e.Claim(ctx, c, 0); err != nil || claimed.Jobs() != 1 {
					b.Fatalf("%v: %d jobs, %v", strategy, claimed.Jobs(), err)
				}
			})
		}
		measure("start of handing out", func() {
			for _, stopped := range []bool{true, false} {
				testkit.Must2(e.Switch(ctx, job.Switch{Stopped: stopped}))(b)
			}
		})
	}
	for what, took := range best {
		b.ReportMetric(took.Seconds()*1e3, strings.ReplaceAll(what, " ", "-")+"-ms")
	}
}

// cpuTime returns the processor time of the process.
func cpuTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	testkit.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
