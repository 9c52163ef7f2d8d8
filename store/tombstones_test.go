package store

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

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
					mustApply(t, s, seq, int64(seq), job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
					mustCommit(t, s)
				}
				for _, id := range ids[:n-1] {
					seq++
					mustApply(t, s, seq, int64(seq), job.Move{Op: job.Delete, Job: id})
					mustCommit(t, s)
				}
				seq++
				testkit.MustEqual(t, mustApply(t, s, seq, int64(seq), plainClaim("r", 1)).(*applied.Claimed).Jobs(), 1)
				mustCommit(t, s)
				for what, read := range map[string]func(v lsm.View){
					"a purged job": func(v lsm.View) {
						testkit.Fails2(s.JobIn(v, ids[0], query.Unbounded))(t, job.NotFound) // a purged job
					},
					"a job that is there": func(v lsm.View) {
						if _, _, err := s.JobIn(v, ids[n-1], query.Unbounded); err != nil {
							t.Errorf("a job: %v", err)
						}
					},
					"an absent key":        func(v lsm.View) { v.Get(row.SeqKey(row.BatchTable, 0)) },
					"the end of an index":  func(v lsm.View) { v.Scan(row.ListKey(1, job.Failed, 0, 0), row.ListKey(1, job.Failed+1, 0, 0), nil) },
					"a runner's claims":    func(v lsm.View) { query.OpenClaims(v, row.ReadRunner(v, "r"), query.MaxOpenClaims) },
					"an idle runner's":     func(v lsm.View) { query.OpenClaims(v, &row.Runner{Name: "r"}, query.MaxOpenClaims) },
					"a runner with no row": func(v lsm.View) { row.ReadRunner(v, "q") },
				} {
					if steps := stepsOf(t, s, read); steps > 400 {
						t.Errorf("%s: %d steps", what, steps)
					}
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
		mustApply(t, s, uint64(i+1), int64(i), c)
		mustCommit(t, s)
		testkit.NoError(t, s.FlushWait())
	}
	misses := s.db.Pebble().Metrics().Filter.Hits
	const looks = 100
	for i := range looks {
		if s.machine.O.Get(row.UniqueKey(1, fmt.Sprintf("key-%02d-x", i))) != nil {
			t.Fatal("a key that nobody has")
		}
	}
	if spared := s.db.Pebble().Metrics().Filter.Hits - misses; spared < looks {
		t.Errorf("%d looks for absent keys were spared %d tables", looks, spared)
	}
}
