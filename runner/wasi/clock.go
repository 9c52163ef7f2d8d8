package wasi

import (
	"sync"
	"time"
)

// clock enforces the time-out of a run. It is paused while a request of the guest waits for requests of other guests.
type clock struct {
	mu    sync.Mutex
	timer *time.Timer
	state clockState
	since time.Time     // when the state began, if running or paused
	left  time.Duration // time left at since
	spare time.Duration // time for which the clock may still be paused
}

type clockState int

const (
	running clockState = iota
	paused
	over // end was called, or is about to be called
	stopped
)

// newClock starts a clock, which calls end at the time-out. All its pauses together last at most as long as the time-out.
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

// pause stops the clock until resume is called. It returns the longest time for which the clock may be paused.
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

// resume starts a paused clock again.
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

// stop stops the clock for good. It returns false if the time is over: end was called, or is about to be called.
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
