package journal

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/daybookq/daybook/bench/matrix"
)

// The journal's layer of the matrix: callers append creates, and each waits until its create is synced. There are no
// queues.

var base = matrix.Point{Work: "append", Size: 100, Batch: 1000, Conns: 16}

// points returns the points of the matrix, or the short set. The full matrix varies sizes with batches, and connections
// with the smallest and the largest batch.
func points(short bool) []matrix.Point {
	if short {
		return slices.Concat([]matrix.Point{base}, matrix.Cross(base, matrix.Batches(1), matrix.Conns(64)))
	}
	return slices.Concat(
		matrix.Cross(base, matrix.Sizes(100, 1<<10, 16<<10), matrix.Batches(1, 64, 1000)),
		matrix.Cross(base, matrix.Batches(1, 1000), matrix.Conns(1, 16, 64, 256)))
}

var journals = matrix.Layer[*Journal]{
	Open:    func(tb testing.TB, _ matrix.Point) *Journal { return benchOpen(tb, Options{}) },
	Measure: appends,
}

func BenchmarkJournal(b *testing.B) { journals.Benchmark(b, points(testing.Short())) }

func TestJournalMatrix(t *testing.T) { journals.Test(t, points(true)) }

// appends measures creates of the point's batch and size.
func appends(tb testing.TB, p matrix.Point, j *Journal) {
	body := bytes.Repeat(append(bytes.Repeat([]byte("x"), p.Size), '\n'), p.Batch)
	fields := []byte("client=acme type=resize n=1000 frame=line priority=0")
	calls := p.Calls(tb)
	matrix.Measure(tb, p, matrix.Workload{
		Calls: calls,
		Round: func(ctx context.Context, callers []*matrix.Caller) error {
			return matrix.Share(ctx, callers, calls, func(ctx context.Context, c *matrix.Caller) error {
				return c.Time(func() error {
					answer := make(chan error, 1)
					done := func(_ uint64, _ int64, err error) { answer <- err }
					if err := j.Propose(ctx, &Proposal{Lane: Bulk, Verb: "create", Fields: fields, Body: body, Done: done}); err != nil {
						return err
					}
					return <-answer
				})
			})
		},
		Read: func(context.Context) (matrix.Counters, error) {
			read, st := matrix.OwnCounters(), j.Status()
			read.Bytes, read.Syncs = st.BytesWritten, st.Syncs
			return read, nil
		},
	})
}
