package store

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestSweepTakesWhatComesBack: a job is active while its queue is cancelled, and then returns to a place that the sweep
// has passed. It is cancelled too. A job that was created since is not.
func TestSweepTakesWhatComesBack(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 1, 3))
	held := mustApply(t, s, 2, 0, plainClaim("r", 1)).(*applied.Claimed)
	for seq := uint64(3); seq < 40; seq++ {
		mustApply(t, s, seq, 1, plainCreate("a", "x", 1, 3))
	}
	swept := mustApply(t, s, 50, 10, job.Move{Op: job.Cancel, Client: "a", Type: "x"}).(*applied.Swept)
	if swept.Sweep.IsZero() || swept.Moved >= 38 {
		t.Fatalf("%+v is done at once", swept)
	}
	// The job is active, so the sweep reaches it last. Now it returns to the pending jobs that the sweep is passing.
	given := mustApply(t, s, 51, 11, job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{{ID: jobID(0, 1, 0), Code: job.Unget, DelayMs: -1}}}).(*applied.Ended)
	if got := given.Results[0]; got.Refusal != job.Granted || got.Status != job.Cancelled {
		t.Errorf("given back: %+v", got)
	}
	mustApply(t, s, 52, 12, plainCreate("a", "x", 1, 3))
	for seq := uint64(53); s.Totals().Sweeps > 0 || seq == 53; seq++ {
		mustApply(t, s, seq, 20, job.Tick{})
		mustCommit(t, s)
		if seq > 1000 {
			t.Fatal("the sweep does not end")
		}
	}
	doc, err := s.Sweep(swept.Sweep)
	if err != nil || doc.Moved != 38 || doc.FinishedAt == 0 || doc.Client != "a" || doc.Type != "x" || doc.Op != job.Cancel {
		t.Errorf("%+v, %v", doc, err)
	}
	if counts := s.Totals().Counts; counts[job.Cancelled] != 38 || counts[job.Pending] != 1 {
		t.Errorf("%v", counts)
	}
	all, err := s.Sweeps()
	if err != nil || len(all) != 1 || all[0] != doc {
		t.Errorf("%+v, %v", all, err)
	}
	mustApply(t, s, 2000, 21+job.SweepLifeMs, job.Tick{})
	mustCommit(t, s)
	testkit.Fails(s.Sweep(swept.Sweep))(t, job.SweepNotFound) // a day later
}

// TestSweepsAreBounded: at the limit, one more sweep is refused. It is accepted when another sweep has ended.
func TestSweepsAreBounded(t *testing.T) {
	s := mustOpen(t, Options{Small: true})
	seq := uint64(0)
	apply := func(cmd job.Command) applied.Result { seq++; return mustApply(t, s, seq, 0, cmd) }
	for q := range job.MaxSweeps + 1 {
		for range 10 {
			apply(plainCreate("a", fmt.Sprintf("t%d", q), 1, 1))
		}
	}
	for q := range job.MaxSweeps {
		if w := apply(job.Move{Op: job.Cancel, Client: "a", Type: fmt.Sprintf("t%d", q)}).(*applied.Swept); w.Sweep.IsZero() || w.Refusal != job.Granted {
			t.Fatalf("sweep %d: %+v", q, w)
		}
	}
	one := job.Move{Op: job.Cancel, Client: "a", Type: fmt.Sprintf("t%d", job.MaxSweeps)}
	if w := apply(one).(*applied.Swept); w.Refusal != job.TooManySweeps || w.Moved != 0 {
		t.Errorf("one too many: %+v", w)
	}
	for len(s.machine.Live.Running) == job.MaxSweeps {
		apply(job.Tick{})
	}
	testkit.Equal(t, apply(one).(*applied.Swept).Refusal, job.Granted, "when one has ended")
	mustCommit(t, s)
}
