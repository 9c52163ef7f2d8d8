package main

import (
	"math"
	"runtime/debug"
	"testing"
)

// TestBallast: there is ballast, unless GOGC is set or the memory limit is small.
func TestBallast(t *testing.T) {
	t.Cleanup(func() { ballast = nil })
	for name, c := range map[string]struct {
		gogc  string
		limit int64
		want  int
	}{
		"no limit":                  {"", math.MaxInt64, ballastBytes},
		"the least limit":           {"", ballastLimit, ballastBytes},
		"a limit of one byte less":  {"", ballastLimit - 1, 0},
		"a setting of the operator": {"100", math.MaxInt64, 0},
	} {
		t.Setenv("GOGC", c.gogc)
		ballast = nil
		if delayCollections(c.limit); len(ballast) != c.want {
			t.Errorf("%s: %d bytes, want %d", name, len(ballast), c.want)
		}
	}
}

// TestMemoryLimit: the soft limit counts, if that of a container is not lower.
func TestMemoryLimit(t *testing.T) {
	old := debug.SetMemoryLimit(64 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(old) })
	if got := memoryLimit(); got > 64<<20 || got <= 0 {
		t.Errorf("%d bytes", got)
	}
}
