package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// The layer of the process: the real binary, with the load in this process on the same machine. Each connection is a
// separate runner. Processor time and allocations are the server's alone.

var (
	creates    = matrix.Point{Transport: "http", Work: "create", Size: 100, Batch: 1000, Conns: 16, Queues: 1}
	drains     = matrix.Point{Transport: "http", Work: "drain", Size: 100, Batch: 100, Conns: 16, Queues: 1}
	exchanges  = matrix.Point{Transport: "http", Work: "exchange", Size: 100, Batch: 100, Conns: 16, Queues: 1}
	lifecycles = matrix.Point{Transport: "http", Work: "lifecycle", Size: 100, Batch: 1, Conns: 64, Queues: 1}

	streamCreates    = matrix.Point{Transport: "stream", Work: "create", Size: 100, Batch: 1, Conns: 64, Queues: 1}
	streamDrains     = matrix.Point{Transport: "stream", Work: "drain", Size: 100, Batch: 100, Conns: 16, Queues: 1}
	streamLifecycles = matrix.Point{Transport: "stream", Work: "lifecycle", Size: 100, Batch: 1, Conns: 64, Queues: 1}
)

// points returns the points of the matrix, or the short set. The full matrix varies sizes with batches, connections with
// the smallest and the usual batch, backlogs, and backlogs with queues.
func points(short bool) []matrix.Point {
	if short {
		return []matrix.Point{creates, drains, lifecycles, streamDrains, streamLifecycles}
	}
	var all []matrix.Point
	conns, backlogs := matrix.Conns(1, 16, 64, 256), matrix.Backlogs(0, 1_000_000, 10_000_000)
	for _, base := range []matrix.Point{creates, drains, exchanges, lifecycles, streamCreates, streamDrains, streamLifecycles} {
		all = append(all, base)
		all = append(all, matrix.Cross(base, matrix.Sizes(100, 1<<10, 16<<10), matrix.Batches(1, 64, 1000))...)
		all = append(all, matrix.Cross(base, conns, matrix.Batches(1, base.Batch))...)
		all = append(all, matrix.Cross(base, backlogs)...)
	}
	for _, base := range []matrix.Point{creates, drains, streamDrains} {
		all = append(all, matrix.Cross(base, matrix.Backlogs(1_000_000), matrix.Queues(10_000))...)
	}
	return slices.Concat(all, matrix.Cross(drains, matrix.Backlogs(10_000_000), matrix.Queues(10_000)))
}

var servers = matrix.Layer[*daybooktest.Process]{
	Open: func(tb testing.TB, p matrix.Point) *daybooktest.Process {
		s := serve(tb)
		l := NewLoad(s.URL(), fillers)
		defer l.Close()
		testkit.NoError(tb, fillPoint(tb.Context(), l, p, p.Backlog))
		return s
	},
	Measure: func(tb testing.TB, p matrix.Point, s *daybooktest.Process) {
		l := NewLoad(s.URL(), max(p.Conns, fillers))
		defer l.Close()
		w := workload(tb, p, s, l)
		if p.Transport == "stream" {
			streamWork(tb, p, l, &w)
		} else {
			httpWork(p, l, &w)
		}
		matrix.Measure(tb, p, w)
	},
}

func BenchmarkProcess(b *testing.B) { servers.Benchmark(b, points(testing.Short())) }

func TestProcessMatrix(t *testing.T) { servers.Test(t, points(true)) }

// fillers is the number of connections that fill queues.
const fillers = 8

// fillPoint creates pending jobs, spread over the queues of the point, and waits until they are applied.
func fillPoint(ctx context.Context, l *Load, p matrix.Point, jobs int) error {
	body := works.Lines(min(jobs, matrix.MaxFillLines), p.Size)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(fillers)
	if err := p.Fill(jobs, func(i, lines int) error {
		group.Go(func() error {
			client, typ := p.Queue(i)
			return patiently(groupCtx, l, func() error { return l.AddTo(groupCtx, client, typ, body[:lines*(p.Size+1)]) })
		})
		return groupCtx.Err()
	}); err != nil {
		return err
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, err := applied(ctx, l)
	return err
}

// patiently calls create. Like a client, it waits and retries if too many bytes wait to be applied.
func patiently(ctx context.Context, l *Load, create func() error) error {
	for {
		err := create()
		if !errors.Is(err, errOverloaded) {
			return err
		}
		if _, err := applied(ctx, l); err != nil {
			return err
		}
	}
}

// applied waits until the server has applied all commands, and returns its figures.
func applied(ctx context.Context, l *Load) (Stats, error) {
	tick := time.NewTicker(time.Millisecond) // without a pause, the requests would count as work
	defer tick.Stop()
	for {
		s, err := l.Stats(ctx)
		if err != nil || s.Applied >= s.Synced {
			return s, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// workload returns the part that the workloads of all transports share.
func workload(tb testing.TB, p matrix.Point, s *daybooktest.Process, l *Load) matrix.Workload {
	w := matrix.Workload{Calls: p.Calls(tb), Read: func(ctx context.Context) (read matrix.Counters, err error) {
		stats, err := applied(ctx, l)
		if err != nil {
			return read, err
		}
		read.Bytes, read.Syncs = stats.Journal.Written, stats.Journal.Syncs
		metrics, err := load.Metrics(ctx, l.HTTP, l.URL, l.Key)
		if err != nil {
			return read, err
		}
		read.Allocs = uint64(metrics["go_memstats_mallocs_total"])
		read.CPU, err = rig.ProcessorTime(s.Pid())
		return read, err
	}}
	if p.Work == "drain" || p.Work == "exchange" {
		w.Prepare = func(ctx context.Context) error { return fillPoint(ctx, l, p, w.Calls*p.Batch) }
	}
	return w
}

// httpWork sets the round of a point over HTTP. The round fails if claims got fewer jobs than they requested.
func httpWork(p matrix.Point, l *Load, w *matrix.Workload) {
	body := works.Lines(p.Batch, p.Size)
	var created atomic.Int64
	create := func(ctx context.Context) error {
		client, typ := p.Queue(int(created.Add(1)))
		if p.Batch > 1 {
			return patiently(ctx, l, func() error { return l.AddTo(ctx, client, typ, body) })
		}
		return l.CreateBody(ctx, fmt.Appendf(nil, `{"client":"%s","type":"%s","payload":"%s"}`, client, typ, bytes.TrimSuffix(body, []byte("\n"))))
	}
	runners, held := make([]*Load, p.Conns), make([]string, p.Conns)
	for i := range runners {
		runners[i] = l.As(fmt.Sprintf("runner-%d", i))
	}
	claim := func(ctx context.Context, caller int) (claim string, err error) {
		if claim, err = runners[caller].Claim(ctx, p.Batch); err == nil && claim == "" {
			err = errDry
		}
		return claim, err
	}
	work := map[string]func(context.Context, *matrix.Caller) error{
		"create": func(ctx context.Context, c *matrix.Caller) error { return c.Time(func() error { return create(ctx) }) },
		"drain": func(ctx context.Context, c *matrix.Caller) (err error) {
			var id string
			if err := c.Time(func() error { id, err = claim(ctx, c.Index); return err }); err != nil {
				return err
			}
			return l.Complete(ctx, id)
		},
		"exchange": func(ctx context.Context, c *matrix.Caller) error {
			return c.Time(func() (err error) {
				if held[c.Index] == "" {
					held[c.Index], err = claim(ctx, c.Index)
					return err
				}
				if held[c.Index], err = runners[c.Index].ClaimAnd(ctx, p.Batch, held[c.Index], func([]byte) error { return nil }); err == nil && held[c.Index] == "" {
					err = errDry
				}
				return err
			})
		},
		"lifecycle": func(ctx context.Context, c *matrix.Caller) error {
			return c.Time(func() error {
				if err := create(ctx); err != nil {
					return err
				}
				id, err := claim(ctx, c.Index)
				if err != nil {
					return err
				}
				return l.Complete(ctx, id)
			})
		},
	}[p.Work]
	w.Round = func(ctx context.Context, callers []*matrix.Caller) error {
		before, err := l.Stats(ctx)
		if err != nil {
			return err
		}
		if err := matrix.Share(ctx, callers, w.Calls, work); err != nil {
			return err
		}
		after, err := applied(ctx, l)
		if err != nil {
			return err
		}
		ended := after.Jobs["completed"] - before.Jobs["completed"]
		if want := int64(w.Calls * p.Batch); (p.Work == "drain" || p.Work == "lifecycle") && ended != want {
			return fmt.Errorf("%d jobs were completed, want %d", ended, want)
		}
		return nil
	}
}
