package store

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/daybookq/daybook/job"
)

// cost is what a command takes, or a query. The tests count it, because times say little on a busy machine.
type cost struct {
	looks     int    // rows looked at, in the overlay or the database
	reads     int    // of them, those that the database was asked for
	iterators int    // opened
	writes    int    // rows set or deleted
	bytes     uint64 // of memory that was allocated, by the whole process meanwhile
}

// costOf returns what do costs.
func (s *Store) costOf(do func()) cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work, writes := s.machine.o.Work(), s.machine.o.Writes()
	do()
	now := s.machine.o.Work()
	runtime.ReadMemStats(&after)
	return cost{now.Looks - work.Looks, now.Reads - work.Reads, now.Iterators - work.Iterators, s.machine.o.Writes() - writes, after.TotalAlloc - before.TotalAlloc}
}

// boundedBytes is what one command may allocate beside what it hands out and what it stores.
const boundedBytes = 16 << 20

// boundedRows is how many rows one command may look at, and boundedWrites how many it may write.
const boundedRows, boundedWrites = 10_000, 9_000

// bounded is a command and a backlog of the kind that it has to find its way through.
type bounded struct {
	name string
	fill func(f *feeder, n int) // makes a backlog of n things
	n    int                    // about a hundredth of what there may be
	do   job.Command
	// jobs is the least that a claim must hand out: a claim that stops early has not been in vain.
	jobs int
}

// testBounded applies commands to stores with a backlog each, opened again so that nothing is cached, and compares their
// costs with the bounds, which do not depend on the backlog. A command is applied twice, since the first may do what the
// second finds done.
func testBounded(t *testing.T, table []bounded) {
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			f := inStore(t, Options{}, func(f *feeder) { c.fill(f, c.n) })
			for range 2 {
				var result Result
				got := f.s.costOf(func() { result = f.apply(c.do) })
				if got.looks > boundedRows || got.writes > boundedWrites || got.bytes > boundedBytes {
					t.Errorf("%+v", got)
				}
				if claimed, ok := result.(*Claimed); ok && claimed.Jobs() < c.jobs {
					t.Errorf("a claim got %d jobs, want %d at least", claimed.Jobs(), c.jobs)
				}
				mustCommit(t, f.s)
			}
			if problems := problemsOf(t, f.s); len(problems) > 0 {
				t.Error(problems)
			}
		})
	}
}

// fillPairs makes a job in each of n queues of a hundred types.
func fillPairs(f *feeder, n int) {
	for i := 0; i < n; i += 100 {
		create := &job.Create{Frame: job.NoFrame}
		for k := range 100 {
			create.Groups = append(create.Groups, plainGroup(fmt.Sprintf("client%d", i/100), fmt.Sprintf("type%d", k), 1))
			create.Groups[k].Kind = job.Nothing
		}
		f.apply(create)
		if i%1000 == 0 {
			mustCommit(f.t, f.s)
		}
	}
}

// TestClaimsAreBounded: a claim of any strategy has a bound, whatever it names and whatever waits.
func TestClaimsAreBounded(t *testing.T) {
	var table []bounded
	for _, strategy := range []job.Strategy{job.Oldest, job.Newest, job.Random, job.Fair} {
		table = append(table, bounded{fmt.Sprintf("%v of many queues", strategy), fillPairs, 10_000,
			job.Claim{Runner: "r", Max: 100, MaxBytes: job.MaxClaimBytes, Strategy: strategy}, 100})
	}
	testBounded(t, table)
}
