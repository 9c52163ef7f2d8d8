package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
)

// The bounds with ten million pending jobs of 100 bytes (docs/performance.md):
const (
	scaleJobs        = 10_000_000
	maxScaleResident = 600 << 20
	maxScaleRestart  = 3 * time.Second
	maxScaleP99Ratio = 1.5
)

// claimTimes claims and completes one job at a time, from each server in turn, so that a disturbance affects all of
// them. It returns the latencies of the claims. Each server gets a new batch for each one that is used up.
func claimTimes(t *testing.T, loads ...*Load) []*Latencies {
	t.Helper()
	const claims = 5000
	times := make([]*Latencies, len(loads))
	for i := range times {
		times[i] = &Latencies{}
	}
	for n := range claims {
		for i, l := range loads {
			if n%1000 == 0 {
				fill(t, l, 1)
			}
			var claim string
			err := times[i].Time(func() (err error) { claim, _, err = l.Claim(context.Background(), 1); return err })
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
	}
	return times
}

func logTimes(t *testing.T, what string, times *Latencies) {
	t.Helper()
	t.Logf("claim p50 %v p99 %v with %s", times.Quantile(0.5).Round(time.Microsecond), times.Quantile(0.99).Round(time.Microsecond), what)
}

// TestScale shows that a backlog of ten million jobs changes nothing. It takes minutes and gigabytes, so it runs only
// with `make scale`.
func TestScale(t *testing.T) {
	if os.Getenv("DAYBOOK_SCALE") == "" {
		t.Skip("ten million jobs take some minutes: make scale")
	}
	reference := NewLoad(serve(t).URL(), 16)
	defer reference.Close()
	s := serve(t)
	l := NewLoad(s.URL(), 16)
	defer l.Close()
	fill(t, reference, 1)
	start := time.Now()
	fill(t, l, scaleJobs/1000)
	t.Logf("posted %d jobs in %v", scaleJobs, time.Since(start).Round(time.Millisecond))
	times := claimTimes(t, reference, l)
	now, peak, err := rig.Resident(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("resident %d MiB, at its highest %d MiB", now>>20, peak>>20)
	logTimes(t, "about 1,000 jobs", times[0])
	logTimes(t, "10,000,000", times[1])
	if peak > maxScaleResident {
		t.Errorf("resident memory reached %d MiB, more than %d", peak>>20, maxScaleResident>>20)
	}
	if ratio := float64(times[1].Quantile(0.99)) / float64(times[0].Quantile(0.99)); ratio > maxScaleP99Ratio {
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
	times = claimTimes(t, reference, l)
	logTimes(t, "about 1,000 jobs, at the same time as", times[0])
	logTimes(t, "10,000,000 after the restart", times[1])
}
