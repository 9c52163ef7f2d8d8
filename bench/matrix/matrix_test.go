package matrix

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestPoints: a matrix has every combination that fits a body, each once, and keeps points with the same backlog
// together.
func TestPoints(t *testing.T) {
	base := Point{Work: "drain", Size: 100, Batch: 100, Conns: 16, Queues: 1}
	points := slices.Concat([]Point{base}, Cross(base, Sizes(100, 16<<10), Batches(1, 1000)), Cross(base, Backlogs(0, 5000), Batches(1, 100)))
	var names []string
	for _, group := range groups(points) {
		for _, p := range group {
			names = append(names, p.Name())
		}
		names = append(names, "")
	}
	want := []string{
		"backlog=0/queues=1/size=100/work=drain/batch=100/conns=16",
		"backlog=0/queues=1/size=100/work=drain/batch=1/conns=16",
		"backlog=0/queues=1/size=100/work=drain/batch=1000/conns=16",
		"backlog=0/queues=1/size=16384/work=drain/batch=1/conns=16", // not batch=1000, since 16 MB are too long for a body
		"",
		"backlog=5000/queues=1/size=100/work=drain/batch=1/conns=16",
		"backlog=5000/queues=1/size=100/work=drain/batch=100/conns=16",
		"",
	}
	testkit.EqualSlices(t, names, want)
	testkit.Equal(t, (Point{Work: "append", Size: 1, Batch: 2, Conns: 3}).Name(), "size=1/work=append/batch=2/conns=3", "a point without queues")
}

// TestFill: a backlog has the right number of jobs, at least one in each queue, and no body is too long.
func TestFill(t *testing.T) {
	for _, c := range []struct {
		p             Point
		jobs          int
		creates, most int
	}{
		{Point{Size: 100, Queues: 1}, 2500, 3, 1000},
		{Point{Size: 16 << 10, Queues: 1}, 1000, 2, 500},
		{Point{Size: 100, Queues: 50, Backlog: 5000}, 5000, 50, 100},
		{Point{Size: 100, Queues: 50, Backlog: 20}, 20, 20, 1},
		{Point{Size: 100, Queues: 1}, 0, 0, 0},
	} {
		creates, jobs, most := 0, 0, 0
		err := c.p.Fill(c.jobs, func(i, lines int) error {
			testkit.Equal(t, i, creates)
			creates++
			jobs += lines
			most = max(most, lines)
			return nil
		})
		testkit.Holds(t, err == nil && jobs == c.jobs && creates == c.creates && most == c.most,
			c.p, jobs, "jobs in", creates, "creates of up to", most, err, "want", c)
	}
	full := errors.New("full")
	testkit.Equal(t, (Point{Size: 1, Queues: 1}).Fill(5000, func(i, _ int) error { return full }), full, "after an error, Fill returns")
}

// TestShare: the callers together make the right number of calls, and stop after an error.
func TestShare(t *testing.T) {
	callers := []*Caller{{}, {}, {}}
	testkit.NoError(t, Share(t.Context(), callers, 100, func(_ context.Context, c *Caller) error {
		return c.Time(func() error { return nil })
	}))
	calls := 0
	for _, c := range callers {
		calls += len(c.Latencies)
	}
	testkit.Equal(t, calls, 100)
	broken := errors.New("broken")
	calls = 0
	err := Share(t.Context(), callers[:1], 100, func(context.Context, *Caller) error { calls++; return broken })
	testkit.Holds(t, err == broken && calls == 1, "after an error", calls, "calls were made, and Share returns", err)
}

func TestQuantile(t *testing.T) {
	var l Latencies
	testkit.Equal(t, l.Quantile(0.5), 0, "no durations have a quantile")
	for i := range 1000 {
		l = append(l, time.Duration(1000-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 501, 0.99: 991, 0.999: 1000, 1: 1000} {
		testkit.Equal(t, l.Quantile(q), want, "quantile", q)
	}
}
