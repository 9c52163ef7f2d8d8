package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/testkit"
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

// benchOpen opens a journal and runs it until the benchmark ends. It grows the heap to the size of a server's, which
// includes a block cache and memtables. With a small heap the garbage collector would run once per segment, and the
// benchmark would measure that.
func benchOpen(b testing.TB, o Options) *Journal {
	b.Helper()
	heap := make([]byte, 128<<20)
	b.Cleanup(func() { runtime.KeepAlive(heap) })
	o.Dir = b.TempDir()
	j := testkit.Must(Open(o))(b)
	ran := make(chan error, 1)
	go func() { ran <- j.Run(b.Context()) }()
	b.Cleanup(func() { testkit.Check(b, j.Close()); testkit.Check(b, <-ran) })
	return j
}

// BenchmarkSegmentBytes compares segment sizes with groups of about 1 MiB. It is the reason for defaultSegmentBytes.
func BenchmarkSegmentBytes(b *testing.B) {
	for _, mib := range []int{1, 4, 8, 20} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			appends(b, matrix.Point{Size: 64<<10 - 1, Batch: 1, Conns: 16}, benchOpen(b, Options{SegmentBytes: mib << 20}))
		})
	}
}

// BenchmarkRecords measures reading from disk with checksums.
func BenchmarkRecords(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			j := benchOpen(b, Options{})
			n := 100_000_000 / (size + 500)
			last := make(chan error, 1)
			for i := range n {
				p := &Proposal{Lane: Bulk, Verb: "create", Body: bytes.Repeat([]byte("x"), size), Done: func(_ uint64, _ int64, err error) {
					if i == n-1 {
						last <- err
					}
				}}
				testkit.NoError(b, j.Propose(b.Context(), p))
			}
			testkit.NoError(b, <-last)
			st := j.Status()
			b.ResetTimer()
			var records int
			start := time.Now()
			for range b.N {
				for _, err := range j.Records(1) {
					testkit.NoError(b, err)
					records++
				}
			}
			elapsed := time.Since(start).Seconds()
			b.ReportMetric(float64(records)/elapsed, "records/s")
			b.ReportMetric(float64(st.Bytes)*float64(b.N)/elapsed/1e6, "MB/s")
		})
	}
}

// BenchmarkAppend appends groups, each with an fsync, in three ways: to a plain file, which is the least work that any
// journal does, with tidwall/wal, and with the journal.
//
// For small and for large groups, where fsync costs the most, the library is as close to the plain file as its public API
// allows. In between it needs up to 2.5 times the processor time: it keeps the tail segment in memory, and grows that
// buffer from nothing for each segment by append. So it allocates five to six bytes for each byte of a group (B/op),
// copies them, and leaves them to the garbage collector. No option gives it a buffer or disables the buffer. The journal
// adds little to that: one text and its checksum.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{10 << 10, 100 << 10, 1 << 20} {
		data := bytes.Repeat([]byte("x"), size)
		measure := func(name string, open func(b *testing.B) (add func() error)) {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, name), func(b *testing.B) {
				heap := make([]byte, 128<<20) // see benchOpen
				defer runtime.KeepAlive(heap)
				add := open(b)
				runtime.GC()
				b.ReportAllocs()
				before := matrix.ProcessorTime()
				b.ResetTimer()
				for range b.N {
					testkit.NoError(b, add())
				}
				b.StopTimer()
				b.ReportMetric(float64((matrix.ProcessorTime()-before).Microseconds())/float64(b.N), "cpu-µs/group")
				b.ReportMetric(float64(b.N)*float64(size)/1e6/b.Elapsed().Seconds(), "MB/s")
			})
		}
		measure("file", func(b *testing.B) func() error {
			f := testkit.Must(os.Create(b.TempDir() + "/raw"))(b)
			b.Cleanup(func() { f.Close() })
			return func() error { _, err := f.Write(data); return errors.Join(err, f.Sync()) }
		})
		measure("tidwall", func(b *testing.B) func() error {
			log, err := wal.Open(b.TempDir(), &wal.Options{NoSync: true, SegmentSize: defaultSegmentBytes, LogFormat: wal.Binary, SegmentCacheSize: 1, DirPerms: 0o750, FilePerms: 0o640})
			testkit.NoError(b, err)
			b.Cleanup(func() { log.Close() })
			var batch wal.Batch
			index := uint64(0)
			return func() error {
				index++
				batch.Clear()
				batch.Write(index, data)
				return errors.Join(log.WriteBatch(&batch), log.Sync())
			}
		})
		measure("journal", func(b *testing.B) func() error {
			j := benchOpen(b, Options{})
			answer := make(chan error, 1)
			return func() error {
				p := &Proposal{Lane: Bulk, Verb: "create", Body: data, Done: func(_ uint64, _ int64, err error) { answer <- err }}
				if err := j.Propose(b.Context(), p); err != nil {
					return err
				}
				return <-answer
			}
		})
	}
}
