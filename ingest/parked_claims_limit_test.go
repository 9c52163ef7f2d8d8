package ingest

import (
	"errors"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestParkedClaimsAreBounded: one waiting claim more than the limit is refused. Claims that find a job, or do not wait,
// are served. When a claim leaves there is room for another.
func TestParkedClaimsAreBounded(t *testing.T) {
	ctx := t.Context()
	e, _ := startWith(t, Options{Dir: t.TempDir()})
	e.parked.n.Add(job.MaxParkedClaims)
	_, _, _, err := e.Claim(ctx, claimOf(1), time.Hour)
	testkit.Holds(t, errors.Is(err, ErrTooManyParked), "a claim past the bound", err)
	_, jobs := mustClaim(t, e, claimOf(1))
	testkit.Equal(t, len(jobs), 0, "a claim that does not wait")
	testkit.Must2(e.Create(ctx, lines(2)))(t)
	for range 2 {
		_, jobs, _, err := e.Claim(ctx, claimOf(1), time.Hour)
		testkit.Holds(t, err == nil && len(jobs) == 1, "a claim that finds a job", len(jobs), "jobs", err)
	}
	e.parked.n.Add(-1) // a claim leaves
	got := make(chan int, 1)
	go func() {
		_, jobs, _, err := e.Claim(ctx, claimOf(1), time.Hour)
		testkit.Check(t, err, "the last claim that may wait")
		got <- len(jobs)
	}()
	testkit.Eventually(t, "all claims are parked", func() bool { return e.parked.n.Load() >= job.MaxParkedClaims })
	_, _, _, err = e.Claim(ctx, claimOf(1), time.Hour)
	testkit.Holds(t, errors.Is(err, ErrTooManyParked), "a claim past the bound again", err)
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	testkit.Equal(t, <-got, 1, "the claim that waited, jobs")
	e.parked.n.Add(1 - job.MaxParkedClaims)
}
