package store

import (
	"testing"

	"github.com/daybookq/daybook/job"
)

// TestRowsInUseStayCached: a row that is looked up all the time stays in the cache, however many other rows pass
// through it.
func TestRowsInUseStayCached(t *testing.T) {
	b := smallBounds
	b.cachedBatches, b.cachedSpans, b.cachedClaims = 20, 20, 20
	s := mustOpen(t, Options{bounds: &b})
	mustApply(t, s, 1, 0, plainCreate("a", "hot", 1, 5))
	claim := plainClaim("hot", 1)
	held := mustApply(t, s, 2, 0, claim).(*Claimed)
	hot, first := s.machine.batches.Get(1), s.machine.claims.Get(2)
	seq := uint64(3)
	for range 500 {
		mustApply(t, s, seq, 0, plainCreate("a", "cold", 1, 5))
		seq = lifecycle(t, s, seq+1, 0, "cold", 1)
		mustApply(t, s, seq, 0, job.Tickle{IDs: []job.ID{jobID(0, 1, 0)}, Claim: held.Claim, Progress: -1})
		seq++
		mustCommit(t, s)
		if s.machine.batches.Get(1) != hot || s.machine.claims.Get(2) != first {
			t.Fatalf("at %d a row in use was dropped", seq)
		}
		if _, ok := s.machine.spans.Get(cachedSpan{seq: 1, span: span{last: 0}}); !ok {
			t.Fatalf("at %d a span in use was dropped", seq)
		}
		for what, n := range map[string]int{
			"batches": s.machine.batches.Len(), "claims": s.machine.claims.Len(), "spans": s.machine.spans.Len(),
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
		s.pages.recent.Set(cachedPage{seq: uint64(i), last: 1, framed: make([]byte, pageBytes)})
		s.pages.count(pageBytes)
		if _, ok := s.pages.find(nil, &batch{}, 0); !ok {
			t.Fatal("a page in use was dropped")
		}
	}
	if n := s.pages.recent.Len(); n > pageCacheBytes/pageBytes+2 {
		t.Errorf("%d pages are cached", n)
	}
}
