package bench

import (
	"context"
	"os"
	"testing"
	"time"
)

// What must hold with ten million pending jobs of 100 bytes (docs/performance.md).
const (
	scaleJobs        = 10_000_000
	maxScaleResident = 600 << 20
	maxScaleRestart  = 3 * time.Second
	maxScaleP99Ratio = 1.5
)

// claimTimes claims and completes one job at a time, one caller, and returns the claims' latencies.
func claimTimes(t *testing.T, l *Load, claims int) *Latencies {
	t.Helper()
	var times Latencies
	for range claims {
		var claim string
		err := times.Time(func() (err error) { claim, _, err = l.Claim(context.Background(), 1); return err })
		if err == nil && claim == "" {
			err = errDry
		}
		if err == nil {
			err = l.Complete(context.Background(), claim)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &times
}

// TestScale shows that a backlog of ten million changes nothing. It takes minutes and gigabytes, so it runs only when asked.
func TestScale(t *testing.T) {
	if os.Getenv("DAYBOOK_SCALE") == "" {
		t.Skip("ten million jobs take some minutes: make scale")
	}
	s := serve(t)
	l := NewLoad(s.URL(), 16)
	defer l.Close()

	const claims = 4000
	fill(t, l, 5)
	claimTimes(t, l, 500) // warm
	small := claimTimes(t, l, claims)
	start := time.Now()
	fill(t, l, scaleJobs/1000)
	t.Logf("posted %d jobs in %v", scaleJobs, time.Since(start).Round(time.Millisecond))
	claimTimes(t, l, 500)
	large := claimTimes(t, l, claims)
	now, peak, err := s.Resident()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("resident %d MiB, at its highest %d MiB", now>>20, peak>>20)
	t.Logf("claim p50 %v p99 %v with about 1,000 jobs, p50 %v p99 %v with %d", small.Quantile(0.5), small.Quantile(0.99),
		large.Quantile(0.5), large.Quantile(0.99), scaleJobs)
	if peak > maxScaleResident {
		t.Errorf("resident memory reached %d MiB, more than %d", peak>>20, maxScaleResident>>20)
	}
	if ratio := float64(large.Quantile(0.99)) / float64(small.Quantile(0.99)); ratio > maxScaleP99Ratio {
		t.Errorf("claim p99 grew by a factor of %.2f, more than %.1f", ratio, maxScaleP99Ratio)
	}

	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start = time.Now()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	claim, _, err := l.Claim(ctx, 1)
	took := time.Since(start)
	if err != nil || claim == "" {
		t.Fatalf("claim %q after the restart: %v", claim, err)
	}
	t.Logf("first claim %v after the start that followed SIGKILL", took.Round(time.Millisecond))
	if took > maxScaleRestart {
		t.Errorf("the first claim took %v, more than %v", took, maxScaleRestart)
	}
	again := claimTimes(t, l, claims)
	t.Logf("claim p50 %v p99 %v after the restart", again.Quantile(0.5), again.Quantile(0.99))
}
