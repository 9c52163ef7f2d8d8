package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStateFileInUse: while an add has a state file, another one with the same file stores nothing and changes nothing in
// it, in whatever state the file is. Otherwise both would add every line, or one would remove what the other one writes.
func TestStateFileInUse(t *testing.T) {
	s := serving(t, t.TempDir())
	in, state := written(t, "in", "a\nb\n"), filepath.Join(t.TempDir(), "state")
	args := []string{"add", "--server", s.url, "--type", "twice", "--resume", state, in}
	refused := func(when string) {
		t.Helper()
		before, err := os.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		if r := execute(t, "", args...); r.code != exitDataInUse || !strings.Contains(r.errs, state) {
			t.Errorf("%s: exit code %d: %s", when, r.code, r.errs)
		}
		if after, err := os.ReadFile(state); err != nil || string(after) != string(before) {
			t.Errorf("%s: the state file is %q, %v, and was %q", when, after, err, before)
		}
	}
	first, err := openAddState(state, stateHead{Type: "x"})
	if err != nil {
		t.Fatal(err)
	}
	refused("after the first line")
	if _, err := first.f.WriteString(`{"event":"sent","at":1,`); err != nil { // the rest is still to be written
		t.Fatal(err)
	}
	if _, err := openAddState(state, first.head); !errors.Is(err, errNoteInUse) {
		t.Errorf("a second one: %v", err)
	}
	refused("within a line")
	first.close()
	if err := os.WriteFile(state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(state, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := lockNote(f); err != nil {
		t.Fatal(err)
	}
	refused("before the first line")
	if text := ok(t, "queues", "--server", s.url); strings.Contains(text, "twice") {
		t.Errorf("jobs were stored:\n%s", text)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	ok(t, args...)
	if n := s.pending(t, "default/twice"); n != 2 {
		t.Errorf("%d jobs", n)
	}
}
