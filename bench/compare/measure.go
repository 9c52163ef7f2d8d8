package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// benchmark names a benchmark: the folder of its package and the full name, without the prefix Benchmark and including the
// number of processors.
type benchmark struct{ folder, name string }

func (b benchmark) String() string { return b.folder + " " + b.name }

// pattern returns the pattern that only this benchmark matches.
func (b benchmark) pattern() string {
	name := regexp.QuoteMeta("Benchmark" + regexp.MustCompile(`-\d+$`).ReplaceAllString(b.name, ""))
	return "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
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
			b := benchmark{filepath.Base(record.GetConfig("pkg")), string(record.Name.Full())}
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

// in returns the benchmarks of r that others have, or that they do not have.
func (r results) in(others results, have bool) []benchmark {
	list := slices.SortedFunc(maps.Keys(r), func(a, b benchmark) int { return strings.Compare(a.String(), b.String()) })
	return slices.DeleteFunc(list, func(b benchmark) bool { return (others[b] != nil) != have })
}

// benchTime is how long a benchmark works in a round, at least.
const benchTime = "250ms"

// everything is the pattern of the benchmarks of package matrix.
const everything = "^Benchmark(Journal|Store|Ingest|Process)$"

// names runs all benchmarks of the packages once in each tree, to find out their names. It returns the benchmarks that
// both trees have.
func (c *comparison) names(ctx context.Context) ([]benchmark, error) {
	base, head := results{}, results{}
	for i, to := range []results{base, head} {
		for _, pkg := range packages {
			fmt.Fprintf(c.progress, "trying the benchmarks of %s of the %s\n", pkg, c.trees[i].name)
			if err := c.turn(ctx, c.trees[i], pkg, everything, "1x", to, io.Discard); err != nil {
				return nil, err
			}
		}
	}
	for _, b := range base.in(head, false) {
		fmt.Fprintf(c.w, "only the base has %s\n", b)
	}
	for _, b := range head.in(base, false) {
		fmt.Fprintf(c.w, "the base does not have %s\n", b)
	}
	return base.in(head, true), nil
}

// measure measures the benchmarks in both trees, one after the other, in rounds. It keeps the text of the results in two
// files, whose names begin with stage, and prints benchstat's table of them.
func (c *comparison) measure(ctx context.Context, stage string, list []benchmark) (sides [2]results, err error) {
	var files [2]*os.File
	for i, t := range c.trees {
		sides[i] = results{}
		if files[i], err = os.Create(filepath.Join(c.out, stage+"-"+t.name+".txt")); err != nil {
			return sides, err
		}
		defer func() { err = errors.Join(err, files[i].Close()) }()
	}
	for round := range c.rounds {
		fmt.Fprintf(c.progress, "%s: round %d of %d\n", stage, round+1, c.rounds)
		for i, b := range list {
			for side := range 2 {
				side ^= (round + i) % 2
				if err := c.turn(ctx, c.trees[side], b.folder, b.pattern(), benchTime, sides[side], files[side]); err != nil {
					return sides, err
				}
			}
		}
	}
	return sides, c.table(ctx, files[0].Name(), files[1].Name())
}

// turn runs the benchmarks of a package that match a pattern.
func (c *comparison) turn(ctx context.Context, t tree, pkg, pattern, benchTime string, to results, text io.Writer) error {
	out, err := run(ctx, filepath.Join(t.dir, pkg), []string{"DAYBOOK_BINARY=" + t.server(), "TMPDIR=" + c.scratch},
		t.test(pkg), "-test.run=^$", "-test.short", "-test.bench="+pattern, "-test.benchtime="+benchTime, "-test.timeout=10m")
	if err == nil {
		_, err = text.Write(out)
	}
	if err == nil {
		err = to.read(bytes.NewReader(out), pkg)
	}
	if err != nil {
		return fmt.Errorf("measure %s of the %s: %w", pkg, t.name, err)
	}
	return nil
}

// table prints benchstat's table of two files of results.
func (c *comparison) table(ctx context.Context, base, head string) error {
	out, err := run(ctx, "", nil, "go", "tool", "benchstat", "-filter", ".unit:(cpu-sec/job OR sec/job OR fsyncs/job OR bytes/job OR allocs/job)",
		"base="+base, "here="+head)
	if err == nil {
		_, err = c.w.Write(out)
	}
	return err
}
