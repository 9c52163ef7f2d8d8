package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/daybookq/daybook/bench/peers/daybook"
	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/peer"
	"github.com/daybookq/daybook/bench/peers/plot"
	"github.com/daybookq/daybook/bench/peers/report"
	"github.com/daybookq/daybook/internal/load"
	proof "github.com/daybookq/daybook/proof/report"
)

func main() {
	if port := os.Getenv(peer.EchoVar); port != "" {
		fmt.Fprintln(os.Stderr, peer.ServeEcho(port))
		os.Exit(1)
	}
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	drivers, blocks string // names, separated by commas; empty means all
	rounds          int
	turn            time.Duration
	short, syncs    bool
	dir, out, page  string
	commit          string
}

func parse(args []string, messages io.Writer) (o options, err error) {
	o.out, o.commit = filepath.Join("bin", "bench-peers.out"), commit() // for peers.json and peers.svg
	flags := flag.NewFlagSet("bench-peers", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.StringVar(&o.drivers, "drivers", "", "which clients of Daybook and which peers, separated by commas; all if empty")
	flags.StringVar(&o.blocks, "blocks", "", "which blocks of works, separated by commas; all if empty")
	flags.IntVar(&o.rounds, "rounds", 3, "how many turns each driver takes")
	flags.DurationVar(&o.turn, "turn", 1500*time.Millisecond, "about how long a turn takes")
	flags.BoolVar(&o.short, "short", false, "one round of short turns, to try it out; the figures say little")
	flags.BoolVar(&o.syncs, "syncs", true, "count with strace how often each server syncs its files for a call")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "where the servers keep their files: on the disk that is to be measured")
	flags.StringVar(&o.page, "page", "", "a page of documentation whose block of figures is replaced, and beside which the plot is written")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.short {
		o.rounds, o.turn = 1, 300*time.Millisecond
	}
	if o.rounds < 1 || o.turn <= 0 {
		return o, errors.New("-rounds and -turn must be positive")
	}
	return o, nil
}

// commit returns the commit of the tree, or "unknown" outside of a repository.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// choose returns the elements of all whose names are in a list. An empty list means all.
func choose[T any](list string, all []T, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	var chosen []T
	for wanted := range strings.SplitSeq(list, ",") {
		at := slices.Index(names, strings.TrimSpace(wanted))
		if at < 0 {
			return nil, fmt.Errorf("unknown name %q; the names are %s", wanted, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

func run(args []string, out, messages io.Writer) (err error) {
	o, err := parse(args, messages)
	if err != nil {
		return err
	}
	// The first interrupt ends the servers; a second one ends this process, and the kernel then ends the servers.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	work, err := os.MkdirTemp(o.dir, "bench-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	// A server that runs as another user must be able to reach its directory.
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	r, failed, err := compare(ctx, o, work, messages)
	if err != nil {
		return err
	}
	if err := report.Text(out, r); err != nil {
		return err
	}
	if err := write(o, r); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d works failed; the tables say why", failed)
	}
	return nil
}

// compare measures everything. failed is the number of a driver's works that ended with an error.
func compare(ctx context.Context, o options, work string, messages io.Writer) (r *measure.Report, failed int, err error) {
	drivers, err := choose(o.drivers, slices.Concat(daybook.Drivers(), peer.Drivers(work)), measure.Driver.Name)
	if err != nil {
		return nil, 0, err
	}
	blocks, err := choose(o.blocks, measure.Blocks(), func(b measure.Block) string { return b.Name })
	if err != nil {
		return nil, 0, err
	}
	r = &measure.Report{
		Date: time.Now().UTC().Truncate(time.Second), Commit: o.commit, Blocks: blocks,
		Settings: measure.Settings{Rounds: o.rounds, TurnSeconds: o.turn.Seconds(), PayloadBytes: measure.PayloadBytes},
	}
	if r.Machine, err = report.Machine(work); err != nil {
		return nil, 0, err
	}
	var there []measure.Driver
	for _, d := range drivers {
		described, err := d.Describe(ctx)
		if err != nil {
			r.Missing = append(r.Missing, measure.Missing{Driver: d.Name(), Reason: err.Error()})
			fmt.Fprintf(messages, "%s is not measured: %v\n", d.Name(), err)
			continue
		}
		r.Drivers = append(r.Drivers, described)
		there = append(there, d)
	}
	runner := &measure.Run{Drivers: there, Rounds: o.rounds, Turn: o.turn, Dir: work, Progress: func(line string) { fmt.Fprintln(messages, line) }}
	if o.syncs {
		if err := countSyncs(ctx, runner, r, messages); err != nil {
			return nil, 0, err
		}
	}
	for _, b := range blocks {
		results, err := runner.Block(ctx, b)
		if err != nil {
			return nil, 0, err
		}
		for _, result := range results {
			if result.Error != "" {
				failed++
			}
		}
		r.Results = append(r.Results, results...)
	}
	r.Targets = r.Judge(measure.Targets())
	r.Machine.Load[1], err = load.Average()
	return r, failed, err
}

// countSyncs checks the durability of each driver's server. If it cannot, it prints the reason and leaves the figures
// out.
func countSyncs(ctx context.Context, runner *measure.Run, r *measure.Report, messages io.Writer) error {
	for i, d := range runner.Drivers {
		syncs, err := runner.CountSyncs(ctx, d)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, measure.ErrUnsupported):
		case err != nil:
			fmt.Fprintf(messages, "%s: its syncs were not counted: %v\n", d.Name(), err)
		default:
			r.Drivers[i].Syncs = syncs
			fmt.Fprintf(messages, "%s: the syncs of its calls were counted\n", d.Name())
		}
	}
	return nil
}

// write writes the files of a report.
func write(o options, r *measure.Report) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if err := report.JSON(filepath.Join(o.out, "peers.json"), r); err != nil {
		return err
	}
	if err := plot.Write(filepath.Join(o.out, "peers.svg"), r); err != nil {
		return err
	}
	if o.page == "" {
		return nil
	}
	if err := plot.Write(filepath.Join(filepath.Dir(o.page), "peers.svg"), r); err != nil {
		return err
	}
	return proof.ReplaceBlock(o.page, "peers", report.Markdown(r))
}
