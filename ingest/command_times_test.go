package ingest

import (
	"maps"
	"testing"
	"time"
)

// TestCommandTimes: the times of each verb are added up, and counted by their length.
func TestCommandTimes(t *testing.T) {
	var e Engine
	if got := e.CommandTimes(); len(got) != 0 {
		t.Errorf("%v before the first command", got)
	}
	e.counters.commands.add("claim", 3*time.Millisecond)
	e.counters.commands.add("tick", time.Second)
	e.counters.commands.add("claim", 5*time.Millisecond)
	e.counters.commands.add("claim", time.Millisecond)
	want := map[string]CommandTimes{"claim": {3, 9 * time.Millisecond, [...]uint64{1, 3, 3, 3, 3, 3}}, "tick": {1, time.Second, [...]uint64{0, 0, 0, 0, 1, 1}}}
	if got := e.CommandTimes(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
