package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestPace: a node sends at most basePace bytes in a second, also after it had nothing to send for a while.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		sends := func(bytes int, want time.Duration) {
			t.Helper()
			began := time.Now()
			for range 16 {
				p.after(bytes / 16)
			}
			testkit.Equal(t, time.Since(began), want, bytes, "bytes")
		}
		sends(basePace, time.Second)
		sends(2*basePace, 2*time.Second)
		time.Sleep(time.Minute)
		sends(basePace, time.Second)
	})
}
