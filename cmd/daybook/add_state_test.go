package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestStateFileInUse: while an add has a state file, a second add with the same file stores nothing and does not change
// it, in whatever state the file is. Otherwise both would add every line, or one would remove lines that the other
// writes.
func TestStateFileInUse(t *testing.T) {
	s := serving(t, t.TempDir())
	in, state := written(t, "in", "a\nb\n"), filepath.Join(t.TempDir(), "state")
	args := []string{"add", "--server", s.url, "--type", "twice", "--resume", state, in}
	refused := func(when string) {
		t.Helper()
		before := testkit.Must(os.ReadFile(state))(t)
		execute(t, "", args...).ends(t, terminal.ExitDataInUse, state)
		if after, err := os.ReadFile(state); err != nil || string(after) != string(before) {
			t.Errorf("%s: the state file is %q, %v, and was %q", when, after, err, before)
		}
	}
	first := testkit.Must(openAddState(state, stateHead{Type: "x"}))(t)
	refused("after the first line")
	testkit.Must(first.f.WriteString(`{"event":"sent","at":1,`))(t)       // an incomplete line
	testkit.Fails(openAddState(state, first.head))(t, filelock.ErrLocked) // a second one
	refused("within a line")
	first.close()
	testkit.NoError(t, os.WriteFile(state, nil, 0o600))
	f := testkit.Must(os.OpenFile(state, os.O_RDWR, 0))(t)
	testkit.NoError(t, filelock.Lock(f))
	refused("before the first line")
	testkit.Lacks(t, ok(t, "queues", "--server", s.url), "twice")
	testkit.NoError(t, f.Close())
	ok(t, args...)
	testkit.Equal(t, s.pending(t, "default/twice"), 2)
}

// TestBodyOfADayAgo: add checks a body that was sent without an answer again just before it would send it, which may be
// hours after it opened the file. It sends the body again only with --unknown repeat.
func TestBodyOfADayAgo(t *testing.T) {
	lines := []byte("a\n")
	b := client.AddedBody{Offset: 0, Bytes: len(lines)}
	for _, c := range []struct {
		name    string
		unknown string
		later   time.Duration
		refused bool
	}{
		{"a young one", "", addKeyAge - time.Minute, false},
		{"an old one", "", addKeyAge + time.Second, true},
		{"an old one with skip", unknownSkip, addKeyAge + time.Second, true}, // it was not old when the bodies were skipped
		{"an old one with repeat", unknownRepeat, addKeyAge + time.Second, false},
		{"one of the future", "", -2 * time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			s := testkit.Must(openAddState(path, stateHead{}))(t)
			testkit.NoError(t, s.body(b, lines))
			s.close()
			s = testkit.Must(openAddState(path, stateHead{}))(t)
			defer s.close()
			s.repeat = c.unknown == unknownRepeat
			if _, forgotten := s.resumed(); len(forgotten) > 0 {
				t.Fatalf("it is old at the start: %v", forgotten)
			}
			now := time.Now().Add(c.later)
			s.now = func() time.Time { return now }
			err := s.body(b, lines)
			if isUnknown := errors.Is(err, client.ErrUnknown); isUnknown != c.refused || err != nil && !c.refused {
				t.Errorf("%v", err)
			}
			sent := 0
			for _, l := range stateOf(t, path) {
				if l.Event == "sent" {
					sent++
				}
			}
			testkit.Equal(t, sent, map[bool]int{true: 2, false: 1}[s.repeat], "the file says that it")
		})
	}
}
