package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// zeros is an endless stream.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// benchmarkBytes is the size of a blob in the benchmarks. DAYBOOK_BLOB_BENCH_MIB changes it.
func benchmarkBytes(b *testing.B) int64 {
	mib := int64(64)
	if text := os.Getenv("DAYBOOK_BLOB_BENCH_MIB"); text != "" {
		testkit.Must(fmt.Sscan(text, &mib))(b)
	}
	return mib << 20
}

func BenchmarkPut(b *testing.B) {
	size := benchmarkBytes(b)
	s := newStore(b, Options{})
	syncs := 0
	s.h.Sync = func(f *os.File) error { syncs++; return f.Sync() }
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		testkit.Must(s.Put(context.Background(), "", io.LimitReader(zeros{}, size), Ref{}))(b)
	}
	b.ReportMetric(float64(syncs)/float64(b.N), "fsyncs/op")
}

// BenchmarkPutSmall puts blobs of 4 KiB with different contents.
func BenchmarkPutSmall(b *testing.B) {
	s := newStore(b, Options{})
	content := make([]byte, 4096)
	i := 0
	for b.Loop() {
		copy(content, fmt.Sprint(i))
		i++
		testkit.Must(put(s, string(content)))(b)
	}
}

// BenchmarkBatch puts 10,000 blobs of 1 to 4 KiB in one batch; "again" are blobs that the store already has.
func BenchmarkBatch(b *testing.B) {
	s := newStore(b, Options{})
	const blobs = 10_000
	content := []byte(random(1, 4096))
	run := func(b *testing.B, syncFS bool, name func() string) {
		s.trustsSyncFS = syncFS
		b.ReportAllocs()
		for b.Loop() {
			run := name()
			batch := mustBegin(b, s)
			for i := range blobs {
				copy(content, fmt.Sprint(run, i, " "))
				testkit.Must(batch.Add(b.Context(), bytes.NewReader(content[:1024+i%3073]), Ref{}))(b)
			}
			testkit.NoError(b, batch.Commit(b.Context()))
		}
		b.ReportMetric(blobs*float64(b.N)/b.Elapsed().Seconds(), "blobs/s")
	}
	n := 0
	next := func() string { n++; return fmt.Sprint("batch ", n, " ") }
	b.Run("syncfs", func(b *testing.B) { run(b, true, next) })
	b.Run("again", func(b *testing.B) { run(b, true, func() string { return "batch 1 " }) })
	b.Run("many syncs at once", func(b *testing.B) { run(b, false, next) })
}

// BenchmarkMissing renews 1,000 old blobs.
func BenchmarkMissing(b *testing.B) {
	for _, trusted := range []bool{true, false} {
		b.Run(fmt.Sprint("syncfs=", trusted), func(b *testing.B) {
			c := &clock{time.Now()}
			s := newStore(b, Options{Hooks: Hooks{Now: c.now}})
			s.trustsSyncFS = trusted
			batch := testkit.Must(s.NewBatch(b.Context(), ""))(b)
			var all []Address
			for i := range 1000 {
				info := testkit.Must(batch.Add(b.Context(), strings.NewReader(fmt.Sprint(i)), Ref{}))(b)
				all = append(all, info.Address)
			}
			testkit.NoError(b, batch.Commit(b.Context()))
			for b.Loop() {
				c.at = c.at.Add(2 * defaultGrace)
				if missing, err := s.Missing(b.Context(), "", all); err != nil || len(missing) > 0 {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(all)*b.N)/b.Elapsed().Seconds(), "blobs/s")
		})
	}
}
