package ingest

import (
	"maps"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestCommandTimes: the times of each verb are added up, and counted by their length.
func TestCommandTimes(t *testing.T) {
	var e Engine
	testkit.Equal(t, len(e.CommandTimes()), 0, "before the first command")
	e.counters.commands.add("claim", 3*time.Millisecond)
	e.counters.commands.add("tick", time.Second)
	e.counters.commands.add("claim", 5*time.Millisecond)
	e.counters.commands.add("claim", time.Millisecond)
	want := map[string]CommandTimes{"claim": {3, 9 * time.Millisecond, [...]uint64{1, 3, 3, 3, 3, 3}}, "tick": {1, time.Second, [...]uint64{0, 0, 0, 0, 1, 1}}}
	got := e.CommandTimes()
	testkit.Holds(t, maps.Equal(got, want), got, "want", want)
}
