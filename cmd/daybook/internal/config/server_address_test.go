package config

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestWithPort(t *testing.T) {
	for given, want := range map[string]string{
		"queue":               "queue:1717",
		"queue:80":            "queue:80",
		"queue/path":          "queue:1717/path",
		"user:secret@queue":   "user:secret@queue:1717",
		"user:secret@queue:1": "user:secret@queue:1",
		"10.0.0.1/a:b":        "10.0.0.1:1717/a:b",
		"[::1]":               "[::1]:1717",
		"[::1]:80":            "[::1]:80",
		"":                    "",
		"/path":               "/path",
	} {
		testkit.Equal(t, withPort(given), want, given, "becomes")
	}
}
