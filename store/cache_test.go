package store

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestRowsInUseStayCached: a row that is looked up all the time stays in the cache, however many other rows pass
// through the cache.
func TestRowsInUseStayCached(t *testing.T) {
	b := memory.SmallBounds
	b.BatchBytes, b.SpanBytes, b.RowBytes = 20*600, 20*memory.CachedSpanBytes, 20*400
	s := mustOpen(t, Options{bounds: &b})
	mustApply(t, s, 1, 0, plainCreate("a", "hot", 1, 5))
	claim := plainClaim("hot", 1)
	held := mustApply(t, s, 2, 0, claim).(*applied.Claimed)
	hot, first := s.machine.Batches.Get(1), s.machine.Claims.Get(2)
	seq := uint64(3)
	for range 500 {
		mustApply(t, s, seq, 0, plainCreate("a", "cold", 1, 5))
		seq = lifecycle(t, s, seq+1, 0, "cold", 1)
		mustApply(t, s, seq, 0, job.Tickle{IDs: []job.ID{jobID(0, 1, 0)}, Claim: held.Claim, Progress: -1})
		seq++
		mustCommit(t, s)
		if s.machine.Batches.Get(1) != hot || s.machine.Claims.Get(2) != first {
			t.Fatalf("at %d a row in use was dropped", seq)
		}
		if _, ok := s.machine.Spans.Get(memory.CachedSpan{Seq: 1, Span: row.Span{Last: 0}}); !ok {
			t.Fatalf("at %d a span in use was dropped", seq)
		}
		for what, n := range map[string]int{
			"batches": s.machine.Batches.Len(), "claims": s.machine.Claims.Len(), "spans": s.machine.Spans.Len(),
		} {
			if n > 25 { // a commit adds a few more
				t.Fatalf("%d %s are cached", n, what)
			}
		}
	}
}

// TestPagesInUseStayCached: the cache of pages is bounded by their bytes.
func TestPagesInUseStayCached(t *testing.T) {
	s := mustOpen(t, Options{})
	const pageBytes, pages = 1 << 20, 200
	for i := range pages {
		s.machine.Live.Pages.Add(memory.CachedPage{Seq: uint64(i), Last: 1, Framed: make([]byte, pageBytes)})
		if _, ok := s.machine.Live.Pages.Find(nil, 0, 0); !ok {
			t.Fatal("a page in use was dropped")
		}
	}
	if n := s.machine.Live.Pages.Recent.Len(); n > memory.PageCacheBytes/pageBytes+2 {
		t.Errorf("%d pages are cached", n)
	}
}

// TestNewPagesAreCached: the payload of a job that was created a moment ago is not read from the database.
func TestNewPagesAreCached(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 3, 5))
	mustApply(t, s, 2, 0, plainCreate("a", "y", 3, memory.NewPageBytes))
	mustCommit(t, s)
	none := func() lsm.View { t.Fatal("a page of a small batch was read"); return lsm.View{} }
	if page, ok := s.machine.Live.Pages.Find(none, 1, 2); !ok || page.First != 0 || page.Last != 2 || len(page.Framed) != 3*6 {
		t.Errorf("page %+v, %v", page, ok)
	}
	testkit.Equal(t, s.machine.Live.Pages.Recent.Len(), 1, "the pages of a large batch were cached before a claim needed them")
}

// TestClaimsReadAhead: claims of single jobs from batches of one job, after a restart, read the rows and pages of many
// batches at once.
func TestClaimsReadAhead(t *testing.T) {
	const jobs = 4 * machine.AheadSpans
	fs := vfs.NewMem()
	s := mustOpenIn(t, fs)
	for seq := range uint64(jobs) {
		mustApply(t, s, seq+1, 0, plainCreate("a", "x", 1, 100))
	}
	mustCommit(t, s)
	testkit.NoError(t, errors.Join(s.FlushWait(), s.Close()))
	s = mustOpen(t, Options{FS: fs, bounds: &memory.StandardBounds})
	before := s.machine.O.Work().Iterators
	views := 0
	for seq := range uint64(jobs) {
		c := mustApply(t, s, jobs+1+seq, 0, plainClaim("r", 1)).(*applied.Claimed)
		for _, h := range c.Handouts {
			s.machine.Live.Pages.EachPart(func() lsm.View {
				views++
				v := s.db.View()
				t.Cleanup(v.Discard)
				return v
			}, h.B, h.Sp.First, h.Sp.Last, func(_, _ uint32, part []byte) {
				testkit.Equal(t, len(part), 101)
				testkit.Equal(t, h.B.Seq, seq+1)
			})
		}
	}
	mustCommit(t, s)
	if after := s.machine.O.Work().Iterators; after-before > jobs/4 || views > jobs/4 {
		t.Errorf("%d claims opened %d iterators and %d views", jobs, after-before, views)
	}
}
