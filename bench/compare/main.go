package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// comparison is a comparison of two trees: the base, and the working tree.
type comparison struct {
	base, head  string // the commit, and the folder of the working tree
	rounds      int
	out         string    // folder of the results as text, which benchstat reads
	w, progress io.Writer // for results and for progress

	trees   [2]tree
	scratch string // where the benchmarks keep their files
}

// errSlower means that a benchmark is slower.
var errSlower = errors.New("it is slower")

// minRounds is the smallest number of rounds in which a growth can be significant.
const minRounds = 6

func main() {
	c := comparison{head: ".", out: "bin/bench-compare.out", w: os.Stdout, progress: os.Stderr}
	flag.StringVar(&c.base, "base", "", "the commit to compare with")
	flag.IntVar(&c.rounds, "rounds", 16, "how often each benchmark runs on each side")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := c.run(ctx)
	stop()
	switch {
	case errors.Is(err, errSlower):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintf(os.Stderr, "compare with %q: %v\n", c.base, err)
		os.Exit(2)
	}
}

// run builds both trees, measures the benchmarks that both have, and judges the results.
func (c *comparison) run(ctx context.Context) (err error) {
	if c.base == "" {
		return errors.New("no commit was named; use -base, or BASE with make")
	}
	if c.rounds < minRounds {
		return fmt.Errorf("%d rounds are too few for a significant difference; use %d or more", c.rounds, minRounds)
	}
	if c.scratch, err = os.MkdirTemp("", "bench-compare-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.scratch)) }()
	if c.head, err = filepath.Abs(c.head); err != nil {
		return err
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	base, head := tree{"base", filepath.Join(c.scratch, "tree"), filepath.Join(c.scratch, "base")}, tree{"head", c.head, filepath.Join(c.scratch, "head")}
	c.trees = [2]tree{base, head}
	remove, err := checkOut(ctx, c.head, c.base, base.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for _, t := range c.trees {
		fmt.Fprintf(c.progress, "building the %s\n", t.name)
		if err := t.build(ctx); err != nil {
			return err
		}
	}
	both, err := c.names(ctx)
	if err != nil {
		return err
	}
	if len(both) == 0 {
		return errors.New("no benchmark is on both sides, so nothing was compared")
	}
	return c.judge(both, func(stage string, list []benchmark) ([2]results, error) { return c.measure(ctx, stage, list) })
}

// judge measures the benchmarks, and measures those that look slower again.
func (c *comparison) judge(list []benchmark, measure func(stage string, list []benchmark) ([2]results, error)) error {
	var found [2]map[figure]string
	for i, stage := range []string{"all", "again"} {
		sides, err := measure(stage, list)
		if err != nil {
			return err
		}
		if found[i], err = slower(sides[0], sides[1]); err != nil {
			return err
		}
		maps.DeleteFunc(found[i], func(f figure, _ string) bool { return i > 0 && found[0][f] == "" })
		if len(found[i]) == 0 {
			fmt.Fprintln(c.w, "nothing is slower"+[]string{"", " in the second measurement"}[i])
			return nil
		}
		fmt.Fprintf(c.w, "figures that look slower: %d\n", len(found[i]))
		list = slices.DeleteFunc(slices.Clone(list), func(b benchmark) bool {
			return found[i][figure{b, cpuUnit}]+found[i][figure{b, wallUnit}] == ""
		})
	}
	return fmt.Errorf("%w than %s by %.0f %% or more, in two measurements:\n%s", errSlower, c.base, 100*maxGrowth,
		strings.Join(slices.Sorted(maps.Values(found[1])), "\n"))
}
