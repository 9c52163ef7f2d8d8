package store

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestBackoffSpreads: jobs whose runs ended in one command do not run again together. Each waits for its own backoff,
// even when the backoff has grown to its maximum.
func TestBackoffSpreads(t *testing.T) {
	for name, b := range map[string]job.Backoff{
		"initial": {InitialMs: 10_000, FactorMilli: 2000, MaxMs: 3_600_000},
		"at most": {InitialMs: 10_000, FactorMilli: 2000, MaxMs: 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCompleting(t)
			const jobs = 500
			first := c.Create(jobs, func(c *job.Create) { c.Groups[0].Backoff = b })
			claim := c.Apply(plainClaim("r", jobs)).(*applied.Claimed)
			if ended := c.Apply(job.Complete{Claim: claim.Claim, All: &job.Outcome{Code: job.Error, ExitCode: 500, DelayMs: -1}}).(*applied.Ended); ended.All != jobs {
				t.Fatalf("%+v", ended)
			}
			mustCommit(t, c.s)
			shortest, longest := b.InitialMs*3/4, min(b.InitialMs*5/4, b.MaxMs)
			times, tenths := map[int64]bool{}, [10]int{}
			for line := range jobs {
				doc := testkit.Must(c.s.Job(first.WithLine(line)))(t)
				testkit.MustEqual(t, doc.Status, job.Deferred)
				delay := doc.RunAt - startAt
				if delay < shortest || delay > longest {
					t.Fatalf("job %d waits for %d ms, not %d to %d", line, delay, shortest, longest)
				}
				times[delay] = true
				tenths[min(9, (delay-shortest)*10/(longest-shortest))]++
			}
			if len(times) < jobs*4/5 {
				t.Errorf("%d jobs have %d different delays", jobs, len(times))
			}
			for i, n := range tenths {
				if n < jobs/10/2 || n > jobs/10*2 {
					t.Errorf("%d of %d jobs wait for the tenth %d of the range: %v", n, jobs, i, tenths)
				}
			}
			sound(t, c.s)
		})
	}
}
