package store

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/check"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// The tests here compare the cost of a command in stores of very different sizes.

// feeder applies commands one after another.
type feeder struct {
	t   testing.TB
	s   *Store
	seq uint64
}

func (f *feeder) Apply(cmd job.Command) applied.Result {
	f.seq++
	return mustApply(f.t, f.s, f.seq, int64(f.seq), cmd)
}

// sizes returns the sizes that the tests of this file compare.
func sizes() (few, many int) {
	if testing.Short() {
		return 100, 3000
	}
	return 100, 10_000
}

// inStore fills a store and opens it again, so that nothing is cached.
func inStore(t *testing.T, o Options, fill func(f *feeder)) *feeder {
	t.Helper()
	o.FS = nil
	dir := t.TempDir()
	open := func() *Store { return testkit.Must(Open(dir, o))(t) }
	f := &feeder{t: t, s: open()}
	fill(f)
	mustCommit(t, f.s)
	testkit.NoError(t, f.s.FlushWait())
	testkit.NoError(t, f.s.Close())
	f.s = open()
	t.Cleanup(func() { testkit.Check(t, f.s.Close()) })
	return f
}

// TestDrawIsBounded: the first random claim after a start reads no more of a lane with many spans than a later claim.
func TestDrawIsBounded(t *testing.T) {
	_, many := sizes()
	for _, test := range []struct {
		name string
		fill func(f *feeder)
	}{
		{"batches", func(f *feeder) {
			for range many {
				f.Apply(plainCreate("a", "x", 1, 3))
			}
		}},
		{"fragments of a batch", func(f *feeder) {
			f.Apply(plainCreate("a", "x", 2*many, 3))
			for first := 0; first < 2*many; first += job.MaxClaimJobs {
				c := f.Apply(plainClaim("r", job.MaxClaimJobs)).(*applied.Claimed)
				back := job.Complete{Claim: c.Claim}
				for line := first; line < first+c.Jobs(); line += 2 {
					back.Outcomes = append(back.Outcomes, job.Outcome{ID: jobID(1, 1, line), Code: job.Unget, DelayMs: -1})
				}
				f.Apply(back)
				if f.seq%10 == 0 {
					mustCommit(f.t, f.s)
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := inStore(t, Options{}, test.fill)
			for i := range 20 {
				claim := plainClaim("r", 1)
				claim.Strategy = job.Random
				got := f.s.costOf(t, func() { f.Apply(claim) })
				testkit.Holds(t, got.reads <= 5000 && got.iterators <= 50, "claim", i, "of a store of", many, "spans", got)
			}
		})
	}
}

// TestLargeRandomClaimIsBounded: a claim of many single jobs finds each job after the previous one, and does not search
// for each from the beginning of the lane.
func TestLargeRandomClaimIsBounded(t *testing.T) {
	f := inStore(t, Options{}, func(f *feeder) {
		for range 3000 {
			f.Apply(plainCreate("a", "x", 1, 3))
		}
	})
	claim := plainClaim("r", 250)
	claim.Strategy = job.Random
	var got *applied.Claimed
	cost := f.s.costOf(t, func() { got = f.Apply(claim).(*applied.Claimed) })
	testkit.Holds(t, cost.reads <= 20*250, got.Jobs(), "jobs", cost)
	testkit.Equal(t, got.Jobs(), 250)
}

// TestQueuesCostNothingUntilTheyAreTouched: with many ready queues, neither a start nor the first claim of any strategy
// reads each of them.
func TestQueuesCostNothingUntilTheyAreTouched(t *testing.T) {
	few, many := sizes()
	fill := func(queues int) func(f *feeder) {
		return func(f *feeder) {
			for i := range queues {
				f.Apply(plainCreate(fmt.Sprintf("client%d", i), fmt.Sprintf("type%d", i%10), 1, 3))
			}
		}
	}
	small, large := inStore(t, Options{}, fill(few)), inStore(t, Options{}, fill(many))
	n := large.s.machine.O.Work().Iterators
	testkit.Holds(t, n <= 16, "a start with", many, "ready queues opened", n, "iterators")
	for _, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair} {
		for _, choice := range []job.Claim{{}, {Types: []string{"type1", "type7"}}, {Clients: []string{"client10", "client30", "client50", "client70"}}} {
			choice.Runner, choice.Max, choice.MaxBytes, choice.Strategy = "r", 1, job.MaxClaimBytes, strategy
			var costs [2]cost
			for i, f := range []*feeder{small, large} {
				costs[i] = f.s.costOf(t, func() {
					testkit.Equal(t, f.Apply(choice).(*applied.Claimed).Jobs(), 1, strategy, "of", choice.Clients, choice.Types, "found nothing")
				})
			}
			testkit.Holds(t, costs[1].reads <= costs[0].reads+20 && costs[1].iterators <= costs[0].iterators+5,
				strategy, "of", choice.Clients, choice.Types, costs[0], "with", few, "queues", costs[1], "with", many)
		}
	}
	types := func(f *feeder, client string, limit int) float64 {
		return testing.AllocsPerRun(3, func() {
			got, more := testkit.Must2(f.s.WaitingTypes(&job.Scope{}, client, "type2", limit))(t)
			testkit.Holds(t, (len(got) == limit || client != "") && more == (client == ""), got, more)
		})
	}
	for _, client := range []string{"", "client33"} {
		a, b := types(small, client, 3), types(large, client, 3)
		testkit.Holds(t, b <= a+2, "three types of client", client, a, "allocations with", few, "queues", b, "with", many)
	}
}

// TestWindowsAreDroppedInTurns: a commit does not walk over all queues when their windows use too much memory.
func TestWindowsAreDroppedInTurns(t *testing.T) {
	bounds := memory.StandardBounds
	bounds.MinWindow, bounds.WindowKeys = 2, 100
	s := mustOpen(t, Options{bounds: &bounds})
	f := feeder{t: t, s: s}
	const queues = 2500
	for i := range 3 * queues {
		f.Apply(plainCreate("a", fmt.Sprintf("t%04d", i%queues), 1, 3))
	}
	for commit := 1; commit <= 3; commit++ {
		f.Apply(job.Mark{})
		mustCommit(t, s)
		testkit.Equal(t, s.machine.Windows.Keys(), 3*(queues-min(commit*machine.ShrunkQueues, queues)), "after commit", commit, "keys")
	}
	testkit.Holds(t, !s.machine.Windows.Full(), "the windows are full after all were dropped")
}

// TestCheckMemoryIsFlat: the memory of a check does not grow with the number of batches, claims and keys.
func TestCheckMemoryIsFlat(t *testing.T) {
	const few, many = 100, 10_000
	retained := func(n int) (most uint64) {
		f := inStore(t, Options{CacheBytes: 64 << 10, MemtableBytes: 1 << 20}, func(f *feeder) {
			for i := range n {
				create := plainCreate("a", "x", 1, 3)
				create.Unique = []job.UniqueKey{{Line: 0, Key: fmt.Sprint(i)}}
				f.Apply(create)
				if i%2 == 0 {
					f.Apply(plainClaim(fmt.Sprintf("r%d", i), 1))
				}
				if i%100 == 0 {
					mustCommit(f.t, f.s)
				}
			}
		})
		heap := func() uint64 {
			var stats runtime.MemStats
			runtime.GC()
			runtime.GC() // frees the memory of sync.Pool
			runtime.ReadMemStats(&stats)
			return stats.HeapAlloc
		}
		before := heap()
		// At the last row of a table, the check has read all of its other rows.
		check.CheckRows = func(table byte, row int) {
			if row%(n/4) == n/4-1 {
				most = max(most, heap()-min(before, heap()))
			}
		}
		defer func() { check.CheckRows = nil }()
		sound(t, f.s)
		return most
	}
	// Caches and iterators of Pebble differ by some hundred KiB from run to run. If a check kept something for each
	// batch, every run would show it.
	for tries := 1; ; tries++ {
		small, large := retained(few), retained(many)
		per := (float64(large) - float64(small)) / float64(many-few)
		if per <= 50 {
			return
		}
		report := t.Logf
		if tries == 3 {
			report = t.Fatalf
		}
		report("a check of %d batches keeps %d bytes, of %d %d: %.0f for each", few, small, many, large, per)
	}
}

// TestQueueTakesLittleMemory: after a start a queue takes at most the memory that QueueBytes says: with jobs of one
// priority, with jobs of ten priorities, and with jobs of ten priorities some of which were returned, so that each
// priority has two lanes.
func TestQueueTakesLittleMemory(t *testing.T) {
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // frees the memory of sync.Pool
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	name := func(i int) string { return fmt.Sprintf("tenant-%d", i) }
	for _, of := range []struct {
		what               string
		queues, priorities int
		returned           bool
	}{{"one priority", 20_000, 1, false}, {"ten priorities", 5000, 10, false}, {"ten priorities with returned jobs", 2500, 10, true}} {
		create := func(f *feeder) {
			for i := range of.queues {
				create := &job.Create{Frame: job.LineFrame, Longest: 3}
				for priority := range of.priorities {
					g := plainGroup(name(i), "mail", 1)
					g.Priority = priority
					create.Groups = append(create.Groups, g)
					create.Payloads = create.Frame.Append(create.Payloads, []byte("xxx"))
				}
				f.Apply(create)
				if i%100 == 0 {
					mustCommit(f.t, f.s)
				}
			}
		}
		f := inStore(t, Options{}, func(f *feeder) {
			if create(f); !of.returned {
				return
			}
			claimed := f.Apply(plainClaim("r", job.MaxClaimJobs)).(*applied.Claimed)
			for ; claimed.Jobs() > 0; claimed = f.Apply(plainClaim("r", job.MaxClaimJobs)).(*applied.Claimed) {
				mustCommit(f.t, f.s)
			}
			for _, id := range f.claims(t) {
				f.Apply(job.Complete{Claim: id, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
				mustCommit(f.t, f.s)
			}
			create(f)
		})
		with, said := heap(), f.s.machine.Live.AllQueues.Bytes
		windows := f.s.machine.Live.AllQueues.Windows
		f.s.machine.Live.AllQueues = memory.NewQueues()
		f.s.machine.Live.AllQueues.Windows = windows
		per := (with - heap()) / int64(of.queues)
		runtime.KeepAlive(f)
		want := said / int64(of.queues)
		testkit.Holds(t, per <= want && per >= want/2, of.what, "a queue takes", per, "bytes, and is said to take", want)
	}
}

// claims returns the ids of all claims that hold jobs.
func (f *feeder) claims(t *testing.T) (ids []job.ID) {
	t.Helper()
	mustCommit(t, f.s)
	v := f.s.db.View()
	defer v.Close()
	v.Scan(string(row.ClaimTable), string(row.ClaimTable+1), func(key string, value []byte) bool {
		ids = append(ids, row.DecodeClaim(row.SeqOfKey(key), value, nil).Id())
		return true
	})
	return ids
}

// TestQueueNamesKeepNothingElse: a queue keeps its name in memory, but not the text of the command that created it.
func TestQueueNamesKeepNothingElse(t *testing.T) {
	f := inStore(t, Options{}, func(*feeder) {})
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	const text, queues = 1 << 20, 64
	before := heap()
	for i := range queues {
		command := fmt.Sprintf("client%02d type%02d %s", i, i, strings.Repeat("x", text))
		f.Apply(plainCreate(command[:8], command[9:15], 1, 3))
	}
	kept := heap() - before
	testkit.Holds(t, kept <= queues*text/4, queues, "queues keep", kept, "bytes")
}

// maxCheckMiB is how much memory the process may need for a check of ten million one-job batches.
const maxCheckMiB = 1024

// TestCheckOfManyBatches checks a store of ten million one-job batches, half of which were claimed and completed. It
// takes minutes and gigabytes of disk, so it runs only with `make bench SET=check`. TestCheckMemoryIsFlat is the small
// test.
func TestCheckOfManyBatches(t *testing.T) {
	batches := 10_000_000
	switch asked := os.Getenv("DAYBOOK_CHECK_BATCHES"); asked {
	case "":
		t.Skip("ten million batches take some minutes: make bench SET=check")
	default:
		if n, err := strconv.Atoi(asked); err == nil && n >= 1000 {
			batches = n
		}
	}
	f := inStore(t, Options{}, func(f *feeder) {
		for i := range batches {
			f.Apply(plainCreate("a", "x", 1, 3))
			if i%2 == 1 {
				c := f.Apply(plainClaim("r", 1)).(*applied.Claimed)
				f.Apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
			}
			if i%200 == 0 {
				mustCommit(f.t, f.s)
			}
		}
	})
	before, began := residentMiB(t, "VmRSS"), time.Now()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the peak memory
		t.Skip(err)
	}
	sound(t, f.s)
	peak := residentMiB(t, "VmHWM")
	t.Logf("a check of %d batches took %v; the process had %d MiB before, and %d MiB at most", batches, time.Since(began), before, peak)
	testkit.Holds(t, peak <= maxCheckMiB, "a check of", batches, "batches took", peak, "MiB, more than", maxCheckMiB)
}

// residentMiB reads a memory figure of this process from the kernel.
func residentMiB(t *testing.T, name string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == name+":" {
			kib := testkit.Must(strconv.Atoi(string(fields[1])))(t)
			return kib / 1024
		}
	}
	t.Skipf("no %s in /proc/self/status", name)
	return 0
}
