package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// zeros is an endless stream.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// benchmarkBytes is the size of a blob in the benchmarks. DAYBOOK_BLOB_BENCH_MIB sets another one.
func benchmarkBytes(b *testing.B) int64 {
	mib := int64(64)
	if text := os.Getenv("DAYBOOK_BLOB_BENCH_MIB"); text != "" {
		if _, err := fmt.Sscan(text, &mib); err != nil {
			b.Fatal(err)
		}
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
		if _, err := s.Put(context.Background(), io.LimitReader(zeros{}, size), Ref{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(syncs)/float64(b.N), "fsyncs/op")
}

// BenchmarkPutSmall puts blobs of 4 KiB, each with another content.
func BenchmarkPutSmall(b *testing.B) {
	s := newStore(b, Options{})
	content := make([]byte, 4096)
	i := 0
	for b.Loop() {
		copy(content, fmt.Sprint(i))
		i++
		if _, err := put(s, string(content)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	size := benchmarkBytes(b)
	s := newStore(b, Options{})
	info, err := s.Put(context.Background(), io.LimitReader(zeros{}, size), Ref{})
	if err != nil {
		b.Fatal(err)
	}
	get := func(b *testing.B, read func(*Blob) error) {
		b.ReportAllocs()
		for b.Loop() {
			blob, err := s.Get(context.Background(), info.Address)
			if err == nil {
				err = errors.Join(read(blob), blob.Close())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("WriteTo", func(b *testing.B) {
		b.SetBytes(size)
		get(b, func(blob *Blob) error {
			_, err := blob.WriteTo(io.Discard)
			return err
		})
	})
	b.Run("ranges of 64 KiB", func(b *testing.B) {
		b.SetBytes(64 << 10)
		p := make([]byte, 64<<10)
		get(b, func(blob *Blob) error {
			_, err := blob.ReadAt(p, size/2)
			return err
		})
	})
}
