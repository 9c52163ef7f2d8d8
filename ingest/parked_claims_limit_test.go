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
	if _, _, _, err := e.Claim(ctx, claimOf(1), time.Hour); !errors.Is(err, ErrTooManyParked) {
		t.Errorf("a claim past the bound: %v", err)
	}
	if _, jobs, _, err := e.Claim(ctx, claimOf(1), 0); err != nil || len(jobs) != 0 {
		t.Errorf("a claim that does not wait: %d jobs, %v", len(jobs), err)
	}
	testkit.Must2(e.Create(ctx, lines(2)))(t)
	for range 2 {
		if _, jobs, _, err := e.Claim(ctx, claimOf(1), time.Hour); err != nil || len(jobs) != 1 {
			t.Errorf("a claim that finds a job: %d jobs, %v", len(jobs), err)
		}
	}
	e.parked.n.Add(-1) // a claim leaves
	got := make(chan int, 1)
	go func() {
		_, jobs, _, err := e.Claim(ctx, claimOf(1), time.Hour)
		if err != nil {
			t.Errorf("the last claim that may wait: %v", err)
		}
		got <- len(jobs)
	}()
	testkit.Eventually(t, "all claims are parked", func() bool { return e.parked.n.Load() >= job.MaxParkedClaims })
	if _, _, _, err := e.Claim(ctx, claimOf(1), time.Hour); !errors.Is(err, ErrTooManyParked) {
		t.Errorf("a claim past the bound again: %v", err)
	}
	testkit.Must2(e.Create(ctx, lines(1)))(t)
	if n := <-got; n != 1 {
		t.Errorf("the claim that waited has %d jobs", n)
	}
	e.parked.n.Add(1 - job.MaxParkedClaims)
}
