package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/daybookq/daybook/internal/load"
)

// report has all measurements.
type report struct {
	Date        time.Time    `json:"date"`
	Commit      string       `json:"commit"`
	SecondsEach float64      `json:"seconds_each"`
	Machine     machine      `json:"machine"`
	Works       []workResult `json:"works"`
}

type machine struct {
	load.Machine
	Fsync load.Summary `json:"fsync"` // append and fsync of a plain file, before the first run
	Load  [2]float64   `json:"load"`  // averages before and after
}

func (m *machine) read(dir string) error {
	var errs [3]error
	m.Machine, errs[0] = load.ReadMachine()
	m.Fsync, errs[1] = diskAlone(dir)
	m.Load[0], errs[2] = load.Average()
	return errors.Join(errs[:]...)
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// markdown returns the tables.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s at commit %s, %.0f s at each rate, payloads of 100 bytes, fsync before every answer. Machine: %s, %d cores, Linux %s; appending 4 KiB to a file and syncing it takes %s in the median, %s at p99. The load average was %.1f before and %.1f after the run.\n\n",
		r.Date.Format("2006-01-02"), r.Commit, r.SecondsEach, r.Machine.Processor, r.Machine.Cores, r.Machine.Kernel, load.Millis(r.Machine.Fsync.P50), load.Millis(r.Machine.Fsync.P99), r.Machine.Load[0], r.Machine.Load[1])
	b.WriteString("| work | of the peak | jobs/s | p50 | p90 | p99 | p99.9 | longest | processors in use | server µs/job | stalls over 50 ms | fsync of a plain file: p99, longest |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, w := range r.Works {
		fmt.Fprintf(&b, "| %s | closed loop | %s | | | %s | | | | | | |\n", w.Title, load.Thousands(w.PeakPerSec), load.Millis(w.PeakP99))
		for _, x := range w.Rates {
			note := ""
			if !x.KeptUp {
				note = fmt.Sprintf(" (did not keep up; %d calls not sent)", x.Unsent)
			}
			fmt.Fprintf(&b, "| | %.0f %% | %s%s | %s | %s | %s | %s | %s | %.1f | %.3g | %d | %s, %s |\n", 100*x.Part, load.Thousands(x.JobsPerSec), note,
				load.Millis(x.Latency.P50), load.Millis(x.Latency.P90), load.Millis(x.Latency.P99), load.Millis(x.Latency.P999), load.Millis(x.Latency.Max), x.Busy, x.Server, len(x.Stalls), load.Millis(x.Disk.P99), load.Millis(x.Disk.Max))
		}
	}
	return b.String() + r.stalls()
}

// mostStalls is how many of the longest stalls are listed.
const mostStalls = 12

// stalls returns the table of the longest stalls.
func (r *report) stalls() string {
	type row struct {
		work string
		part float64
		stall
	}
	var rows []row
	for _, w := range r.Works {
		for _, x := range w.Rates {
			for _, s := range x.Stalls {
				rows = append(rows, row{w.Name, x.Part, s})
			}
		}
	}
	if len(rows) == 0 {
		return "\nThere was no stall over 50 ms.\n"
	}
	slices.SortFunc(rows, func(a, b row) int { return int(math.Copysign(1, b.Longest-a.Longest)) })
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe longest of %d stalls over 50 ms:\n\n| work | of the peak | at | longest wait | calls over 50 ms | fsync of a plain file at that time | a sleeping thread woke up late by |\n|---|---|---|---|---|---|---|\n", len(rows))
	for _, s := range rows[:min(len(rows), mostStalls)] {
		fmt.Fprintf(&b, "| %s | %.0f %% | %.2f s | %s | %d | %s | %s |\n", s.work, 100*s.part, s.At, load.Millis(s.Longest), s.Calls, orLess(s.Disk), orLess(s.Wake))
	}
	return b.String()
}

func orLess(ms float64) string {
	if ms == 0 {
		return "less than 5 ms"
	}
	return load.Millis(ms)
}
