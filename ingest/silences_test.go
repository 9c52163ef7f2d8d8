package ingest

import (
	"fmt"
	"testing"
)

// TestSilences: each silence of a runner changes its number, and wakes what waits for the runner, also when there are more
// runners than are remembered.
func TestSilences(t *testing.T) {
	s := newSilences()
	before := s.of("r")
	other := s.of("other")
	woken, stop := s.watch("r", before)
	defer stop()
	ended, stopEnded := s.watch("r", before)
	stopEnded()
	s.note([]string{"r", "x"})
	select {
	case <-woken:
	default:
		t.Error("what waits for a runner that has proved silent is not woken")
	}
	select {
	case <-ended:
		t.Error("what had ended is woken")
	default:
	}
	if s.of("r") == before || s.of("other") != other {
		t.Errorf("the numbers are %d and %d, and were %d and %d", s.of("r"), s.of("other"), before, other)
	}
	late, stopLate := s.watch("r", before)
	stopLate()
	select {
	case <-late:
	default:
		t.Error("a wait that began before the silence is not woken")
	}
	last := s.of("r")
	for i := range 3 * maxSilences {
		s.note([]string{fmt.Sprint("runner ", i)})
		if len(s.runners) > maxSilences {
			t.Fatalf("%d runners are remembered", len(s.runners))
		}
	}
	if now := s.of("r"); now < last || s.of("runner 0") == 0 {
		t.Errorf("the number of a forgotten runner went from %d to %d", last, now)
	}
	if len(s.parked) != 0 {
		t.Errorf("%d runners are waited for", len(s.parked))
	}
}
