package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/proof/report"
)

// lanes is the number of tests with a row.
const lanes = 3

// TestZReport runs last and writes the table, if every lane has passed.
func TestZReport(t *testing.T) {
	if len(rows) == 0 {
		t.Skip("no lane has passed: nothing to report")
	}
	var b strings.Builder
	b.WriteString("| lane | what was done | jobs asked for | acknowledged | without an answer | refused | completed | handed out | refused as stale | reads under load | jobs compared | lost | doubled | wrong | histories (operations) | violations | time |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	var sum tally
	var all gaps
	var took time.Duration
	line := func(name, what string, c tally, took time.Duration) {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d (%d) | %d | %v |\n", name, what, c.Asked, c.Acked, c.Unknown, c.Refused, c.Completed, c.Claimed, c.Stale,
			c.Reads, c.Jobs, c.Lost, c.Doubled, c.Wrong, c.Histories, c.Operations, c.Violations, took.Round(time.Second))
	}
	for _, r := range rows {
		line(r.lane, r.what, r.tally, r.took)
		report.Add(&sum, r.tally)
		all.kills, all.graceful, all.cuts = append(all.kills, r.gaps.kills...), append(all.graceful, r.gaps.graceful...), append(all.cuts, r.gaps.cuts...)
		took += r.took
	}
	line("all", fmt.Sprint(sum.Faults, " faults"), sum, took)
	b.WriteString("\n| the leader | times | time without service, median | longest |\n|---|--:|--:|--:|\n")
	fmt.Fprintf(&b, "| is killed by SIGKILL | %s |\n| is stopped by SIGTERM, or hands over the lead | %s |\n| is cut off from the other nodes | %s |\n", summary(all.kills), summary(all.graceful), summary(all.cuts))
	fmt.Fprintf(&b, "\nSeed %d.\n", *seed)
	t.Log("\n" + b.String())
	if *full && len(rows) == lanes {
		report.Write(t, "cluster", b.String())
	}
}
