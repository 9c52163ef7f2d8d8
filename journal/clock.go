package journal

import (
	"sync"
	"time"
)

// MaxClockAhead is how far the last record may lie ahead of the wall clock before Open refuses. A day covers every
// mistake of time zones; beyond it somebody set a clock to another year, and at half speed the journal would need as
// long again to come back.
const MaxClockAhead = 24 * time.Hour

// Clock is the journal's time. It starts at max(last at, wall) and then follows the monotonic clock, steered towards
// the wall clock but never faster than twice and never slower than half the monotonic speed:
//
//	time after d = wall, held within [time before + d/2, time before + 2d]
//
// Hence it never stops and never jumps: a wall clock that is set back by an hour makes it run at half speed for two
// hours, one set forward by an hour (or a machine that slept for one) makes it go at double speed for one. Leases are
// measured in this time, so that no step of the wall clock abandons a fleet. Accept is the one way to make it jump, and
// only forward.
//
// The zero value is ready for Start. Safe for concurrent use.
type Clock struct {
	Wall func() time.Time     // nil means time.Now
	Mono func() time.Duration // since any fixed moment, never decreasing; nil means the runtime's monotonic clock

	mu   sync.Mutex
	now  int64         // unix ns, the journal's time as of mono
	mono time.Duration // the reading that now belongs to
}

var processStart = time.Now()

func (c *Clock) read() (wall int64, mono time.Duration) {
	if c.Wall != nil {
		wall = c.Wall().UnixNano()
	} else {
		wall = time.Now().UnixNano()
	}
	if c.Mono != nil {
		mono = c.Mono()
	} else {
		mono = time.Since(processStart)
	}
	return wall, mono
}

// Start sets the clock to max(last, wall); last is the unix ms of the last record.
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

// Accept sets the clock to the wall clock at once if that is later. A caller who measures leases by this clock must
// let them begin again.
func (c *Clock) Accept() {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.advance() // before c.now is read, which it moves
	c.now = max(c.now, wall)
}

// Offset returns how far the journal's time is ahead of the wall clock; negative when it is earlier.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.advance()
	return time.Duration(c.now - wall)
}

// advance moves now to this moment and returns the wall clock's reading.
func (c *Clock) advance() (wall int64) {
	wall, mono := c.read()
	if d := int64(mono - c.mono); d > 0 {
		c.now = min(max(wall, c.now+(d+1)/2), c.now+2*d)
		c.mono = mono
	}
	return wall
}
