package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/checkpoint"
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
		testkit.Equal(t, string(testkit.Must(os.ReadFile(state))(t)), string(before), when, "the state file")
	}
	first := testkit.Must(checkpoint.OpenAdd(state, checkpoint.Head{Type: "x"}))(t)
	refused("after the first line")
	testkit.NoError(t, os.WriteFile(state, append(testkit.Must(os.ReadFile(state))(t), `{"event":"sent","at":1,`...), 0o600)) // an incomplete line
	testkit.Fails(checkpoint.OpenAdd(state, first.Head))(t, filelock.ErrLocked)                                               // a second one
	refused("within a line")
	first.Close()
	testkit.NoError(t, os.WriteFile(state, nil, 0o600))
	f := testkit.Must(os.OpenFile(state, os.O_RDWR, 0))(t)
	testkit.NoError(t, filelock.Lock(f))
	refused("before the first line")
	testkit.Lacks(t, ok(t, "queues", "--server", s.url), "twice")
	testkit.NoError(t, f.Close())
	ok(t, args...)
	testkit.Equal(t, s.pending(t, "default/twice"), 2)
}
