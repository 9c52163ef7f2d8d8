package remote

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
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
	if out.String() != line { // at 1 s
		t.Errorf("%q", out.String())
	}
	log.Debug("repeating a request", "error", errors.New("it is away"))
	if out.String() != line+line { // at 6 s
		t.Errorf("%q", out.String())
	}
}
