package journal

import (
	"sync"
	"time"
)

// MaxClockAhead bounds how far the last record may be ahead of the wall clock; Open refuses a larger difference. A day
// covers every time zone mistake. A larger difference means that a clock was set to a wrong date. Journal time runs at
// half speed while it is ahead, so the wall clock would need twice the difference to catch up.
const MaxClockAhead = 24 * time.Hour

// Clock is the journal's time. It starts at the time of the last record, or at the wall clock if that is later. Then it
// follows the wall clock, but it advances at least half as fast and at most twice as fast as the monotonic clock:
//
//	time after d = wall clock, but at least time before + d/2 and at most time before + 2d
//
// So it never stops and never jumps. If the wall clock is set back by an hour, journal time runs at half speed for two
// hours. If the wall clock is set forward by an hour, or the machine slept for an hour, journal time runs at double speed
// for an hour. Leases are measured in journal time, so a step of the wall clock does not end the leases of all runners.
// Only Accept makes journal time jump, and only forward.
//
// The zero value is ready for Start. A Clock is safe for concurrent use.
type Clock struct {
	Wall func() time.Time     // nil means time.Now
	Mono func() time.Duration // time since a fixed moment, never decreasing; nil means the monotonic clock of Go's runtime

	mu   sync.Mutex    // guards the fields below
	now  int64         // the journal's time when Mono returned mono, unix ns
	mono time.Duration // the last reading of Mono
}

var processStart = time.Now()

// read reads both clocks at the same time. A busy machine may suspend the process between the two readings; read then
// tries again. An old reading of the wall clock would leave journal time too early for a while, and then make it run at
// double speed, so that delays would end too soon.
func (c *Clock) read() (wall int64, mono time.Duration) {
	for range 10 {
		before := c.readMono()
		if c.Wall != nil {
			wall = c.Wall().UnixNano()
		} else {
			wall = time.Now().UnixNano()
		}
		if mono = c.readMono(); mono-before < time.Millisecond {
			break
		}
	}
	return wall, mono
}

func (c *Clock) readMono() time.Duration {
	if c.Mono != nil {
		return c.Mono()
	}
	return time.Since(processStart)
}

// Start sets the clock to last, the time of the last record in unix ms, or to the wall clock if that is later.
func (c *Clock) Start(last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.read()
	c.now, c.mono = max(last*int64(time.Millisecond), wall), mono
}

// Now returns the journal's time in unix ms; it never decreases.
func (c *Clock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	return c.now / int64(time.Millisecond)
}

// Accept sets the clock to the wall clock if the wall clock is later. A caller that measures leases by this clock must
// then give all leases their full length again.
func (c *Clock) Accept() {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.advance()
	c.now = max(c.now, wall)
}

// Offset returns how far the journal's time is ahead of the wall clock. It is negative if the journal's time is
// earlier.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.advance()
	return time.Duration(c.now - wall)
}

// advance sets now to the current time of the journal and returns the wall clock. The caller holds c.mu.
func (c *Clock) advance() (wall int64) {
	wall, mono := c.read()
	if d := int64(mono - c.mono); d > 0 {
		c.now = min(max(wall, c.now+(d+1)/2), c.now+2*d)
		c.mono = mono
	}
	return wall
}
