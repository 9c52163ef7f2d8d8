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
		sound(t, s, "at", at)
		return doc.Status
	}
	testkit.MustEqual(t, status(2000), job.Active, "while the promise")
	mustApply(t, s, 6, 3000, job.Tickle{Claim: claim, Progress: -1})
	status(3000)
	testkit.Equal(t, s.NextDue(), startAt+4000)
	mustApply(t, s, 7, 4000, job.Tick{})
	testkit.Equal(t, status(4000), job.Pending, "after its own lease")
}
