package ingest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// TestApplierDoesNotPause: with 100,000 queues and 10,000 parked claims, 4,000 of which are woken, no step of the
// applier takes long. The same holds for the first claim of each strategy, and for the switch from stop to start. Other
// processes may delay a try, so one of several tries must succeed.
func TestApplierDoesNotPause(t *testing.T) {
	queues, parked, woken := 100_000, 10_000, 4000
	if testing.Short() {
		queues, parked, woken = 5000, 1000, 400
	}
	const (
		longest   = 20 * time.Millisecond
		startTime = 8 * time.Second // it is half a second on an idle machine; other tests increase even the processor time, because they share caches
		tries     = 5
		perBatch  = 100 // so that creates take little of the measured time
	)
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	e, stop := start(t, dir)
	create := func(e *Engine, client string, from, n int) {
		t.Helper()
		for i := from; i < from+n; i += perBatch {
			c := lines(perBatch)
			group := c.Groups[0]
			c.Groups = nil
			for j := range perBatch {
				group.Lines, group.Client, group.Type = 1, client, fmt.Sprintf("t%d", i+j)
				c.Groups = append(c.Groups, group)
			}
			if _, _, err := e.Create(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	create(e, "busy", 0, queues)
	stop()

	// The store without its journal, so that the start does not apply the last commands again.
	took := time.Duration(1 << 62)
	for range tries {
		began, cpu := time.Now(), cpuTime(t)
		s, err := store.Open(StoreDir(dir), store.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		took = min(took, time.Since(began), cpuTime(t)-cpu) // other processes may use the processors
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a start with %d queues takes %v", queues, took)
	if took > startTime {
		t.Errorf("a start with %d queues takes %v, more than %v", queues, took, startTime)
	}

	e, stop = start(t, dir)
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
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%d %s", want, what), func() bool { return n.Load() == int64(want) })
	}
	park(woken, parked-woken) // these are never woken
	type step struct{ took, late time.Duration }
	best := map[string]step{}
	measure := func(what string, do func()) {
		e.counters.longestStep.Store(0)
		late := lateness(do)
		took := time.Duration(e.counters.longestStep.Load())
		if before, ok := best[what]; !ok || took < before.took {
			best[what] = step{took, late}
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
		for _, strategy := range []job.Strategy{job.Newest, job.Random, job.Fair} { // only in the first try it is the first claim of the strategy
			measure(strategy.String(), func() {
				c := claimOf(1)
				c.Strategy = strategy
				if claimed, _, _, err := e.Claim(ctx, c, 0); err != nil || claimed.Jobs() != 1 {
					t.Fatalf("%v: %d jobs, %v", strategy, claimed.Jobs(), err)
				}
			})
		}
		measure("start of handing out", func() {
			for _, stopped := range []bool{true, false} {
				if _, _, err := e.Switch(ctx, job.Switch{Stopped: stopped}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	for what, s := range best {
		t.Logf("%s: %v, while a sleep of a millisecond came up to %v late", what, s.took, s.late)
		switch {
		case s.took <= longest:
		case s.late > longest/4:
			t.Logf("undecided, machine too slow: %s: a step of the applier took %v", what, s.took)
		default:
			t.Errorf("%s: a step of the applier takes %v, more than %v", what, s.took, longest)
		}
	}
}

// lateness returns the longest delay of a goroutine that sleeps for a millisecond again and again while do runs. It
// shows the delays that the machine and the runtime cause, and not the product.
func lateness(do func()) (worst time.Duration) {
	var witness sync.WaitGroup
	ended := make(chan struct{})
	witness.Go(func() {
		for {
			began := time.Now()
			select {
			case <-time.After(time.Millisecond):
				worst = max(worst, time.Since(began)-time.Millisecond)
			case <-ended:
				return
			}
		}
	})
	do()
	close(ended)
	witness.Wait()
	return worst
}

// cpuTime returns the processor time of the process.
func cpuTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
