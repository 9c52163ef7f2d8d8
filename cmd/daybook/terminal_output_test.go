//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// terminal returns a terminal, and a function that returns the next line on its screen.
func terminal(t *testing.T) (tty *os.File, line func() string) {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { tty.Close(); screen.Close() })
	r := bufio.NewReader(screen)
	return tty, func() string {
		t.Helper()
		text, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimRight(text, "\r\n")
	}
}

// TestLogFormat: a log on a terminal is for people, and cannot change the terminal. In a file or a pipe it is JSON.
func TestLogFormat(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for _, c := range []struct {
		format, noColour string
		isJSON, coloured bool
	}{{"auto", "", false, true}, {"auto", "yes", false, false}, {"console", "", false, true}, {"json", "", true, false}} {
		t.Setenv("NO_COLOR", c.noColour)
		tty, line := terminal(t)
		log, err := newLogger("info", c.format, tty)
		if err != nil {
			t.Fatal(err)
		}
		log.Warn().Str("field", "a\x1b]0;title\ab").Msg("text\x1b[2Jmore")
		text := line()
		if json.Valid([]byte(text)) != c.isJSON || strings.Contains(text, "\x1b[2J") || strings.Contains(text, "\x1b]0") || strings.Contains(text, "\x1b[") != c.coloured {
			t.Errorf("%+v: %q", c, text)
		}
	}
	for format, isJSON := range map[string]bool{"auto": true, "json": true, "console": false} {
		var b strings.Builder
		log, err := newLogger("info", format, &b)
		if err != nil {
			t.Fatal(err)
		}
		log.Info().Msg("text")
		if json.Valid([]byte(b.String())) != isJSON || strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: %q", format, b.String())
		}
	}
}

// TestAddOnATerminal: on a terminal, add prints in one line how much it has added. In a pipe, and with --ids, it prints
// ids.
func TestAddOnATerminal(t *testing.T) {
	s := serving(t, t.TempDir())
	one, two := written(t, "one", "a\nb\n"), written(t, "two", strings.Repeat(strings.Repeat("x", 1000)+"\n", 2000))
	run := func(tty *os.File, args ...string) {
		t.Helper()
		cmd := command(t, append([]string{"add", "--server", s.url, "--type", "t"}, args...)...)
		cmd.Stdout = tty
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	tty, line := terminal(t)
	run(tty, one)
	if text := line(); !strings.HasPrefix(text, "added 2 jobs to default/t: batch 0") {
		t.Errorf("%q", text)
	}
	run(tty, two)
	if text := line(); !strings.HasPrefix(text, "added 2000 jobs to default/t: 2 batches; the first is 0") {
		t.Errorf("%q", text)
	}
	run(tty, "--ids", two)
	for range 2 {
		if text := line(); len(text) != 36 {
			t.Errorf("%q", text)
		}
	}
	run(tty, "--json", one)
	if text := line(); !json.Valid([]byte(text)) {
		t.Errorf("%q", text)
	}
	if text := ok(t, "add", "--server", s.url, "--type", "t", one); len(strings.TrimSpace(text)) != 36 {
		t.Errorf("in a pipe: %q", text)
	}
}
