package store

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// BenchmarkRunEnds completes claims of 100 jobs one by one within a command, which makes a span of each, with and
// without an observer of the ends of runs.
func BenchmarkRunEnds(b *testing.B) {
	for _, observed := range []bool{false, true} {
		b.Run(fmt.Sprintf("observed=%v", observed), func(b *testing.B) {
			n := newBench(b)
			if observed {
				n.s.ObserveRunEnds()
			}
			c := benchCreate("a", "x", 1000)
			b.ReportAllocs()
			ended := 0
			for left := 0; b.Loop(); left -= 100 {
				if left < 100 {
					b.StopTimer()
					n.Apply(c)
					left += 1000
					b.StartTimer()
				}
				got := n.Apply(plainClaim("r", 100)).(*applied.Claimed)
				cmd := job.Complete{Claim: got.Claim}
				for line := range 100 {
					cmd.Outcomes = append(cmd.Outcomes, job.Outcome{ID: job.NewID(got.Handouts[0].B.At, got.Runs[0].Batch, int(got.Runs[0].First)+line), Code: job.OK, ExitCode: 200, DelayMs: -1})
				}
				n.Apply(cmd)
				n.commit()
				for _, e := range n.s.TakeRunEnds() {
					ended += e.Jobs
				}
			}
			if observed && ended != 100*b.N {
				b.Fatalf("%d runs ended, not %d", ended, 100*b.N)
			}
		})
	}
}
