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
		s := closed.Latencies.Summary()
		testkit.Holds(t, s.P99 <= 2 && s.Max >= 199, "closed loop", s)
		server = stalling{start: time.Now(), from: 5 * time.Second, till: 5200 * time.Millisecond, turn: make(chan struct{}, 1)}
		for _, underWay := range []int{1, 4, 100} { // with few, the arrivals wait before they are sent
			server.start = time.Now()
			open := testkit.Must(fixed(100, 10*time.Second, underWay).Run(t.Context(), func(context.Context, Arrival) error {
				server.call()
				return nil
			}))(t)
			s := open.Latencies.Summary()
			testkit.Holds(t, open.Due == 1000 && open.Done == 1000 && s.Count == 1000 && open.Unsent == 0 &&
				open.KeptUp(10*time.Second), underWay, "under way", open)
			// 20 of 1000 arrivals were due during the stall. The tenth of them waited for 100 ms.
			testkit.Holds(t, s.P50 <= 2 && s.P99 >= 90 && s.Max >= 199 && s.Max <= 230, underWay, "under way", s)
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
		testkit.Holds(t, open.Due == 1000 && open.Done >= 499 && open.Done <= 501 && open.Unsent == 1000-open.Done &&
			open.MostBehind >= 499 && !open.KeptUp(10*time.Second), open)
		s := open.Latencies.Summary()
		testkit.Holds(t, s.Count == 1000 && s.P50 >= 2400 && s.P50 <= 2600, s)
		s = open.Lateness.Summary()
		testkit.Holds(t, s.Count == 1000 && s.P99 >= 4800, "lateness", s)
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
		testkit.Holds(t, err == nil && open.Failed == 5 && open.Done == 5 && errors.Is(open.Err, failure) && !open.KeptUp(time.Second), open, err)

		hangs := fixed(10, time.Second, 2)
		hangs.Patience = 3 * time.Second
		open, err = hangs.Run(t.Context(), func(ctx context.Context, _ Arrival) error { <-ctx.Done(); return context.Cause(ctx) })
		testkit.Holds(t, err == nil && open.Failed == 2 && open.Unsent == 8 && errors.Is(open.Err, errPatience) &&
			open.Took == 4*time.Second, open, err)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		open, err = fixed(10, time.Minute, 2).Run(ctx, func(ctx context.Context, _ Arrival) error { return ctx.Err() })
		testkit.Holds(t, errors.Is(err, context.DeadlineExceeded) && open.Due <= 14 && open.Took <= 2*time.Second, open, err)
	})
	for _, o := range []Open{{Rate: 0, For: 1, UnderWay: 1}, {Rate: maxRate + 1, For: 1, UnderWay: 1}, {Rate: 1, UnderWay: 1}, {Rate: 1, For: 1}} {
		_, err := o.Run(t.Context(), nil)
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), "must be"), o, err)
	}
	for _, c := range []Closed{{For: 1}, {Callers: 1}} {
		_, err := c.Run(t.Context(), nil)
		testkit.Holds(t, err != nil, c, "is accepted")
	}
}

// TestClosed: callers stop when the time is over, after Most calls, at the first error, and when there is no more work.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := func(context.Context, int) (bool, error) { time.Sleep(10 * time.Millisecond); return true, nil }
		r, err := (Closed{Callers: 4, For: time.Second}).Run(t.Context(), call)
		testkit.Holds(t, err == nil && r.Calls == 400 && r.Took == time.Second && r.PerSecond() == 400, r, err)
		r, err = (Closed{Callers: 4, For: time.Second, Most: 10}).Run(t.Context(), call)
		testkit.Holds(t, err == nil && r.Calls == 10, r, err)
		var n atomic.Int64
		r, err = Closed{Callers: 2, For: time.Second}.Run(t.Context(), func(context.Context, int) (bool, error) {
			time.Sleep(time.Millisecond) // fake time: every caller is in a bubble
			return n.Add(1) <= 20, nil
		})
		testkit.Holds(t, err == nil && r.Calls == 20, r, err)
		failure := errors.New("no")
		testkit.Fails((Closed{Callers: 2, For: time.Second}).Run(t.Context(), func(context.Context, int) (bool, error) { return true, failure }))(t,
			failure)
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
		testkit.Holds(t, c[0] >= c[1]*0.999 && c[0] <= c[1]*1.001, s)
	}
	got := l.Percentiles([]float64{50, 100})
	testkit.Holds(t, got[0] >= 499 && got[1] >= 999, got)
	l.Add(0)
	l.Add(time.Hour)
	s = l.Summary()
	testkit.Holds(t, s.Count == 1002 && s.Max == 3_600_000, s)
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
	testkit.MustEqual(t, len(got), len(want), got)
	for i := range want {
		testkit.Equal(t, got[i], want[i])
	}
}

// TestDisk: appends are timed, and the file is deleted.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	n := 0
	err := (Disk{Dir: dir, For: 20 * time.Millisecond}).Run(t.Context(), func(s Sync) { n++; testkit.Holds(t, s.Took > 0, s) })
	testkit.Holds(t, err == nil && n != 0, n, err)
	ctx, cancel := context.WithCancel(t.Context())
	testkit.Check(t, (Disk{Dir: dir}).Run(ctx, func(Sync) { cancel() }))
	left := testkit.Must(os.ReadDir(dir))(t)
	testkit.Holds(t, len(left) == 0, "left", left)
	testkit.Failed(t, (Disk{Dir: dir + "/none"}).Run(t.Context(), nil))
}

// TestMachine: the functions return plausible processor times.
func TestMachine(t *testing.T) {
	own := testkit.Must(Own())(t)
	testkit.Holds(t, own > 0, own)
	before, err := ReadProcessors()
	if err != nil {
		t.Skip(err)
	}
	after, err := ReadProcessors()
	since := after.Since(before)
	testkit.Holds(t, err == nil && before.Total > 0 && before.Busy > 0 && since.Total >= 0 && since.Busy <= since.Total, before, since, err)
}

func TestText(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 999: "999", 1234567: "1,230,000", 12345: "12,300"} {
		testkit.Equal(t, Thousands(x), want, x)
	}
	for ms, want := range map[float64]string{0.123: "0.12 ms", 1.26: "1.3 ms", 12.6: "13 ms"} {
		testkit.Equal(t, Millis(ms), want, ms)
	}
}
