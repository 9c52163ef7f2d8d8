package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// The layer of the store: one goroutine applies commands, as the applier does for pointRunners runners. So a commit has
// one command of each runner, or a megabyte. The time of a call is the time of its Apply, without the commit.

const pointRunners = 16

var (
	creates    = matrix.Point{Work: "create", Size: 100, Batch: 1000, Queues: 1}
	drains     = matrix.Point{Work: "drain", Size: 100, Batch: 100, Queues: 1}
	lifecycles = matrix.Point{Work: "lifecycle", Size: 100, Batch: 1, Queues: 1}
)

// points returns the points of the matrix, or the short set. The full matrix varies sizes with batches, backlogs with
// the number of jobs in a claim, and backlogs with queues.
func points(short bool) []matrix.Point {
	if short {
		return slices.Concat([]matrix.Point{creates, drains, lifecycles}, matrix.Cross(drains, matrix.Batches(1), matrix.Backlogs(1_000_000)))
	}
	sizes, batches := matrix.Sizes(100, 1<<10, 16<<10), matrix.Batches(1, 64, 1000)
	backlogs := matrix.Backlogs(0, 1_000_000, 10_000_000)
	many := matrix.Cross(drains, matrix.Backlogs(1_000_000, 10_000_000), matrix.Queues(10_000))
	return slices.Concat(
		[]matrix.Point{creates, drains, lifecycles},
		matrix.Cross(creates, sizes, batches), matrix.Cross(drains, sizes, batches), matrix.Cross(lifecycles, sizes, batches),
		matrix.Cross(creates, backlogs), matrix.Cross(drains, backlogs, matrix.Batches(1, 100)), matrix.Cross(lifecycles, backlogs),
		matrix.Cross(creates, matrix.Backlogs(1_000_000), matrix.Queues(10_000)), many, matrix.Cross(many[0], matrix.Batches(1)))
}

var stores = matrix.Layer[*bench]{
	Open: func(tb testing.TB, p matrix.Point) *bench {
		n := newBench(tb)
		n.Fill(p, p.Backlog)
		return n
	},
	Measure: measurePoint,
}

func BenchmarkStore(b *testing.B) { stores.Benchmark(b, points(testing.Short())) }

func TestStoreMatrix(t *testing.T) { stores.Test(t, points(true)) }

// Fill creates pending jobs, spread over the queues of the point.
func (n *bench) Fill(p matrix.Point, jobs int) {
	create := newPointCreates(p)
	testkit.NoError(n.b, p.Fill(jobs, func(i, lines int) error { n.Apply(create.Of(i, lines)); return nil }))
	n.commit()
}

// pointCreates makes the creates of a point.
type pointCreates struct {
	p       matrix.Point
	byLines map[int]*job.Create
}

func newPointCreates(p matrix.Point) *pointCreates { return &pointCreates{p, map[int]*job.Create{}} }

// Of returns a create of lines jobs in the i-th queue. All creates with the same number of jobs share their payloads.
func (l *pointCreates) Of(i, lines int) *job.Create {
	if l.byLines[lines] == nil {
		l.byLines[lines] = benchCreateOf("", "", lines, l.p.Size)
	}
	c := *l.byLines[lines]
	c.Groups = slices.Clone(c.Groups)
	c.Groups[0].Client, c.Groups[0].Type = l.p.Queue(i)
	return &c
}

// measurePoint measures the work of a point.
func measurePoint(tb testing.TB, p matrix.Point, n *bench) {
	create, calls := newPointCreates(p), p.Calls(tb)
	var names [pointRunners]string
	for r := range names {
		names[r] = fmt.Sprintf("runner-%d", r)
	}
	w := matrix.Workload{
		Calls: calls,
		Round: func(_ context.Context, callers []*matrix.Caller) error {
			for done := 0; done < calls; done += pointRunners {
				var claims [pointRunners]job.ID
				var took [pointRunners]time.Duration
				now := min(pointRunners, calls-done)
				if p.Work != "drain" {
					for r := range now {
						_, took[r] = n.timed(create.Of(done+r, p.Batch))
						n.commitFull()
					}
					n.commit()
				}
				if p.Work != "create" {
					for r := range now {
						result, d := n.timed(plainClaim(names[r], p.Batch))
						c := result.(*applied.Claimed)
						if c.Jobs() != p.Batch {
							return fmt.Errorf("a claim of %d jobs got %d", p.Batch, c.Jobs())
						}
						claims[r] = c.Claim
						took[r] += d
						n.commitFull()
					}
					n.commit()
					for r := range now {
						_, d := n.timed(job.Complete{Claim: claims[r], All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
						if p.Work == "lifecycle" {
							took[r] += d
						}
						n.commitFull()
					}
					n.commit()
				}
				callers[0].Latencies = append(callers[0].Latencies, took[:now]...)
			}
			return nil
		},
		Read: func(context.Context) (matrix.Counters, error) {
			read := matrix.OwnCounters()
			read.Bytes = n.passed
			return read, nil
		},
	}
	if p.Work == "drain" {
		w.Prepare = func(context.Context) error { n.Fill(p, calls*p.Batch); return nil }
	}
	matrix.Measure(tb, p, w)
}
