package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestRandomIsUniform claims single random jobs from queues of very different sizes and shapes. No job may be chosen
// much more often than another.
func TestRandomIsUniform(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 40, 3))
	mustApply(t, s, 2, 0, plainCreate("a", "y", 1, 3))
	for i := range 19 { // as many batches
		mustApply(t, s, uint64(3+i), 0, plainCreate("b", "x", 1, 3))
	}
	low := plainCreate("c", "x", 40, 3)
	low.Groups[0].Priority = 0
	mustApply(t, s, 22, 0, low)
	seq := uint64(100)
	// Some jobs were returned, and are in the other lane.
	back := mustApply(t, s, seq, 0, plainClaim("r", 30)).(*applied.Claimed)
	seq++
	mustApply(t, s, seq, 0, job.Complete{Claim: back.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
	const draws, jobs = 12_000, 60
	for _, choice := range []job.Claim{{}, {Clients: []string{"b", "a", "b"}}, {Types: []string{"y", "x"}}, {Clients: []string{"a", "b"}, Types: []string{"x", "y"}}} {
		counts := map[job.ID]int{}
		for range draws {
			choice.Runner, choice.Max, choice.MaxBytes, choice.Strategy = "r", 1, job.MaxClaimBytes, job.Random
			seq++
			c := mustApply(t, s, seq, 0, choice).(*applied.Claimed)
			if c.Jobs() != 1 || c.Runs[0].Batch == 22 {
				t.Fatalf("drew %v", c.Runs)
			}
			counts[job.NewID(startAt, c.Runs[0].Batch, int(c.Runs[0].First))]++
			seq++
			mustApply(t, s, seq, 0, job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.Unget, DelayMs: -1}})
		}
		if len(counts) != jobs {
			t.Fatalf("%v: %d jobs came up, of %d", choice, len(counts), jobs)
		}
		// The sum of squared deviations is chi-squared with 59 degrees of freedom, so it exceeds 111.1 once in 50,000
		// times. The draws are the same in each run.
		chi := 0.0
		for _, n := range counts {
			d := float64(n) - draws/jobs
			chi += d * d / (draws / jobs)
		}
		if chi > 111 {
			t.Errorf("%v: chi-squared %.1f: %v", choice, chi, counts)
		}
	}
	mustCommit(t, s)
}

// TestFairServesClientsInTurn: a client with many jobs does not delay others, and the next claim continues after the
// client that was served last.
func TestFairServesClientsInTurn(t *testing.T) {
	s := mustOpen(t, Options{})
	clients := map[uint64]string{1: "a", 2: "b", 3: "c"}
	mustApply(t, s, 1, 0, plainCreate("a", "x", 9, 3))
	mustApply(t, s, 2, 0, plainCreate("b", "x", 2, 3))
	mustApply(t, s, 3, 0, plainCreate("c", "y", 3, 3))
	seq := uint64(3)
	take := func(max int, types ...string) string {
		seq++
		claim := plainClaim("r", max)
		claim.Strategy, claim.Types = job.Fair, types
		served := map[string]int{}
		for _, r := range mustApply(t, s, seq, 0, claim).(*applied.Claimed).Runs {
			served[clients[r.Batch]] += r.Lines()
		}
		return strings.TrimPrefix(fmt.Sprint(served), "map")
	}
	for i, test := range []struct {
		max   int
		types []string
		want  string
	}{
		{1, nil, "[a:1]"}, {1, nil, "[b:1]"}, {1, nil, "[c:1]"}, {1, nil, "[a:1]"},
		{2, nil, "[b:1 c:1]"},
		{2, []string{"x"}, "[a:2]"}, // b has no jobs left
		{3, nil, "[a:2 c:1]"},       // it was c's turn
		{9, nil, "[a:3]"},
		{1, nil, "[]"},
	} {
		testkit.Equal(t, take(test.max, test.types...), test.want, "claim", i, "of", test.max)
	}
	// Jobs of the highest priority are handed out first, whichever client's turn it is.
	high := plainCreate("b", "x", 1, 3)
	high.Groups[0].Priority = 9
	mustApply(t, s, 50, 0, plainCreate("c", "x", 1, 3))
	mustApply(t, s, 51, 0, high)
	clients[50], clients[51] = "c", "b"
	seq = 60
	testkit.Equal(t, take(1), "[b:1]", "with a high priority")
	mustCommit(t, s)
}

// TestClaimIsBounded: a claim over many small spans ends when it has written as many rows as a command may. The next
// claim continues.
func TestClaimIsBounded(t *testing.T) {
	bounds, fewer := memory.StandardBounds, row.Levels[0].Rules
	fewer.ClaimRows = 1000
	bounds.Rules = &fewer
	s := mustOpen(t, Options{bounds: &bounds})
	const jobs = 1000
	for i := range jobs {
		mustApply(t, s, uint64(1+i), 0, plainCreate("a", "x", 1, 3))
	}
	got, claims := 0, 0
	for seq := uint64(jobs + 1); got < jobs; seq++ {
		before := s.machine.O.Writes()
		c := mustApply(t, s, seq, 0, plainClaim("r", jobs)).(*applied.Claimed)
		if rows := s.machine.O.Writes() - before; rows > s.machine.Rules.ClaimRows+100 {
			t.Fatalf("a claim of %d jobs wrote %d rows", c.Jobs(), rows)
		}
		if c.Jobs() == 0 {
			t.Fatal("a claim found nothing")
		}
		got += c.Jobs()
		claims++
	}
	if claims < 2 {
		t.Errorf("%d claims took all", claims)
	}
	mustCommit(t, s)
}
