package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
)

// alone starts the engine of a single server.
func alone(b *testing.B) *ingest.Engine {
	e := testkit.Must(ingest.Open(ingest.Options{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)}))(b)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	b.Cleanup(func() { cancel(); testkit.Check(b, <-ended) })
	return e
}

// BenchmarkCreates creates jobs, 1000 in a request, at all engines by turns: the engine of a single
// server, or three engines that share a log, in one process.
func BenchmarkCreates(b *testing.B) {
	create := func(b *testing.B, engines ...*ingest.Engine) {
		for _, e := range engines {
			testkit.Eventually(b, "the engine is ready", func() bool { return e.Ready() == nil })
		}
		request := lines(1000)
		var n atomic.Int64
		began := time.Now()
		b.ResetTimer()
		testkit.NoError(b, load.Share(b.Context(), 16, b.N, func(ctx context.Context, _ int) error {
			i := int(n.Add(1))
			own := *request
			_, _, err := engines[i%len(engines)].Create(ctx, &own)
			for errors.Is(err, ingest.ErrOverloaded) { // like a client, wait and try again
				time.Sleep(time.Millisecond)
				_, _, err = engines[i%len(engines)].Create(ctx, &own)
			}
			return err
		}))
		for _, e := range engines {
			testkit.NoError(b, e.CatchUp(b.Context(), 0))
		}
		b.ReportMetric(float64(b.N)*1000/time.Since(began).Seconds(), "jobs/s")
	}
	b.Run("One", func(b *testing.B) { create(b, alone(b)) })
	b.Run("Three", func(b *testing.B) {
		var engines []*ingest.Engine
		for _, s := range newServers(b, 3, journal.Hooks{}) {
			engines = append(engines, s.engine)
		}
		create(b, engines...)
	})
}

// BenchmarkSlowSync measures creates of one job while each sync of three nodes takes 5 ms longer: by one caller, and by 64.
func BenchmarkSlowSync(b *testing.B) {
	const delay = 5 * time.Millisecond
	var syncs, took atomic.Int64
	servers := newServers(b, 3, journal.Hooks{Sync: func(l *wal.Log) error {
		began := time.Now()
		err := l.Sync()
		syncs.Add(1)
		took.Add(int64(time.Since(began)))
		time.Sleep(delay)
		return err
	}})
	for _, s := range servers {
		testkit.Eventually(b, "the engine is ready", func() bool { return s.engine.Ready() == nil })
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			times := make([]time.Duration, b.N)
			var n atomic.Int64
			syncs.Store(0)
			took.Store(0)
			testkit.NoError(b, load.Share(b.Context(), callers, b.N, func(ctx context.Context, _ int) error {
				i := int(n.Add(1)) - 1
				began := time.Now()
				_, _, err := servers[i%len(servers)].engine.Create(ctx, lines(1))
				times[i] = time.Since(began)
				return err
			}))
			slices.Sort(times)
			sync := delay + time.Duration(took.Load()/max(1, syncs.Load()))
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(times[len(times)/2])/float64(sync), "p50/sync")
		})
	}
}
