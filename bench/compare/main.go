package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// options are the flags.
type options struct {
	base      string
	head      string
	rounds    int
	benchTime string
	out       string
	identical bool
}

// errSlower means that a benchmark is slower.
var errSlower = errors.New("it is slower")

// minRounds is the smallest number of rounds in which a growth can be significant.
const minRounds = 6

func main() {
	var o options
	flag.StringVar(&o.base, "base", "", "the commit to compare with")
	flag.StringVar(&o.head, "head", ".", "the folder of the working tree that is compared")
	flag.IntVar(&o.rounds, "rounds", 16, "how often each benchmark runs on each side")
	flag.StringVar(&o.benchTime, "benchtime", "250ms", "how long a benchmark works in a round, at least")
	flag.StringVar(&o.out, "out", "bin/bench-compare.out", "the folder for the results as text, which benchstat reads")
	flag.BoolVar(&o.identical, "identical", false, "measure also packages whose binaries are identical on both sides, to see the noise")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := o.run(ctx, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, errSlower):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintf(os.Stderr, "compare with %q: %v\n", o.base, err)
		os.Exit(2)
	}
}

// run compares the trees. It prints the comparison to w.
func (o options) run(ctx context.Context, w, progress io.Writer) (err error) {
	if o.base == "" {
		return errors.New("no commit was named; use -base, or BASE with make")
	}
	if o.rounds < minRounds {
		return fmt.Errorf("%d rounds are too few for a significant difference; use %d or more", o.rounds, minRounds)
	}
	scratch, err := os.MkdirTemp("", "bench-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if o.head, err = filepath.Abs(o.head); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	base := tree{name: "base", dir: filepath.Join(scratch, "tree"), bin: filepath.Join(scratch, "base")}
	head := tree{name: "head", dir: o.head, bin: filepath.Join(scratch, "head")}
	remove, err := checkOut(ctx, o.head, o.base, base.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := base.takeInstrument(head); err != nil {
		return err
	}
	for _, t := range []tree{base, head} {
		fmt.Fprintf(progress, "building the %s\n", t.name)
		if err := t.build(ctx); err != nil {
			return err
		}
	}
	measured := packages
	if !o.identical {
		if measured, err = differ(base, head); err != nil {
			return err
		}
		if len(measured) == 0 {
			fmt.Fprintln(w, "the binaries are identical on both sides")
			return nil
		}
	}
	m := measurement{base: base, head: head, scratch: scratch, out: o.out, benchTime: o.benchTime, rounds: o.rounds, progress: progress}
	before, now, err := m.names(ctx, measured)
	if err != nil {
		return err
	}
	both, onlyBase, onlyHead := split(before, now)
	for _, b := range onlyBase {
		fmt.Fprintf(w, "only the base has %s\n", b)
	}
	for _, b := range onlyHead {
		fmt.Fprintf(w, "the base does not have %s\n", b)
	}
	if len(both) == 0 {
		return fmt.Errorf("no benchmark of %s is on both sides, so nothing was compared", strings.Join(measured, ", "))
	}
	return o.judge(w, both, func(stage string, list []benchmark) (base, head results, err error) {
		return m.measure(ctx, stage, list)
	})
}

// judge measures the benchmarks, and measures those that look slower again.
func (o options) judge(w io.Writer, list []benchmark, measure func(stage string, list []benchmark) (base, head results, err error)) error {
	changes, err := changesOf(w, "all", list, measure)
	if err != nil {
		return err
	}
	suspected := map[benchmark][]figure{}
	var again []benchmark
	for _, c := range slower(changes) {
		if suspected[c.benchmark] == nil {
			again = append(again, c.benchmark)
		}
		suspected[c.benchmark] = append(suspected[c.benchmark], c.figure)
	}
	if len(again) == 0 {
		fmt.Fprintln(w, "nothing is slower")
		return nil
	}
	fmt.Fprintf(w, "%d of %d benchmarks look slower, and are measured again\n", len(again), len(list))
	if changes, err = changesOf(w, "again", again, measure); err != nil {
		return err
	}
	var confirmed []string
	for _, c := range slower(changes) {
		if slices.Contains(suspected[c.benchmark], c.figure) {
			confirmed = append(confirmed, c.String())
		}
	}
	if len(confirmed) > 0 {
		return fmt.Errorf("%w than %s by %.0f %% or more, in two measurements:\n%s", errSlower, o.base, 100*maxGrowth, strings.Join(confirmed, "\n"))
	}
	fmt.Fprintln(w, "nothing is slower in the second measurement")
	return nil
}

// changesOf measures the benchmarks and prints the changes.
func changesOf(w io.Writer, stage string, list []benchmark, measure func(stage string, list []benchmark) (base, head results, err error)) ([]change, error) {
	base, head, err := measure(stage, list)
	if err != nil {
		return nil, err
	}
	changes, err := compare(base, head)
	if err != nil {
		return nil, err
	}
	return changes, print(w, changes)
}
