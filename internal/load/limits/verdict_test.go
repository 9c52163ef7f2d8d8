package limits

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestVerdict: verdict finds each cause from the figures that show it.
func TestVerdict(t *testing.T) {
	local := func(server, load, other, share float64) Facts {
		return Facts{Seconds: 10, ServerProcessors: server, LoadProcessors: load, OtherProcessors: other, ServerMayUse: 2, LoadMayUse: 2, Local: true,
			Disk: Disk{Syncs: 1000, SyncMeanMs: 10 * share, SyncShare: share}}
	}
	remote := func(server, load, share float64) Facts {
		f := local(server, load, 0, share)
		f.Local, f.ServerMayUse = false, 8
		return f
	}
	for name, c := range map[string]struct {
		facts   Facts
		callers int
		want    Cause
		text    string
	}{
		"full processors":       {local(1.1, 0.7, 0.1, 0.3), 16, Processors, "server used 1.1 of 2 processors, the load 0.7"},
		"full with others":      {local(0.5, 0.3, 1.1, 0.3), 16, Processors, "everything else 1.1"},
		"slow disk":             {local(0.2, 0.1, 0, 0.9), 16, DiskSyncs, "90 % of the time (1000 fsyncs of 9.0 ms on average)"},
		"idle":                  {local(0.2, 0.1, 0, 0.2), 16, Unknown, "cannot be told"},
		"one caller":            {local(0.5, 0.3, 0, 0.8), 1, Waiting, "8.0 ms of 10 ms are fsyncs"},
		"a remote server":       {remote(7.5, 0.9, 0.1), 16, Server, "the server's processors: the server used 7.5 of 8"},
		"the machine with load": {remote(2, 1.9, 0.1), 16, Load, "used 1.9 of 2"},
		"a network":             {remote(2, 0.5, 0.1), 16, Unknown, "a round trip takes at least 5.0 ms"},
		"an older server":       {Facts{Seconds: 10, Local: true}, 16, Unknown, "cannot be told"},
	} {
		v := verdict(c.facts, c.callers, 1000, 5)
		testkit.Holds(t, v.Cause == c.want && strings.Contains(v.Text, c.text), name, v, "want", c.want, "with", c.text)
	}
}

// TestOthers: othersNote reports other programs only if they matter.
func TestOthers(t *testing.T) {
	busy := WorkResult{Peak: Peak{Facts: Facts{Seconds: 1, OtherProcessors: 0.8, StolenProcessors: 0.2, ServerMayUse: 2}}}
	idle := WorkResult{Peak: Peak{Facts: Facts{Seconds: 1, OtherProcessors: 0.1, ServerMayUse: 2}}}
	testkit.Contains(t, othersNote([]WorkResult{busy}), "used 0.8 of 2", "host 0.2")
	testkit.Equal(t, othersNote([]WorkResult{idle, idle}), "")
	testkit.Equal(t, othersNote(nil), "")
}
