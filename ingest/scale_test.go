package ingest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

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
		measure("waking claims", func() {
			create(e, "idle", 0, woken)
			waitFor("claims were answered", &got, woken)
		})
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
