package wasi

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestClock: a paused clock does not count, and cannot be paused for ever.
func TestClock(t *testing.T) {
	const timeout = 10 * time.Second
	for name, c := range map[string]struct {
		use  func(c *clock)
		ends time.Duration // 0: it does not end
	}{
		"nothing": {func(*clock) {}, timeout},
		"stop":    {func(c *clock) { time.Sleep(time.Second); c.stop() }, 0},
		"pause":   {func(c *clock) { time.Sleep(time.Second); c.pause(); time.Sleep(5 * time.Second); c.resume() }, timeout + 5*time.Second},
		"two pauses": {func(c *clock) {
			c.pause()
			time.Sleep(2 * time.Second)
			c.resume()
			c.pause()
			time.Sleep(time.Second)
			c.resume()
		}, timeout + 3*time.Second},
		"long pause":  {func(c *clock) { c.pause(); time.Sleep(20 * time.Second); c.resume() }, timeout + 20*time.Second},
		"stop paused": {func(c *clock) { c.pause(); c.stop(); c.resume() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Int64
				began := time.Now()
				run := newClock(timeout, func() { ended.Store(int64(time.Since(began))) })
				c.use(run)
				time.Sleep(time.Minute)
				testkit.Equal(t, time.Duration(ended.Load()), c.ends, "it ended after")
				testkit.Holds(t, run.stop() != (c.ends > 0), "stop reports the opposite")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		run := newClock(timeout, func() {})
		defer run.stop()
		for _, want := range []time.Duration{timeout, 6 * time.Second, 2 * time.Second, 0} {
			testkit.Equal(t, run.pause(), want, "it may be paused for")
			time.Sleep(4 * time.Second)
			run.resume()
		}
	})
}
