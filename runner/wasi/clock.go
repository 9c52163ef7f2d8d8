package wasi

import (
	"sync"
	"time"
)

// clock is the time of a run. It is stopped while a request of the guest waits for its turn, because requests of other guests
// are under way.
type clock struct {
	mu    sync.Mutex
	timer *time.Timer
	state clockState
	since time.Time     // of the state, for running and paused
	left  time.Duration // at that time
	spare time.Duration // how long the clock may still be paused
}

type clockState int

const (
	running clockState = iota
	paused
	over // end was called, or is called now
	stopped
)

// newClock starts a clock. end is called when the time is over. All pauses together are as long as the time-out, at most.
func newClock(timeout time.Duration, end func()) *clock {
	c := &clock{since: time.Now(), left: timeout, spare: timeout}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(timeout, func() {
		c.mu.Lock()
		if c.state != running {
			c.mu.Unlock()
			return
		}
		c.state = over
		c.mu.Unlock()
		end()
	})
	return c
}

// pause stops the clock until resume is called. It returns how long that may take, at most.
func (c *clock) pause() (most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != running {
		return 0
	}
	now := time.Now()
	c.timer.Stop()
	c.left -= now.Sub(c.since)
	c.state, c.since = paused, now
	return max(c.spare, 0)
}

// resume lets a paused clock go on.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != paused {
		return
	}
	now := time.Now()
	c.spare -= now.Sub(c.since)
	c.state, c.since = running, now
	c.timer.Reset(max(c.left, 0))
}

// stop ends the clock. It reports false if the time is over: end was called, or is called now.
func (c *clock) stop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == over {
		return false
	}
	c.state = stopped
	c.timer.Stop()
	return true
}
