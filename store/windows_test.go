package store

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
)

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
		if s.machine.Windows.Keys() > small.WindowKeys {
			t.Fatalf("the windows hold %d keys after %d rounds", s.machine.Windows.Keys(), round)
		}
	}
	for want := range 400 { // no window may forget a span
		seq++
		c := mustApply(t, s, seq, 0, plainClaim("r", 1)).(*applied.Claimed)
		if c.Jobs() != 1 || c.Runs[0].Batch != uint64(want+1) {
			t.Fatalf("claim %d took %v", want, c.Runs)
		}
	}
}
