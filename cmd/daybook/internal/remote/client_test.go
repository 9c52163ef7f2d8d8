package remote

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestWaits: a command that waits for the server prints the reason after a second, and then every five seconds.
func TestWaits(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1000, 0)
	log := slog.New(&waits{to: &out, now: func() time.Time { return now }})
	for range 12 {
		log.Debug("repeating a request", "attempt", 1, "error", errors.New("it is away"))
		now = now.Add(500 * time.Millisecond)
	}
	log.Debug("something else")
	line := "daybook: waiting for the server: it is away\n"
	testkit.Equal(t, out.String(), line) // at 1 s
	log.Debug("repeating a request", "error", errors.New("it is away"))
	testkit.Equal(t, out.String(), line+line) // at 6 s
}

// TestShortenedBy: a long name keeps whole characters.
func TestShortenedBy(t *testing.T) {
	for by, want := range map[string]int{"anna@host": 9, strings.Repeat("é", 70): 128, strings.Repeat("日", 50): 126} {
		got := ShortenedBy(by)
		testkit.Holds(t, len(got) == want && utf8.ValidString(got) && strings.HasPrefix(by, got), by, got)
	}
}
