package ingest

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestSilences: each silence of a runner changes its number, ends the runner's earlier claims, and reports when all of
// them are answered, even if there are more runners than are remembered.
func TestSilences(t *testing.T) {
	s := newSilences()
	before, other := s.number("r"), s.number("other")
	waiting, alsoWaiting, ofOther := s.begin("r"), s.begin("r"), s.begin("other")
	s.answer(s.begin("r"))
	testkit.Holds(t, !waiting.isSilent(), "the claims of a runner end although it is not silent")
	answered := s.note("r")
	if !waiting.isSilent() || !alsoWaiting.isSilent() || ofOther.isSilent() {
		t.Error("the claims of another runner end, or those of the silent one do not")
	}
	if s.number("r") == before || s.number("other") != other {
		t.Errorf("the numbers are %d and %d, and were %d and %d", s.number("r"), s.number("other"), before, other)
	}
	later := s.begin("r") // of a client that has shown life
	testkit.Holds(t, !later.isSilent(), "a claim ends that began after the silence")
	s.answer(waiting)
	testkit.Holds(t, !isClosed(answered), "two claims were under way, and one answer counts for both")
	if s.answer(alsoWaiting); !isClosed(answered) {
		t.Error("all claims before the silence are answered, and it does not say so")
	}
	s.answer(later)
	testkit.Holds(t, isClosed(s.note("nobody")), "a runner without claims has unanswered ones")

	// A second silence also waits for the claims before the first, but not for later claims.
	first, second := s.begin("twice"), (*runnerClaims)(nil)
	s.note("twice")
	second = s.begin("twice")
	answered = s.note("twice")
	third := s.note("twice") // no claim began in between
	after := s.begin("twice")
	s.answer(second)
	if isClosed(answered) || isClosed(third) {
		t.Error("a claim from before the first of several silences is under way, and a later one does not wait for it")
	}
	if s.answer(first); !isClosed(answered) || !isClosed(third) {
		t.Error("all claims before several silences are answered, and the last one does not say so")
	}
	s.answer(after)

	last := s.number("r")
	for i := range 3 * maxSilences {
		s.note(fmt.Sprint("runner ", i))
		s.answer(s.begin(fmt.Sprint("client ", i)))
		if len(s.runners) > maxSilences || len(s.claims) > maxSilences+1 {
			t.Fatalf("%d silences and the claims of %d runners are remembered", len(s.runners), len(s.claims))
		}
	}
	now := s.number("r")
	testkit.Holds(t, now >= last && s.number("runner 0") != 0, "the number of a forgotten runner went from", last, "to", now)
	s.note("other")
	testkit.Holds(t, ofOther.isSilent(), "a claim that still waits is forgotten")
	s.answer(ofOther)
}
