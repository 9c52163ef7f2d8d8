package store

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// TestClaimsPassNoGaps: a claim does not pass the rows of thousands of jobs that were removed from the middle of their
// line, because they expired in order, were taken by Newest while older jobs waited, or were cancelled.
func TestClaimsPassNoGaps(t *testing.T) {
	const dead, few, many = 6000, 8, 700
	create := func(f *feeder, n int, change func(g *job.Group)) {
		for n > 0 {
			c := &job.Create{Frame: job.NoFrame}
			for range min(n, job.MaxGroups) {
				g := plainGroup("a", "x", 1)
				if g.Kind = job.Nothing; change != nil {
					change(&g)
				}
				c.Groups = append(c.Groups, g)
			}
			n -= len(c.Groups)
			f.Apply(c)
			mustCommit(f.t, f.s)
		}
	}
	expiring := func(g *job.Group) { g.ExpiresAt, g.RetentionMs = startAt+1_000_000, 0 }
	for name, remove := range map[string]func(f *feeder){
		"expired": func(f *feeder) {
			create(f, dead, expiring)
			create(f, many, nil)
			f.seq += 1_100_000
		},
		"taken from the end": func(f *feeder) {
			for range dead / 50 {
				create(f, 50, nil)
				claim := plainClaim("r", 50)
				claim.Strategy = job.Newest
				f.Apply(claim)
				mustCommit(f.t, f.s)
			}
			create(f, many, nil)
		},
		"cancelled": func(f *feeder) {
			begun := f.seq + 1
			create(f, dead, nil)
			ended := f.seq
			create(f, many, nil)
			for seq := begun; seq <= ended; seq++ {
				f.Apply(job.Move{Op: job.Cancel, Batch: jobID(int64(seq), seq, 0)})
				for len(f.s.machine.Running) > 0 {
					f.Apply(job.Tick{})
					mustCommit(f.t, f.s)
				}
			}
		},
	} {
		for _, first := range []int{0, 1, few} {
			t.Run(name, func(t *testing.T) {
				s := mustOpen(t, Options{Journal: testJournal})
				f := &feeder{t: t, s: s}
				create(f, first, nil)
				remove(f)
				mustCommit(t, s)
				for s.NextDue() != 0 && s.NextDue() <= startAt+int64(f.seq) {
					got := s.costOf(t, func() { f.Apply(job.Tick{}) })
					testkit.Holds(t, got.steps <= 2000, "a tick takes", got.steps, "steps")
					mustCommit(t, s)
				}
				testkit.MustEqual(t, s.machine.Counts[job.Pending], int64(first)+many)
				for range first + 20 {
					got := s.costOf(t, func() { testkit.MustEqual(t, f.Apply(plainClaim("r", 1)).(*applied.Claimed).Jobs(), 1) })
					testkit.Holds(t, got.steps <= 1000, "a claim takes", got.steps, "steps")
					mustCommit(t, s)
				}
			})
		}
	}
}

// stepsOf returns how many entries Pebble reads while f reads.
func stepsOf(t testing.TB, s *Store, f func(v lsm.View)) int {
	t.Helper()
	v := s.db.View()
	defer v.Close()
	f(v)
	stats := v.Stats()
	return stats.ForwardStepCount[pebble.InternalIterCall] + stats.ReverseStepCount[pebble.InternalIterCall]
}

// TestReadsPassFewDeletedNeighbours: deleted keys stay in the tables until Pebble compacts them. The cost of a read
// must not depend on how many deleted keys are next to its key.
func TestReadsPassFewDeletedNeighbours(t *testing.T) {
	for _, n := range []int{500, 5000} {
		for _, lines := range []int{1, n} {
			t.Run(fmt.Sprintf("%d jobs in batches of %d", n, lines), func(t *testing.T) {
				s := mustOpen(t, Options{})
				seq := uint64(0)
				var ids []job.ID
				for len(ids) < n {
					seq++
					// 43 lines a page, and at most 128 pages in a batch:
					mustApply(t, s, seq, int64(seq), plainCreate("a", "x", lines, 1500))
					for line := range lines {
						ids = append(ids, jobID(int64(seq), seq, line))
					}
				}
				mustCommit(t, s)
				for range 50 { // by one runner, which still holds the last
					seq++
					c := mustApply(t, s, seq, int64(seq), plainClaim("r", 1)).(*applied.Claimed)
					seq++
					mustStore(t, s, seq, int64(seq), job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
				}
				for _, id := range ids[:n-1] {
					seq++
					mustStore(t, s, seq, int64(seq), job.Move{Op: job.Delete, Job: id})
				}
				seq++
				testkit.MustEqual(t, mustApply(t, s, seq, int64(seq), plainClaim("r", 1)).(*applied.Claimed).Jobs(), 1)
				mustCommit(t, s)
				for what, read := range map[string]func(v lsm.View){
					"a purged job": func(v lsm.View) {
						testkit.Fails2(s.JobIn(v, ids[0], query.Unbounded))(t, job.NotFound) // a purged job
					},
					"a job that is there":  func(v lsm.View) { testkit.Must2(s.JobIn(v, ids[n-1], query.Unbounded))(t) },
					"an absent key":        func(v lsm.View) { v.Get(row.SeqKey(row.BatchTable, 0)) },
					"the end of an index":  func(v lsm.View) { v.Scan(row.ListKey(1, job.Failed, 0, 0), row.ListKey(1, job.Failed+1, 0, 0), nil) },
					"a runner's claims":    func(v lsm.View) { query.OpenClaims(v, row.ReadRunner(v, "r"), query.MaxOpenClaims) },
					"an idle runner's":     func(v lsm.View) { query.OpenClaims(v, &row.Runner{Name: "r"}, query.MaxOpenClaims) },
					"a runner with no row": func(v lsm.View) { row.ReadRunner(v, "q") },
				} {
					steps := stepsOf(t, s, read)
					testkit.Holds(t, steps <= 400, what, steps, "steps")
				}
			})
		}
	}
}

// TestFiltersAnswerForAbsentKeys: the search for an absent key does not read tables whose filter excludes the key.
func TestFiltersAnswerForAbsentKeys(t *testing.T) {
	s := mustOpen(t, Options{})
	for i := range 4 { // tables that overlap, so that a search without filters would read them all
		c := plainCreate("a", "x", 100, 5)
		for line := range 100 {
			c.Unique = append(c.Unique, job.UniqueKey{Line: line, Key: fmt.Sprintf("key-%02d-%d", line, i)})
		}
		mustStore(t, s, uint64(i+1), int64(i), c)
		testkit.NoError(t, s.FlushWait())
	}
	misses := s.db.Pebble().Metrics().Filter.Hits
	const looks = 100
	for i := range looks {
		testkit.MustHold(t, s.machine.O.Get(row.UniqueKey(1, fmt.Sprintf("key-%02d-x", i))) == nil, "a key that nobody has")
	}
	spared := s.db.Pebble().Metrics().Filter.Hits - misses
	testkit.Holds(t, spared >= looks, looks, "looks for absent keys were spared", spared, "tables")
}

// TestWindowsShareABudget makes many queues with many spans each. The total number of keys in their windows is bounded.
func TestWindowsShareABudget(t *testing.T) {
	small := memory.StandardBounds
	small.WindowKeys = 200
	s := mustOpen(t, Options{bounds: &small})
	seq := uint64(0)
	for round := range 20 {
		for q := range 20 {
			seq++
			mustApply(t, s, seq, 0, plainCreate("a", fmt.Sprintf("t%d", q), 1, 5))
		}
		mustCommit(t, s)
		testkit.MustHold(t, s.machine.Windows.Keys() <= small.WindowKeys, "the windows hold", s.machine.Windows.Keys(), "keys after", round, "rounds")
	}
	for want := range 400 { // no window may forget a span
		seq++
		c := mustApply(t, s, seq, 0, plainClaim("r", 1)).(*applied.Claimed)
		testkit.MustEqual(t, c.Jobs(), 1, "claim", want, "took", c.Runs)
		testkit.MustEqual(t, c.Runs[0].Batch, uint64(want+1), "claim", want, "took", c.Runs)
	}
}
