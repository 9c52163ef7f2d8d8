package main

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestDemo: the short form of the demo loses nothing, with a single server and with three nodes.
func TestDemo(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		var said strings.Builder
		d := demo{posted: minLines, cluster: cluster, out: &said}
		testkit.NoError(t, d.check())
		testkit.NoError(t, d.run(t.Context()), said.String())
		accounts := strings.Count(said.String(), "10000 completed, ")
		want, how := 1, "3 kills with SIGKILL"
		if cluster {
			want, how = nodes, "each of 3 nodes killed with SIGKILL, and one wiped"
		}
		testkit.Equal(t, accounts, want, said.String())
		testkit.Contains(t, said.String(), how, "\n0 lost, doubled or wrong\n")
	}
	err := (&demo{posted: minLines - 1}).check()
	testkit.Holds(t, err != nil, "a demo of fewer lines is not refused")
}
