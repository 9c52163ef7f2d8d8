package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/proof/report"
)

// lanes is the number of tests with a row.
const lanes = 7

// TestZReport runs last and writes the table, if every lane has passed.
func TestZReport(t *testing.T) {
	if len(rows) < lanes {
		t.Skipf("%d of %d lanes have passed: nothing to report", len(rows), lanes)
	}
	var b strings.Builder
	b.WriteString("| lane | what was done | requests | without an answer | streams frozen | jobs acknowledged | jobs created by outcomes, or following others | handed out | ended | cancelled or redriven (sweeps) | refused as stale | errands (idle queues deleted, runners lost) | lost | wrong | histories (operations) | violations | time |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	var sum tally
	var took time.Duration
	line := func(name, what string, c tally, took time.Duration) {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d, %d | %d | %d | %d (%d) | %d | %d (%d, %d) | %d | %d | %d (%d) | %d | %v |\n", name, what, c.Requests, c.NoAnswer, c.Frozen,
			c.Jobs, c.Chained, c.Followed, c.Claimed, c.Ended, c.Moved, c.Sweeps, c.Stale, c.Errands, c.IdleQueues, c.LostRunners, c.Lost, c.Wrong, c.Checked, c.Operations, c.Violations, took.Round(time.Second))
	}
	for _, r := range rows {
		line(r.lane, r.what, r.tally, r.took)
		report.Add(&sum, r.tally)
		took += r.took
	}
	line("all", fmt.Sprintf("the server died %d times", sum.Deaths), sum, took)
	fmt.Fprintf(&b, "\nSeed %d. Undecided histories: %d.\n", *seed, sum.Undecided)
	t.Log("\n" + b.String())
	if *full {
		report.Write(t, "crash", b.String())
	}
}
