package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// The work of a command must not grow with the rest of the store. These benchmarks measure it beside 100, 10,000 and
// 100,000 runners or spans. They report the median, because an occasional commit or flush is not the command's work.

// BenchmarkBesideRunners lets one runner claim a job, tickle everything that it holds, and complete the job, while many
// others hold one job each.
func BenchmarkBesideRunners(b *testing.B) {
	for _, runners := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("runners=%d", runners), func(b *testing.B) {
			n := newBench(b)
			n.Apply(plainCreate("a", "x", runners, 1))
			for i := range runners {
				n.Apply(plainClaim(fmt.Sprintf("runner%d", i), 1))
			}
			n.commit()
			n.Apply(plainCreate("a", "x", min(b.N+100_000, job.MaxLines), 1))
			n.commit()
			medians(b, n, func() []job.Command {
				claimed := n.Apply(plainClaim("r", 1)).(*applied.Claimed)
				return []job.Command{
					job.Tickle{Runner: "r", Progress: -1},
					job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}},
				}
			})
		})
	}
}

// BenchmarkBesideSpans claims and completes single jobs of a queue with many jobs, each of which is a span.
func BenchmarkBesideSpans(b *testing.B) {
	for _, spans := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("spans=%d", spans), func(b *testing.B) {
			n := newBench(b)
			n.Apply(plainCreate("a", "x", 2*spans, 1))
			batch := job.NewID(n.at, n.seq, 0)
			higher := 9
			for line := 0; line < 2*spans; line += 2 {
				n.Apply(job.Patch{Job: batch.WithLine(line), Priority: &higher})
			}
			n.commit()
			medians(b, n, func() []job.Command {
				claimed := n.Apply(plainClaim("r", 1)).(*applied.Claimed)
				id := job.NewID(batch.At(), claimed.Runs[0].Batch, int(claimed.Runs[0].First))
				return []job.Command{ // the job is returned, and precedes all other jobs of its priority
					job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: id, Code: job.Unget, DelayMs: -1}}},
				}
			})
		})
	}
}

// medians measures cycles. A cycle is prepare, which makes a claim, and then the commands that prepare returns.
func medians(b *testing.B, n *bench, prepare func() []job.Command) {
	var claims, rest []time.Duration
	for b.Loop() {
		began := time.Now()
		commands := prepare()
		claims = append(claims, time.Since(began))
		began = time.Now()
		for _, cmd := range commands {
			n.Apply(cmd)
		}
		rest = append(rest, time.Since(began)/time.Duration(len(commands)))
		if len(claims)%50 == 0 {
			n.commit()
		}
	}
	slices.Sort(claims)
	slices.Sort(rest)
	b.ReportMetric(float64(claims[len(claims)/2].Nanoseconds())/1000, "µs/claim")
	b.ReportMetric(float64(rest[len(rest)/2].Nanoseconds())/1000, "µs/other")
}
