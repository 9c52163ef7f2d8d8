//go:build unix

package terminal

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestLogFormat: a log on a terminal is for people, and cannot change the terminal. In a file or a pipe it is JSON.
func TestLogFormat(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for _, c := range []struct {
		format, noColour string
		isJSON, coloured bool
	}{{"auto", "", false, true}, {"auto", "yes", false, false}, {"console", "", false, true}, {"json", "", true, false}} {
		t.Setenv("NO_COLOR", c.noColour)
		tty, line := testkit.Terminal(t)
		log := testkit.Must(NewLogger("info", c.format, tty))(t)
		log.Warn().Str("field", "a\x1b]0;title\ab").Msg("text\x1b[2Jmore")
		text := line()
		testkit.Holds(t, json.Valid([]byte(text)) == c.isJSON && !strings.Contains(text, "\x1b[2J") &&
			!strings.Contains(text, "\x1b]0") && strings.Contains(text, "\x1b[") == c.coloured, c, text)
	}
	for format, isJSON := range map[string]bool{"auto": true, "json": true, "console": false} {
		var b strings.Builder
		log := testkit.Must(NewLogger("info", format, &b))(t)
		log.Info().Msg("text")
		testkit.Holds(t, json.Valid([]byte(b.String())) == isJSON && !strings.Contains(b.String(), "\x1b"), format, b.String())
	}
}
