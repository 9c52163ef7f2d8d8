package memory

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestDelayCollections: there is ballast, unless GOGC is set or the memory limit is small. Without a limit, GOGC bounds the
// garbage of a large heap.
func TestDelayCollections(t *testing.T) {
	old := debug.SetGCPercent(100)
	t.Cleanup(func() { ballast = nil; debug.SetGCPercent(old) })
	for name, c := range map[string]struct {
		gogc          string
		limit         int64
		ballast, want int
	}{
		"no limit":                  {"", math.MaxInt64, unlimitedBallast, unlimitedGOGC},
		"the least limit":           {"", ballastLimit, ballastBytes, 100},
		"a limit of one byte less":  {"", ballastLimit - 1, 0, 100},
		"a setting of the operator": {"100", math.MaxInt64, 0, 100},
	} {
		t.Setenv("GOGC", c.gogc)
		ballast = nil
		DelayCollections(c.limit)
		got := debug.SetGCPercent(100)
		testkit.Holds(t, len(ballast) == c.ballast && got == c.want, name, "ballast of", len(ballast), "bytes and GOGC", got, c.ballast, c.want)
	}
}

// TestMemoryLimit: the soft limit counts, unless the container's limit is lower.
func TestMemoryLimit(t *testing.T) {
	old := debug.SetMemoryLimit(64 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(old) })
	got := Limit()
	testkit.Holds(t, got <= 64<<20 && got > 0, got, "bytes")
}
