//go:build unix

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestAddOnATerminal: on a terminal, add prints in one line how much it has added. In a pipe, and with --ids, it prints
// ids.
func TestAddOnATerminal(t *testing.T) {
	s := serving(t, t.TempDir())
	one, two := written(t, "one", "a\nb\n"), written(t, "two", strings.Repeat(strings.Repeat("x", 1000)+"\n", 2000))
	run := func(tty *os.File, args ...string) {
		t.Helper()
		cmd := command(append([]string{"add", "--server", s.url, "--type", "t"}, args...)...)
		cmd.Stdout = tty
		testkit.NoError(t, cmd.Run())
	}
	tty, line := testkit.Terminal(t)
	run(tty, one)
	text := line()
	testkit.Holds(t, strings.HasPrefix(text, "added 2 jobs to default/t: batch 0"), text)
	run(tty, two)
	text = line()
	testkit.Holds(t, strings.HasPrefix(text, "added 2000 jobs to default/t: 2 batches; the first is 0"), text)
	run(tty, "--ids", two)
	for range 2 {
		testkit.Equal(t, len(line()), 36)
	}
	run(tty, "--json", one)
	text = line()
	testkit.Holds(t, json.Valid([]byte(text)), text)
	testkit.Equal(t, len(strings.TrimSpace(ok(t, "add", "--server", s.url, "--type", "t", one))), 36, "in a pipe")
}
