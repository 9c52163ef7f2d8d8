package store

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestOwnLeaseAfterAPromise: a tickle of the runner promised a late end, and a later tickle of the claim ends the
// promise. A job with its own lease is then abandoned when that lease ends, not when the promise would have ended.
func TestOwnLeaseAfterAPromise(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 2, 3))
	claim := mustApply(t, s, 2, 0, plainClaim("r", 2)).(*applied.Claimed).Claim
	own := jobID(0, 1, 0)
	mustApply(t, s, 3, 0, job.Tickle{IDs: []job.ID{own}, Claim: claim, LeaseMs: 1000, Progress: -1})
	mustApply(t, s, 4, 500, job.Tickle{Runner: "r", LeaseMs: 60_000, Progress: -1})
	mustApply(t, s, 5, 2000, job.Tick{})
	status := func(at int64) job.Status {
		t.Helper()
		mustCommit(t, s)
		doc := testkit.Must(s.Job(own))(t)
		if problems := problemsOf(t, s); len(problems) > 0 {
			t.Errorf("at %d: %q", at, problems)
		}
		return doc.Status
	}
	if got := status(2000); got != job.Active {
		t.Fatalf("while the promise holds: %v", got)
	}
	mustApply(t, s, 6, 3000, job.Tickle{Claim: claim, Progress: -1})
	status(3000)
	if due := s.NextDue(); due != startAt+4000 {
		t.Errorf("due at %d, want %d", due-startAt, 4000)
	}
	mustApply(t, s, 7, 4000, job.Tick{})
	if got := status(4000); got != job.Pending {
		t.Errorf("after its own lease: %v", got)
	}
}
