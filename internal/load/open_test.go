package load

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// fixed returns an Open whose sender sleeps on the clock of the test.
func fixed(rate float64, length time.Duration, underWay int) Open {
	return Open{Rate: rate, For: length, UnderWay: underWay, sleep: time.Sleep}
}

// stalling is a server that answers within a millisecond, except during a stall.
type stalling struct {
	start      time.Time
	from, till time.Duration
	turn       chan struct{} // one call at a time; a mutex would block the test's clock
}

func (s *stalling) call() {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if now := time.Since(s.start); now >= s.from && now < s.till { // fake time: every caller is in a bubble
		time.Sleep(s.till - now) // fake time: every caller is in a bubble
	}
	time.Sleep(time.Millisecond) // fake time: every caller is in a bubble
}

// TestStallIsNotOmitted: a server stalls for 200 ms within 10 s. A closed loop with one caller has one slow call among
// thousands, so its p99 does not show the stall. An open loop has an arrival every 10 ms, and all arrivals during the
// stall have waited.
func TestStallIsNotOmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := stalling{start: time.Now(), from: 5 * time.Second, till: 5200 * time.Millisecond, turn: make(chan struct{}, 1)}
		closed := testkit.Must(Closed{Callers: 1, For: 10 * time.Second}.Run(t.Context(), func(context.Context, int) (bool, error) {
			server.call()
			return true, nil
		}))(t)
		if s := closed.Latencies.Summary(); s.P99 > 2 || s.Max < 199 {
			t.Errorf("closed loop: %+v", s)
		}
		server = stalling{start: time.Now(), from: 5 * time.Second, till: 5200 * time.Millisecond, turn: make(chan struct{}, 1)}
		for _, underWay := range []int{1, 4, 100} { // with few, the arrivals wait before they are sent
			server.start = time.Now()
			open := testkit.Must(fixed(100, 10*time.Second, underWay).Run(t.Context(), func(context.Context, Arrival) error {
				server.call()
				return nil
			}))(t)
			s := open.Latencies.Summary()
			if open.Due != 1000 || open.Done != 1000 || s.Count != 1000 || open.Unsent != 0 || !open.KeptUp(10*time.Second) {
				t.Errorf("%d under way: %+v", underWay, open)
			}
			// 20 of 1000 arrivals were due during the stall. The tenth of them waited for 100 ms.
			if s.P50 > 2 || s.P99 < 90 || s.Max < 199 || s.Max > 230 {
				t.Errorf("%d under way: %+v", underWay, s)
			}
			if len(open.Stalls) != 1 || open.Stalls[0].Start != 5*time.Second || open.Stalls[0].Calls < 14 || open.Stalls[0].Longest < 199*time.Millisecond || open.Stalls[0].Length > 250*time.Millisecond {
				t.Errorf("%d under way: stalls %+v", underWay, open.Stalls)
			}
		}
	})
}

// TestTooSlow: a server that answers 50 calls a second cannot keep up with 100. Calls that are never sent are reported,
// and count with the time that they waited.
func TestTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := testkit.Must(fixed(100, 10*time.Second, 1).Run(t.Context(), func(context.Context, Arrival) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		}))(t)
		if open.Due != 1000 || open.Done < 499 || open.Done > 501 || open.Unsent != 1000-open.Done || open.MostBehind < 499 || open.KeptUp(10*time.Second) {
			t.Errorf("%+v", open)
		}
		if s := open.Latencies.Summary(); s.Count != 1000 || s.P50 < 2400 || s.P50 > 2600 {
			t.Errorf("%+v", s)
		}
		if s := open.Lateness.Summary(); s.Count != 1000 || s.P99 < 4800 {
			t.Errorf("lateness %+v", s)
		}
	})
}

// TestOpenErrors: failed calls are counted, with the first error. Calls that do not end are cancelled. A cancelled load
// ends.
func TestOpenErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no")
		open, err := fixed(10, time.Second, 2).Run(t.Context(), func(_ context.Context, a Arrival) error {
			if a.N%2 == 1 {
				return failure
			}
			return nil
		})
		if err != nil || open.Failed != 5 || open.Done != 5 || !errors.Is(open.Err, failure) || open.KeptUp(time.Second) {
			t.Errorf("%+v, %v", open, err)
		}

		hangs := fixed(10, time.Second, 2)
		hangs.Patience = 3 * time.Second
		open, err = hangs.Run(t.Context(), func(ctx context.Context, _ Arrival) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != nil || open.Failed != 2 || open.Unsent != 8 || !errors.Is(open.Err, errPatience) || open.Took != 4*time.Second {
			t.Errorf("%+v, %v", open, err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		open, err = fixed(10, time.Minute, 2).Run(ctx, func(ctx context.Context, _ Arrival) error { return ctx.Err() })
		if !errors.Is(err, context.DeadlineExceeded) || open.Due > 14 || open.Took > 2*time.Second {
			t.Errorf("%+v, %v", open, err)
		}
	})
	for _, o := range []Open{{Rate: 0, For: 1, UnderWay: 1}, {Rate: maxRate + 1, For: 1, UnderWay: 1}, {Rate: 1, UnderWay: 1}, {Rate: 1, For: 1}} {
		if _, err := o.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "must be") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, c := range []Closed{{For: 1}, {Callers: 1}} {
		if _, err := c.Run(t.Context(), nil); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// TestClosed: callers stop when the time is over, after Most calls, at the first error, and when there is no more work.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := func(context.Context, int) (bool, error) { time.Sleep(10 * time.Millisecond); return true, nil }
		if r, err := (Closed{Callers: 4, For: time.Second}).Run(t.Context(), call); err != nil || r.Calls != 400 || r.Took != time.Second || r.PerSecond() != 400 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := (Closed{Callers: 4, For: time.Second, Most: 10}).Run(t.Context(), call); err != nil || r.Calls != 10 {
			t.Errorf("%+v, %v", r, err)
		}
		var n atomic.Int64
		r, err := Closed{Callers: 2, For: time.Second}.Run(t.Context(), func(context.Context, int) (bool, error) {
			time.Sleep(time.Millisecond) // fake time: every caller is in a bubble
			return n.Add(1) <= 20, nil
		})
		if err != nil || r.Calls != 20 {
			t.Errorf("%+v, %v", r, err)
		}
		failure := errors.New("no")
		if _, err := (Closed{Callers: 2, For: time.Second}).Run(t.Context(), func(context.Context, int) (bool, error) { return true, failure }); !errors.Is(err, failure) {
			t.Error(err)
		}
	})
}

// TestLatencies: quantiles are right within a thousandth. A duration above the bound counts.
func TestLatencies(t *testing.T) {
	l := NewLatencies()
	for i := range 1000 {
		l.Add(time.Duration(i+1) * time.Millisecond)
	}
	s := l.Summary()
	for _, c := range [][2]float64{{s.P50, 500}, {s.P90, 900}, {s.P99, 990}, {s.P999, 999}, {s.Max, 1000}} {
		if c[0] < c[1]*0.999 || c[0] > c[1]*1.001 {
			t.Errorf("%+v", s)
		}
	}
	if got := l.Percentiles([]float64{50, 100}); got[0] < 499 || got[1] < 999 {
		t.Error(got)
	}
	l.Add(0)
	l.Add(time.Hour)
	if s := l.Summary(); s.Count != 1002 || s.Max != 3_600_000 {
		t.Errorf("%+v", s)
	}
}

// TestTimeline: slots whose waits overlap are one stall.
func TestTimeline(t *testing.T) {
	line := newTimeline(time.Second)
	line.add(100*time.Millisecond, 60*time.Millisecond)
	line.add(120*time.Millisecond, 100*time.Millisecond) // until 220
	line.add(200*time.Millisecond, 40*time.Millisecond)  // too short for a stall
	line.add(900*time.Millisecond, 51*time.Millisecond)
	line.add(2*time.Second, 55*time.Millisecond) // counts for the last slot
	want := []Stall{{100 * time.Millisecond, 120 * time.Millisecond, 100 * time.Millisecond, 2}, {900 * time.Millisecond, 51 * time.Millisecond, 51 * time.Millisecond, 1}, {time.Second, 55 * time.Millisecond, 55 * time.Millisecond, 1}}
	got := line.stalls()
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

// TestDisk: appends are timed, and the file is deleted.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	n := 0
	if err := (Disk{Dir: dir, For: 20 * time.Millisecond}).Run(t.Context(), func(s Sync) {
		if n++; s.Took <= 0 {
			t.Errorf("%+v", s)
		}
	}); err != nil || n == 0 {
		t.Error(n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	testkit.Check(t, (Disk{Dir: dir}).Run(ctx, func(Sync) { cancel() }))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := (Disk{Dir: dir + "/none"}).Run(t.Context(), nil); err == nil {
		t.Error("a directory that does not exist is accepted")
	}
}

// TestMachine: the functions return plausible processor times.
func TestMachine(t *testing.T) {
	if own, err := Own(); err != nil || own <= 0 {
		t.Error(own, err)
	}
	before, err := ReadProcessors()
	if err != nil {
		t.Skip(err)
	}
	after, err := ReadProcessors()
	if since := after.Since(before); err != nil || before.Total <= 0 || before.Busy <= 0 || since.Total < 0 || since.Busy > since.Total {
		t.Errorf("%+v, %+v, %v", before, since, err)
	}
}
