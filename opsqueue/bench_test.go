package opsqueue_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// benchHost is startHost without a time limit.
func benchHost(b *testing.B) *host {
	h := startHost(b)
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	h.ctx = ctx
	return h
}

// BenchmarkInsert inserts small submissions from several producers, over TCP. An operation is a submission.
func BenchmarkInsert(b *testing.B) {
	for _, c := range []struct {
		chunks    int64
		producers int
	}{{1, 1}, {1, 16}, {1000, 1}, {1000, 16}, {1_000_000, 1}} {
		b.Run(fmt.Sprintf("chunks=%d/producers=%d", c.chunks, c.producers), func(b *testing.B) {
			h := benchHost(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			var working sync.WaitGroup
			b.ResetTimer()
			for range c.producers {
				p := h.producer()
				working.Go(func() {
					for n := left.Add(-1); n >= 0; n = left.Add(-1) {
						if _, err := p.Insert(h.ctx, stored("p", c.chunks, "user", int(n%100)), nil); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			working.Wait()
			b.ReportMetric(float64(int64(b.N)*c.chunks)/b.Elapsed().Seconds(), "chunks/s")
		})
	}
}

// BenchmarkConsume reserves and completes chunks one at a time, as the original's consumers do, over TCP. An operation is
// a chunk. A cycle is the time from one chunk to the next. The chunks belong to submissions of 1,000 chunks from 100
// users.
func BenchmarkConsume(b *testing.B) {
	for _, c := range []struct {
		name      string
		consumers int
		strategy  wire.Strategy
		inserts   bool // a producer inserts submissions at the same time
	}{
		{"oldest", 1, oldest, false},
		{"random", 1, random, false},
		{"prefer_distinct", 1, preferDistinct(wire.Oldest, "user"), false},
		{"oldest", 16, oldest, false},
		{"newest", 16, newest, false},
		{"random", 16, random, false},
		{"prefer_distinct", 16, preferDistinct(wire.Oldest, "user"), false},
		{"prefer_distinct_random", 16, preferDistinct(wire.Random, "user"), false},
		{"oldest_beside_inserts", 16, oldest, true},
	} {
		b.Run(fmt.Sprintf("%s/consumers=%d", c.name, c.consumers), func(b *testing.B) {
			h := benchHost(b)
			const each = 1000
			for n := 0; n*each < b.N; n++ {
				h.insert(stored("p", each, "user", n%100))
			}
			consumers := make([]*stockclient.Consumer, c.consumers)
			for i := range consumers {
				consumers[i] = h.consumer()
				testkit.Must(consumers[i].Init(h.ctx))(b)
			}
			inserting, stop := context.WithCancel(h.ctx)
			defer stop()
			var producers sync.WaitGroup
			inserted := 0
			if c.inserts {
				p := h.producer()
				producers.Go(func() {
					for inserting.Err() == nil {
						if _, err := p.Insert(inserting, stored("beside", 100, "user", 1), nil); err == nil {
							inserted += 100
						}
					}
				})
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			cycles := make([][]time.Duration, len(consumers))
			var working sync.WaitGroup
			b.ResetTimer()
			for i, consumer := range consumers {
				working.Go(func() {
					last := time.Now()
					for left.Add(-1) >= 0 {
						got, err := consumer.Reserve(h.ctx, 1, c.strategy)
						if err == nil {
							err = consumer.Complete(h.ctx, got[0].Chunk.ChunkID, nil)
						}
						if err != nil {
							b.Error(err)
							return
						}
						now := time.Now()
						cycles[i] = append(cycles[i], now.Sub(last))
						last = now
					}
				})
			}
			working.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
			stop()
			producers.Wait()
			if c.inserts {
				b.ReportMetric(float64(inserted)/b.Elapsed().Seconds(), "inserted-chunks/s")
			}
			all := slices.Concat(cycles...)
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkBacklog inserts a million chunks. It reports their memory while they wait, and again after PreferDistinct has
// reserved one.
func BenchmarkBacklog(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for _, submissions := range []int64{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("submissions=%d", submissions), func(b *testing.B) {
			for b.Loop() {
				h := benchHost(b)
				c := h.consumer()
				testkit.Must(c.Init(h.ctx))(b)
				before := heap()
				var left atomic.Int64
				left.Store(submissions)
				var working sync.WaitGroup
				for range 16 {
					p := h.producer()
					working.Go(func() {
						for n := left.Add(-1); n >= 0; n = left.Add(-1) {
							if _, err := p.Insert(h.ctx, stored("p", 1_000_000/submissions, "user", int(n%1000)), nil); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				working.Wait()
				waiting := heap()
				start := time.Now()
				h.reserve(c, 1, oldest)
				first := time.Since(start)
				start = time.Now()
				h.reserve(c, 1, preferDistinct(wire.Oldest, "user"))
				distinct := time.Since(start)
				b.ReportMetric(waiting-before, "MiB-waiting")
				b.ReportMetric(heap()-before, "MiB-with-index")
				b.ReportMetric(float64(first.Microseconds()), "oldest-µs")
				b.ReportMetric(float64(distinct.Milliseconds()), "first-distinct-ms")
				h.stop()
			}
		})
	}
}
