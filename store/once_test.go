package store

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestKeysAreForgotten: a repeat within a day gets the first answer. Later it is a new request, and the rows of the key
// are deleted.
func TestKeysAreForgotten(t *testing.T) {
	s := mustOpen(t, Options{})
	once := job.Once{Scope: "create a", Key: "k", Digest: job.Digest{1}}
	create := plainCreate("a", "x", 2, 3)
	create.Once = once
	first := mustApply(t, s, 1, 0, create).(*applied.Made)
	again := mustApply(t, s, 2, job.KeyLifeMs-1, create).(*applied.Made)
	if !again.Replayed || again.Batch != first.Batch || again.Lines != 2 {
		t.Errorf("again: %+v, first %+v", again, first)
	}
	other := plainCreate("a", "x", 2, 3)
	other.Once = once
	other.Once.Digest = job.Digest{2}
	testkit.Equal(t, mustApply(t, s, 3, job.KeyLifeMs-1, other).(*applied.Made).Refusal, job.KeyReused, "another request")
	if made, err := s.MadeBefore(&once, startAt+1); err != nil || made != nil {
		t.Errorf("before the commit: %+v, %v", made, err)
	}
	mustCommit(t, s)
	if made, err := s.MadeBefore(&once, startAt+1); err != nil || made == nil || made.Batch != first.Batch {
		t.Errorf("after the commit: %+v, %v", made, err)
	}
	if made, err := s.MadeBefore(&once, startAt+job.KeyLifeMs); err != nil || made != nil {
		t.Errorf("a day later: %+v, %v", made, err)
	}
	if got := mustApply(t, s, 4, job.KeyLifeMs, create).(*applied.Made); got.Replayed {
		t.Errorf("a day later: %+v", got)
	}
	mustCommit(t, s)
	testkit.Equal(t, s.Totals().Keys, 2)
	for seq := uint64(5); seq < 10; seq++ { // the first generation is deleted, the second one stays
		mustApply(t, s, seq, 2*job.KeyLifeMs-1, job.Tick{})
	}
	mustCommit(t, s)
	testkit.Equal(t, s.Totals().Keys, 1)
}
