package store

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestCancelledIsTold: the runner of a cancelled job is notified by the answer to its next request.
func TestCancelledIsTold(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 3, 3))
	c := mustApply(t, s, 2, 0, plainClaim("r", 3)).(*applied.Claimed)
	first, last := jobID(0, 1, 0), jobID(0, 1, 2)
	mustApply(t, s, 3, 1, job.Move{Op: job.Cancel, Job: first})
	seq := uint64(3)
	tickle := func(tk job.Tickle, at int64) *applied.Tickled {
		seq++
		tk.Progress = -1
		return mustApply(t, s, seq, at, tk).(*applied.Tickled)
	}
	told := func(what string, got *applied.Tickled, held int, refusal job.Refusal, lost ...job.ID) {
		t.Helper()
		var ids []job.ID
		for _, l := range got.Lost {
			testkit.Equal(t, l.Refusal, job.WasCancelled, what)
			ids = append(ids, l.ID)
		}
		if got.Held != held || got.Refusal != refusal || fmt.Sprint(ids) != fmt.Sprint(lost) {
			t.Errorf("%s: %+v, want %d held, %v lost", what, got, held, lost)
		}
	}
	told("claim", tickle(job.Tickle{Claim: c.Claim}, 10), 2, job.Granted, first)
	told("runner", tickle(job.Tickle{Runner: "r"}, 11), 2, job.Granted, first)
	told("job", tickle(job.Tickle{IDs: []job.ID{first}}, 12), 0, job.Granted, first)
	seq++
	ended := mustApply(t, s, seq, 13, job.Complete{Claim: c.Claim, Outcomes: []job.Outcome{{ID: first, Code: job.OK, ExitCode: 200, DelayMs: -1}}}).(*applied.Ended)
	testkit.Equal(t, ended.Results[0].Refusal, job.WasCancelled)
	seq++
	mustApply(t, s, seq, 14, job.Move{Op: job.Cancel, Batch: first.WithLine(0)})
	told("runner of nothing", tickle(job.Tickle{Runner: "r"}, 15), 0, job.ClaimLost, first, first.WithLine(1), last)
	told("claim of nothing", tickle(job.Tickle{Claim: c.Claim}, 16), 0, job.WasCancelled, first, first.WithLine(1), last)
	seq++
	ended = mustApply(t, s, seq, 17, job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}).(*applied.Ended)
	testkit.Equal(t, ended.Refusal, job.WasCancelled, "completion of all")
	told("runner, much later", tickle(job.Tickle{Runner: "r"}, 20+job.NoticeMs), 0, job.ClaimLost)
	mustCommit(t, s)
	doc, err := s.Job(first)
	if err != nil || doc.Status != job.Cancelled || doc.Why != job.Asked || doc.Claim != c.Claim || len(doc.Attempts) != 1 || doc.Attempts[0].Why != job.Asked {
		t.Errorf("%+v, %v", doc, err)
	}
}
