package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// benchmark names a benchmark: the package and the full name, without the prefix Benchmark and including the number of
// processors.
type benchmark struct{ pkg, name string }

func (b benchmark) String() string { return b.folder() + " " + b.name }

// folder returns the folder of the benchmark's package.
func (b benchmark) folder() string { return b.pkg[strings.LastIndexByte(b.pkg, '/')+1:] }

// pattern returns the pattern that only this benchmark matches.
func (b benchmark) pattern() string {
	elements := strings.Split(regexp.MustCompile(`-\d+$`).ReplaceAllString("Benchmark"+b.name, ""), "/")
	for i, e := range elements {
		elements[i] = "^" + regexp.QuoteMeta(e) + "$"
	}
	return strings.Join(elements, "/")
}

// results are the values of each benchmark, by unit, one per round. The units come from benchfmt, which turns nanoseconds
// into seconds.
type results map[benchmark]map[string][]float64

// read adds the output of benchmarks.
func (r results) read(text io.Reader, name string) error {
	reader := benchfmt.NewReader(text, name)
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return record
		case *benchfmt.Result:
			b := benchmark{pkg: record.GetConfig("pkg"), name: string(record.Name.Full())}
			if r[b] == nil {
				r[b] = map[string][]float64{}
			}
			for _, v := range record.Values {
				r[b][v.Unit] = append(r[b][v.Unit], v.Value)
			}
		}
	}
	return reader.Err()
}

// split returns the benchmarks that both results have, and those that only one has.
func split(base, head results) (both, onlyBase, onlyHead []benchmark) {
	order := func(a, b benchmark) int { return strings.Compare(a.String(), b.String()) }
	for _, b := range slices.SortedFunc(maps.Keys(base), order) {
		if head[b] == nil {
			onlyBase = append(onlyBase, b)
		} else {
			both = append(both, b)
		}
	}
	for _, b := range slices.SortedFunc(maps.Keys(head), order) {
		if base[b] == nil {
			onlyHead = append(onlyHead, b)
		}
	}
	return both, onlyBase, onlyHead
}

// A figure is a quantity that benchmarks report. It says whether growth is a slowdown.
type figure struct {
	unit, name string
	decides    bool
}

var figures = []figure{
	{"cpu-sec/job", "processor time", true},
	{"sec/job", "wall time", true},
	{"fsyncs/job", "fsyncs", false},
	{"bytes/job", "bytes", false},
	{"allocs/job", "allocations", false},
}

const (
	// maxGrowth is how much a figure may grow.
	maxGrowth = 0.05
	// maxChance is the p below which a growth is significant.
	maxChance = 0.05
)

// A change is a benchmark's old and new value of a figure.
type change struct {
	benchmark  benchmark
	figure     figure
	base, head float64 // medians
	growth     float64 // median of the rounds
	p          float64 // of the rounds
	u          float64 // benchstat's p, which ignores which values belong to the same round
}

// grown reports whether the figure has grown significantly by maxGrowth or more.
func (c change) grown() bool { return c.p < maxChance && c.growth >= maxGrowth }

func (c change) String() string {
	return fmt.Sprintf("%s: %s per job %+.1f %% (p=%.3f)", c.benchmark, c.figure.name, 100*c.growth, c.p)
}

// compare compares the figures that both results have.
func compare(base, head results) (changes []change, err error) {
	both, _, _ := split(base, head)
	for _, b := range both {
		for _, f := range figures {
			before, now := base[b][f.unit], head[b][f.unit]
			if len(before) != len(now) {
				return nil, fmt.Errorf("%s has %d values of %s at the base, and %d here", b, len(before), f.unit, len(now))
			}
			if len(before) == 0 || slices.Min(before) <= 0 || slices.Min(now) <= 0 {
				continue // a store makes no fsyncs
			}
			c := change{benchmark: b, figure: f}
			c.growth, c.p = paired(before, now)
			s1, s2 := sample(before), sample(now)
			c.base, c.head, c.u = median(s1), median(s2), benchmath.AssumeNothing.Compare(s1, s2).P
			changes = append(changes, c)
		}
	}
	return changes, nil
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds) // NewSample sorts its argument
}

func median(s *benchmath.Sample) float64 { return benchmath.AssumeNothing.Summary(s, 0.95).Center }

// slower returns the changes that decide.
func slower(changes []change) (slower []change) {
	for _, c := range changes {
		if c.figure.decides && c.grown() {
			slower = append(slower, c)
		}
	}
	return slower
}

// print writes a table of the changes.
func print(w io.Writer, changes []change) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var last benchmark
	for _, c := range changes {
		if c.benchmark != last {
			last = c.benchmark
			fmt.Fprintf(table, "\n%s\n  per job\tbase\there\tchange\tp\tp of benchstat\n", last)
		}
		growth := "~" // as benchstat writes it
		if c.p < maxChance {
			growth = fmt.Sprintf("%+.1f %%", 100*c.growth)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%.3f\t%.3f\n", c.figure.name, amount(c.base, c.figure), amount(c.head, c.figure), growth, c.p, c.u)
	}
	fmt.Fprintln(table)
	if err := table.Flush(); err != nil {
		return err
	}
	for _, c := range changes {
		if c.grown() && !c.figure.decides {
			fmt.Fprintf(w, "more, which does not decide: %s\n", c)
		}
	}
	return nil
}

func amount(value float64, f figure) string {
	if strings.Contains(f.unit, "sec") {
		return fmt.Sprintf("%.4g µs", value*1e6)
	}
	return fmt.Sprintf("%.4g", value)
}
