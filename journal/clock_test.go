package journal

import (
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// fakeClock is a Clock with a wall clock and a monotonic clock that a test sets separately.
type fakeClock struct {
	Clock
	wall time.Time
	mono time.Duration
}

func newFakeClock() *fakeClock {
	f := &fakeClock{wall: time.UnixMilli(1_000_000_000)}
	f.Wall = func() time.Time { return f.wall }
	f.Mono = func() time.Duration { return f.mono }
	return f
}

// pass advances both clocks by d.
func (f *fakeClock) pass(d time.Duration) {
	f.wall = f.wall.Add(d)
	f.mono += d
}

func TestClock(t *testing.T) {
	t.Run("follows the wall clock", func(t *testing.T) {
		f := newFakeClock()
		f.Start(5)
		for range 100 {
			f.pass(7 * time.Millisecond)
			if got := f.Now(); got != f.wall.UnixMilli() || f.Offset() != 0 {
				t.Fatal(got, f.wall.UnixMilli(), f.Offset())
			}
		}
	})
	t.Run("stopped after it has read the wall clock", func(t *testing.T) {
		f := newFakeClock()
		f.Start(5)
		f.pass(time.Second)
		wall, stopped := f.Wall, false
		f.Wall = func() time.Time {
			read := wall()
			if !stopped {
				stopped = true
				f.pass(90 * time.Millisecond)
			}
			return read
		}
		if got := f.Now(); got != f.wall.UnixMilli() || f.Offset() != 0 {
			t.Error(got, f.wall.UnixMilli(), f.Offset())
		}
	})
	t.Run("begins at the last record", func(t *testing.T) {
		f := newFakeClock()
		last := f.wall.UnixMilli() + 60_000
		f.Start(last)
		if f.Now() != last || f.Offset() != time.Minute {
			t.Fatal(f.Now(), f.Offset())
		}
	})
	t.Run("ahead at half speed, never zero", func(t *testing.T) {
		f := newFakeClock()
		last := f.wall.UnixMilli() + 60_000
		f.Start(last)
		f.pass(60 * time.Second)
		if f.Now() != last+30_000 || f.Offset() != 30*time.Second {
			t.Fatal(f.Now()-last, f.Offset())
		}
		f.pass(60 * time.Second)
		testkit.MustEqual(t, f.Offset(), 0)
		f.pass(10 * time.Second)
		testkit.MustEqual(t, f.Now(), f.wall.UnixMilli(), "overshot", f.Offset())
		// The smallest steps behave in the same way.
		f.Start(f.wall.UnixMilli() + 1000)
		before := f.Offset()
		for range 1000 {
			f.pass(10)
			f.Now()
		}
		testkit.MustEqual(t, f.Offset()-before, -5000)
	})
	t.Run("set back", func(t *testing.T) {
		f := newFakeClock()
		f.Start(0)
		start := f.Now()
		f.wall = f.wall.Add(-time.Hour)
		for last := start; f.Offset() > 0; last = f.Now() {
			f.pass(time.Second)
			got := f.Now()
			testkit.MustHold(t, got >= last && got <= last+1000, got-last)
		}
		testkit.MustEqual(t, f.mono, 2*time.Hour, "caught up after")
	})
	t.Run("set forward, at most double", func(t *testing.T) {
		f := newFakeClock()
		f.Start(0)
		f.wall = f.wall.Add(time.Hour)
		last := f.Now()
		for f.Offset() < 0 {
			f.pass(time.Second)
			got := f.Now()
			testkit.MustHold(t, got >= last && got <= last+2000, got-last)
			last = got
		}
		testkit.MustEqual(t, f.mono, time.Hour, "caught up after")
	})
	t.Run("accept does not go back", func(t *testing.T) {
		f := newFakeClock()
		f.Start(0)
		start := f.Now()
		f.wall = f.wall.Add(-time.Hour)
		f.pass(time.Minute)
		f.Accept()
		testkit.MustEqual(t, f.Now()-start, 30_000) // the same as without Accept, because the clock is ahead of the wall clock
	})
	t.Run("does not advance while no time passes", func(t *testing.T) {
		f := newFakeClock()
		f.Start(0)
		now := f.Now()
		f.wall = f.wall.Add(time.Hour)
		if f.Now() != now || f.Offset() != -time.Hour {
			t.Fatal(f.Now()-now, f.Offset())
		}
	})
	t.Run("the zero value uses the clocks of the machine", func(t *testing.T) {
		var c Clock
		c.Start(0)
		d := time.Since(time.UnixMilli(c.Now()))
		testkit.MustHold(t, d >= -time.Second && d <= time.Minute, d) // real time: c reads the clock of the machine
	})
}
