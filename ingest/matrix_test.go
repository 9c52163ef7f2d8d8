package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// The engine's layer of the matrix: callers use the engine like the API does, each with one request at a time. It
// excludes the network, reading requests and writing answers.

var (
	creates    = matrix.Point{Work: "create", Size: 100, Batch: 1000, Conns: 16, Queues: 1}
	drains     = matrix.Point{Work: "drain", Size: 100, Batch: 100, Conns: 16, Queues: 1}
	lifecycles = matrix.Point{Work: "lifecycle", Size: 100, Batch: 1, Conns: 64, Queues: 1}
)

// points returns the points of the matrix, or the short set. The full matrix varies sizes with batches, connections with
// the smallest and the largest batch, backlogs with the number of jobs in a claim, and backlogs with queues.
func points(short bool) []matrix.Point {
	if short {
		return []matrix.Point{creates, drains, lifecycles}
	}
	sizes, batches := matrix.Sizes(100, 1<<10, 16<<10), matrix.Batches(1, 64, 1000)
	conns, backlogs := matrix.Conns(1, 16, 64, 256), matrix.Backlogs(0, 1_000_000, 10_000_000)
	many := matrix.Cross(drains, matrix.Backlogs(1_000_000, 10_000_000), matrix.Queues(10_000), matrix.Batches(1, 100))
	return slices.Concat(
		[]matrix.Point{creates, drains, lifecycles},
		matrix.Cross(creates, sizes, batches), matrix.Cross(drains, sizes, batches), matrix.Cross(lifecycles, sizes, batches),
		matrix.Cross(creates, conns, matrix.Batches(1, 1000)), matrix.Cross(drains, conns, matrix.Batches(1, 100)), matrix.Cross(lifecycles, conns),
		matrix.Cross(creates, backlogs), matrix.Cross(drains, backlogs, matrix.Batches(1, 100)), matrix.Cross(lifecycles, backlogs),
		many, matrix.Cross(creates, matrix.Backlogs(1_000_000), matrix.Queues(10_000)))
}

var engines = matrix.Layer[*Engine]{
	Open: func(tb testing.TB, p matrix.Point) *Engine {
		e := testkit.Must(Open(Options{Dir: tb.TempDir()}))(tb)
		tb.Cleanup(serve(tb, e))
		testkit.NoError(tb, fill(tb.Context(), e, p, p.Backlog))
		return e
	},
	Measure: measurePoint,
}

func BenchmarkIngest(b *testing.B) { engines.Benchmark(b, points(testing.Short())) }

func TestIngestMatrix(t *testing.T) { engines.Test(t, points(true)) }

// createOf returns a create of n jobs in the i-th queue. A single job is joined with other creates, as in the API.
func createOf(p matrix.Point, i, n int, payloads []byte) *job.Create {
	c := lines(1)
	c.Joined = n == 1
	c.Longest, c.Payloads = p.Size, payloads[:n*(p.Size+1)]
	c.Groups[0].Lines = n
	c.Groups[0].Client, c.Groups[0].Type = p.Queue(i)
	c.Groups[0].LeaseMs = job.DefaultLeaseMs
	return c
}

func payloadsOf(p matrix.Point, n int) []byte {
	line := make([]byte, 0, p.Size+1)
	for i := range p.Size {
		line = append(line, byte('a'+i%26))
	}
	return bytes.Repeat(append(line, '\n'), n)
}

// fill creates pending jobs, spread over the queues of the point, and waits until they are applied.
func fill(ctx context.Context, e *Engine, p matrix.Point, jobs int) error {
	payloads := payloadsOf(p, min(jobs, matrix.MaxFillLines))
	if err := p.Fill(jobs, func(i, n int) error { return create(ctx, e, createOf(p, i, n, payloads)) }); err != nil {
		return err
	}
	return e.CatchUp(ctx, 0)
}

// create creates jobs. Like a client, it waits and tries again if too many bytes wait for the applier.
func create(ctx context.Context, e *Engine, c *job.Create) error {
	for {
		_, _, err := e.Create(ctx, c)
		if !errors.Is(err, ErrOverloaded) {
			return err
		}
		if err := e.CatchUp(ctx, 0); err != nil {
			return err
		}
	}
}

// claimBatch claims a batch of jobs for a caller.
func claimBatch(ctx context.Context, e *Engine, p matrix.Point, caller int) (job.ID, error) {
	c := claimOf(p.Batch)
	c.Runner = runnerName(caller)
	claimed, _, _, err := e.ClaimAdmitted(ctx, c, time.Minute, admitAll)
	if err == nil && claimed.Jobs() != p.Batch {
		err = fmt.Errorf("a claim of %d jobs got %d", p.Batch, claimed.Jobs())
	}
	return claimed.Claim, err
}

// measurePoint measures the work of a point.
func measurePoint(tb testing.TB, p matrix.Point, e *Engine) {
	calls, payloads := p.Calls(tb), payloadsOf(p, p.Batch)
	var created atomic.Int64
	createBatch := func(ctx context.Context) error {
		return create(ctx, e, createOf(p, int(created.Add(1)), p.Batch, payloads))
	}
	complete := func(ctx context.Context, claim job.ID) error {
		_, _, err := e.Complete(ctx, completeOf(claim))
		return err
	}
	work := map[string]func(context.Context, *matrix.Caller) error{
		"create": func(ctx context.Context, c *matrix.Caller) error {
			return c.Time(func() error { return createBatch(ctx) })
		},
		"drain": func(ctx context.Context, c *matrix.Caller) (err error) {
			var claim job.ID
			if err = c.Time(func() error { claim, err = claimBatch(ctx, e, p, c.Index); return err }); err != nil {
				return err
			}
			return complete(ctx, claim)
		},
		"lifecycle": func(ctx context.Context, c *matrix.Caller) error {
			return c.Time(func() error {
				if err := createBatch(ctx); err != nil {
					return err
				}
				claim, err := claimBatch(ctx, e, p, c.Index)
				if err != nil {
					return err
				}
				return complete(ctx, claim)
			})
		},
	}[p.Work]
	w := matrix.Workload{
		Calls: calls,
		Round: func(ctx context.Context, callers []*matrix.Caller) error {
			if err := matrix.Share(ctx, callers, calls, work); err != nil {
				return err
			}
			return e.CatchUp(ctx, 0)
		},
		Read: func(context.Context) (matrix.Counters, error) {
			read, st := matrix.OwnCounters(), e.log.Status()
			read.Bytes, read.Syncs = st.BytesWritten, st.Syncs
			return read, nil
		},
	}
	if p.Work == "drain" {
		w.Prepare = func(ctx context.Context) error { return fill(ctx, e, p, calls*p.Batch) }
	}
	matrix.Measure(tb, p, w)
}
