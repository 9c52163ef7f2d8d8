package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
)

// serve starts the real binary on a new data directory until the benchmark ends.
func serve(b testing.TB, args ...string) *daybooktest.Process {
	b.Helper()
	binary, err := daybooktest.Binary()
	if err != nil {
		b.Fatal(err)
	}
	s := &daybooktest.Process{Binary: binary, Data: b.TempDir(), Args: append([]string{"--log-level", "warn"}, args...), Log: os.Stderr}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Stop(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// drive calls step from callers goroutines until b.N jobs are done, and reports jobs/s, latencies and syncs per job.
func drive(b *testing.B, l *Load, callers, jobsPerStep int, step func(ctx context.Context, caller int, times *Latencies) error) {
	b.Helper()
	ctx := b.Context()
	before, err := l.Stats(ctx)
	if err != nil {
		b.Fatal(err)
	}
	used, err := l.ServerTime(ctx)
	if err != nil {
		b.Fatal(err)
	}
	var times Latencies
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ResetTimer()
	for caller := range callers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := step(ctx, caller, &times); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	after, err := l.Stats(ctx)
	if err != nil {
		b.Fatal(err)
	}
	usedAfter, err := l.ServerTime(ctx)
	if err != nil {
		b.Fatal(err)
	}
	jobs := float64(b.N) * float64(jobsPerStep)
	b.ReportMetric((usedAfter-used).Seconds()*1e6/jobs, "server-µs/job")
	b.ReportMetric(jobs/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64(times.Quantile(0.5).Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times.Quantile(0.99).Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(after.Journal.Syncs-before.Journal.Syncs)/jobs, "fsyncs/job")
	b.ReportMetric(float64(after.Journal.Written-before.Journal.Written)/jobs, "journal-B/job")
}

// fill posts n batches of 1000 jobs and waits until they are applied.
func fill(b testing.TB, l *Load, n int) {
	b.Helper()
	body := Lines(1000, 100)
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := l.Add(context.Background(), body); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	for {
		s, err := l.Stats(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if s.Applied >= s.Synced {
			return
		}
	}
}

var errDry = errors.New("the queue ran dry")

func BenchmarkCreate1000(b *testing.B) {
	l := NewLoad(serve(b).URL(), 16)
	defer l.Close()
	body := Lines(1000, 100)
	drive(b, l, 16, 1000, func(ctx context.Context, _ int, times *Latencies) error {
		return times.Time(func() error { return l.Add(ctx, body) })
	})
}

func BenchmarkClaim100Complete100(b *testing.B) {
	l := NewLoad(serve(b).URL(), 16)
	defer l.Close()
	fill(b, l, b.N/10+1)
	drive(b, l, 16, 100, func(ctx context.Context, _ int, times *Latencies) error {
		var claim string
		if err := times.Time(func() (err error) { claim, _, err = l.Claim(ctx, 100); return err }); err != nil {
			return err
		}
		if claim == "" {
			return errDry
		}
		return l.Complete(ctx, claim)
	})
}

func BenchmarkCompleteAndClaim100(b *testing.B) {
	l := NewLoad(serve(b).URL(), 16)
	defer l.Close()
	fill(b, l, b.N/10+20)
	claims := make([]string, 16)
	for i := range claims {
		var err error
		if claims[i], _, err = l.Claim(b.Context(), 100); err != nil {
			b.Fatal(err)
		}
	}
	drive(b, l, 16, 100, func(ctx context.Context, caller int, times *Latencies) error {
		return times.Time(func() (err error) {
			if claims[caller], err = l.CompleteAndClaim(ctx, claims[caller], 100); err == nil && claims[caller] == "" {
				err = errDry
			}
			return err
		})
	})
}

// BenchmarkDrain drains a backlog. Each connection is a runner of its own, which completes its jobs and claims more in
// one request.
func BenchmarkDrain(b *testing.B) {
	for _, at := range []struct{ max, callers int }{{1, 64}, {100, 16}} {
		b.Run(fmt.Sprintf("max=%d", at.max), func(b *testing.B) {
			l := NewLoad(serve(b).URL(), at.callers)
			defer l.Close()
			fill(b, l, b.N*at.max/1000+at.callers*at.max/1000+3)
			runners, claims := make([]*Load, at.callers), make([]string, at.callers)
			for i := range runners {
				runners[i] = l.As(fmt.Sprintf("runner-%d", i))
				var err error
				if claims[i], _, err = runners[i].Claim(b.Context(), at.max); err != nil {
					b.Fatal(err)
				}
			}
			drive(b, l, at.callers, at.max, func(ctx context.Context, caller int, times *Latencies) error {
				return times.Time(func() (err error) {
					if claims[caller], err = runners[caller].CompleteAndClaim(ctx, claims[caller], at.max); err == nil && claims[caller] == "" {
						err = errDry
					}
					return err
				})
			})
		})
	}
}

// BenchmarkBothWays creates and drains at the same time: each step posts 1000 jobs, and claims and completes 1000.
func BenchmarkBothWays(b *testing.B) {
	l := NewLoad(serve(b).URL(), 32)
	defer l.Close()
	fill(b, l, 100)
	body := Lines(1000, 100)
	drive(b, l, 16, 1000, func(ctx context.Context, _ int, times *Latencies) error {
		if err := l.Add(ctx, body); err != nil {
			return err
		}
		for range 10 {
			var claim string
			if err := times.Time(func() (err error) { claim, _, err = l.Claim(ctx, 100); return err }); err != nil {
				return err
			}
			if err := l.Complete(ctx, claim); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkCreateSingle(b *testing.B) {
	l := NewLoad(serve(b).URL(), 64)
	defer l.Close()
	drive(b, l, 64, 1, func(ctx context.Context, _ int, times *Latencies) error {
		return times.Time(func() error { return l.Create(ctx) })
	})
}

// BenchmarkLifecycleSingle creates, claims and completes jobs with one job per request.
func BenchmarkLifecycleSingle(b *testing.B) {
	l := NewLoad(serve(b).URL(), 64)
	defer l.Close()
	drive(b, l, 64, 1, func(ctx context.Context, _ int, times *Latencies) error {
		return times.Time(func() error {
			if err := l.Create(ctx); err != nil {
				return err
			}
			claim, _, err := l.Claim(ctx, 1)
			if err != nil {
				return err
			}
			return l.Complete(ctx, claim)
		})
	})
}
