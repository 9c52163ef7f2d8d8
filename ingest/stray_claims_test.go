package ingest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestLossWaitsForStrayClaims: if a claim's caller hung up before the claim was applied, the claim is released before the
// loss of its runner is proposed, since no answer named its jobs.
func TestLossWaitsForStrayClaims(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int64 // how long the applier is busy after an end
		e, stop := startWith(t, Options{Dir: dir, OnRunEnds: func([]job.RunEnd) { time.Sleep(time.Duration(busy.Load())) }})
		defer stop()
		testkit.Must2(e.Create(t.Context(), lines(2)))(t)
		c := claimOf(1) // which begins its jobs
		c.LeaseMs = 3_600_000
		other := c
		other.Runner = "r2"
		claimed, jobs := mustClaim(t, e, other)
		testkit.MustEqual(t, len(jobs), 1)
		heartbeat(t, e, "r1", "first")
		time.Sleep(3*beat - time.Second)
		busy.Store(int64(3 * time.Second))
		go func() {
			if _, _, err := e.Complete(context.Background(), job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}}}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second/2)
		defer hangUp()
		if _, _, _, err := e.Claim(ctx, c, 0); err == nil {
			t.Error("the claim is applied")
		}
		time.Sleep(time.Minute)
		busy.Store(0)
		testkit.Equal(t, e.Stats().Runners.Lost, 1, "runners lost")
		if _, jobs, _, err := e.Claim(t.Context(), other, 0); err != nil || len(jobs) != 1 || len(jobs[0].Attempts) != 0 {
			t.Errorf("another runner got %+v, %v", jobs, err)
		}
	})
}
