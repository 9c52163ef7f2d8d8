package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestExplain: a stall is compared with the disk and the processors at the same time only.
func TestExplain(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	w := &watch{disk: &observations{all: load.NewLatencies()}, wakes: &observations{all: load.NewLatencies()}}
	w.disk.add(at(90), 30*time.Millisecond)  // overlaps the beginning
	w.disk.add(at(190), 40*time.Millisecond) // overlaps the end
	w.disk.add(at(500), 90*time.Millisecond) // later
	w.disk.add(at(150), time.Millisecond)    // not slow
	w.wakes.add(at(0), 50*time.Millisecond)  // earlier
	o := &load.Outcome{Start: start, Stalls: []load.Stall{{Start: 100 * time.Millisecond, Length: 100 * time.Millisecond, Longest: 80 * time.Millisecond, Calls: 7}}}
	got := w.explain(o)
	want := (stall{At: 0.1, Length: 100, Longest: 80, Calls: 7, Disk: 40})
	testkit.Holds(t, len(got) == 1 && got[0] == want, got, "want", want)
}

// TestReport: tables have each rate, the stalls and the rates that the server could not sustain.
func TestReport(t *testing.T) {
	r := report{Date: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), Commit: "abc", SecondsEach: 20, Works: []workResult{{
		Name: "some", Title: "do something", Jobs: 10, PeakPerSec: 123456, PeakP99: 12.3,
		Rates: []rateResult{
			{Part: 0.25, JobsPerSec: 30864, KeptUp: true, Latency: load.Summary{P50: 0.512, P99: 3.21}},
			{Part: 0.95, JobsPerSec: 117283, Unsent: 42, Stalls: []stall{{At: 1.5, Longest: 60, Calls: 3}, {At: 2.5, Longest: 700, Calls: 9, Disk: 650, Wake: 7.7}}},
		},
	}}}
	text := r.markdown()
	for _, want := range []string{"at commit abc, 20 s", "| do something | closed loop | 123,000 |", "| | 25 % | 30,900 | 0.51 ms |", "117,000 (did not keep up; 42 calls not sent)",
		"The longest of 2 stalls", "| some | 95 % | 2.50 s | 700 ms | 9 | 650 ms | 7.7 ms |\n| some | 95 % | 1.50 s | 60 ms | 3 | less than 5 ms | less than 5 ms |"} {
		testkit.Contains(t, text, want)
	}
	r.Works[0].Rates = r.Works[0].Rates[:1]
	testkit.Contains(t, r.markdown(), "no stall over 50 ms")
}

// TestCurve: the curve has a point for each tenth of a nine, and its latencies grow.
func TestCurve(t *testing.T) {
	l := load.NewLatencies()
	for i := range 10_000 {
		l.Add(time.Duration(i+1) * time.Millisecond)
	}
	points := curve(l)
	testkit.MustHold(t, len(points) == 10*mostNines+1 && points[0].Nines == 0 && points[len(points)-1].Nines == mostNines, points)
	p := points[10]
	testkit.Holds(t, p.Ms >= 8990 && p.Ms <= 9010, "90 %", p)
	for i := 1; i < len(points); i++ {
		testkit.Holds(t, points[i].Ms >= points[i-1].Ms, points[i], "after", points[i-1])
	}
}

// TestMeasurement: a short run against the real server, and its JSON.
func TestMeasurement(t *testing.T) {
	binary := testkit.Must(daybooktest.Binary())(t)
	dir := t.TempDir()
	m := measurement{options: options{length: 300 * time.Millisecond, peak: 100 * time.Millisecond, warmUp: 50 * time.Millisecond, rates: []float64{0.1, 0.2}}, binary: binary, dir: dir}
	for _, w := range []works.Work{works.Drain, works.Lifecycles} {
		got := testkit.Must(m.work(t.Context(), w))(t)
		testkit.Holds(t, len(got.Rates) == 2 && got.PeakPerSec > 0 && got.Rates[1].Latency.Count != 0 &&
			got.Rates[1].Disk.Count != 0 && got.Rates[1].Wakes.Count != 0 && got.Rates[1].Busy > 0, got)
		path := filepath.Join(t.TempDir(), "out.json")
		var back report
		testkit.NoError(t, (&report{Works: []workResult{got}}).write(path))
		text := testkit.Must(os.ReadFile(path))(t)
		testkit.Holds(t, json.Unmarshal(text, &back) == nil && len(back.Works) == 1 && len(back.Works[0].Rates[0].Curve) != 0, back)
	}
	left := testkit.Must(os.ReadDir(dir))(t)
	testkit.Holds(t, len(left) == 0, "left", left)
}
