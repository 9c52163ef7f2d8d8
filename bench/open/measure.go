package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
)

// measurement is the state that the runs share.
type measurement struct {
	options
	binary, dir string
	runs        int
}

// workResult has the measurements of a work.
type workResult struct {
	Name       string       `json:"name"`
	Title      string       `json:"title"`
	Jobs       int64        `json:"jobs_per_call"`
	PeakPerSec float64      `json:"peak_jobs_per_s"`
	PeakP99    float64      `json:"peak_p99_ms"`
	Rates      []rateResult `json:"rates"`
}

// rateResult is an open loop.
type rateResult struct {
	Part       float64      `json:"part"` // of the peak
	Start      time.Time    `json:"start"`
	JobsPerSec float64      `json:"jobs_per_s"`
	Latency    load.Summary `json:"latency"`
	Lateness   load.Summary `json:"lateness"` // of sending
	KeptUp     bool         `json:"kept_up"`
	Unsent     int64        `json:"unsent"`
	MostBehind int64        `json:"most_behind"`
	Busy       float64      `json:"processors_busy"` // of all programs
	Server     float64      `json:"server_us_per_job"`
	Disk       load.Summary `json:"disk"`  // append and fsync of a plain file
	Wakes      load.Summary `json:"wakes"` // how late a sleeping thread wakes up
	Curve      []point      `json:"curve"`
	Stalls     []stall      `json:"stalls"`
}

// point is the latency at a percentile of 100·(1 − 10^−Nines).
type point struct {
	Nines float64 `json:"nines"`
	Ms    float64 `json:"ms"`
}

// mostNines is the end of the curve: 99.99 %.
const mostNines = 4

func curve(l *load.Latencies) (points []point) {
	var percents []float64
	for i := range 10*mostNines + 1 {
		percents = append(percents, 100*(1-math.Pow(10, -float64(i)/10)))
	}
	for i, ms := range l.Percentiles(percents) {
		points = append(points, point{float64(i) / 10, ms})
	}
	return points
}

// serve starts a server on an empty directory, which end deletes with it.
func (m *measurement) serve(ctx context.Context) (t *works.Target, end func() error, err error) {
	m.runs++
	p := &daybooktest.Process{Binary: m.binary, Data: filepath.Join(m.dir, fmt.Sprint(m.runs)), Args: []string{"--log-level", "warn"}, Log: os.Stderr}
	if err := p.Start(ctx); err != nil {
		return nil, nil, err
	}
	t = works.NewTarget(p.URL(), client.Options{})
	return t, func() error {
		t.Close()
		return errors.Join(p.Stop(), os.RemoveAll(p.Data))
	}, nil
}

// prepare starts a server, warms it up with the work, and creates the jobs that wait for the work.
func (m *measurement) prepare(ctx context.Context, w works.Work, jobs int64) (t *works.Target, end func() error, err error) {
	if t, end, err = m.serve(ctx); err != nil {
		return nil, nil, err
	}
	if w.Takes {
		_, err = t.Fill(ctx, w.Type, jobs+int64(m.warmUp.Seconds()*takesAtMost))
	}
	if err == nil {
		_, err = w.Peak(ctx, t, load.Closed{For: m.warmUp})
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return t, end, nil
}

func (m *measurement) work(ctx context.Context, w works.Work) (out workResult, err error) {
	out = workResult{Name: w.Name, Title: w.Title, Jobs: w.Jobs}
	out.PeakPerSec = m.known
	if m.known == 0 {
		peak, err := m.peak(ctx, w)
		if err != nil {
			return out, err
		}
		out.PeakPerSec, out.PeakP99 = peak.PerSecond()*float64(w.Jobs), peak.Latencies.Summary().P99
	}
	fmt.Fprintf(os.Stderr, "%s: peak %.0f jobs/s\n", w.Name, out.PeakPerSec)
	for _, part := range m.rates {
		r, err := m.rate(ctx, w, part, part*out.PeakPerSec/float64(w.Jobs))
		if err != nil {
			return out, err
		}
		fmt.Fprintf(os.Stderr, "%s at %.0f %%: p50 %.2f, p99 %.2f, p99.9 %.2f, longest %.0f ms; %d stalls; server %.2f µs/job; disk p99 %.2f, longest %.0f ms; wakes longest %.0f ms\n",
			w.Name, 100*part, r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max, len(r.Stalls), r.Server, r.Disk.P99, r.Disk.Max, r.Wakes.Max)
		out.Rates = append(out.Rates, r)
	}
	return out, nil
}

// takesAtMost is more jobs than any work takes in a second.
const takesAtMost = 600_000

func (m *measurement) peak(ctx context.Context, w works.Work) (r *load.Rate, err error) {
	t, end, err := m.prepare(ctx, w, int64(m.options.peak.Seconds()*takesAtMost))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	return w.Peak(ctx, t, load.Closed{For: m.options.peak})
}

func (m *measurement) rate(ctx context.Context, w works.Work, part, calls float64) (r rateResult, err error) {
	t, end, err := m.prepare(ctx, w, int64(calls*m.length.Seconds())*w.Jobs)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	watch, err := startWatch(ctx, m.dir)
	if err != nil {
		return r, err
	}
	before, err := load.ReadProcessors()
	if err != nil {
		return r, err
	}
	used, err := t.Figures(ctx)
	if err != nil {
		return r, err
	}
	o, err := w.At(ctx, t, load.Open{Rate: calls, For: m.length})
	after, statErr := load.ReadProcessors()
	watchErr := watch.end()
	usedAfter, figuresErr := t.Figures(ctx)
	if err := errors.Join(err, watchErr, statErr, figuresErr); err != nil {
		return r, err
	}
	if o.Failed > 0 {
		return r, fmt.Errorf("%d of %d calls failed, the first with: %w", o.Failed, o.Due, o.Err)
	}
	return rateResult{
		Part: part, Start: o.Start, JobsPerSec: calls * float64(w.Jobs), Latency: o.Latencies.Summary(), Lateness: o.Lateness.Summary(), KeptUp: o.KeptUp(m.length),
		Server: float64(usedAfter.Since(used).Processor.Microseconds()) / float64(max(o.Done, 1)*w.Jobs),
		Unsent: o.Unsent, MostBehind: o.MostBehind, Busy: after.Since(before).Busy.Seconds() / o.Took.Seconds(),
		Disk: watch.disk.all.Summary(), Wakes: watch.wakes.all.Summary(), Curve: curve(o.Latencies), Stalls: watch.explain(o),
	}, nil
}
