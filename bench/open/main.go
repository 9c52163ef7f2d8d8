package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	proof "github.com/daybookq/daybook/proof/report"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "open:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	length       time.Duration // of the calls at each rate
	peak, warmUp time.Duration // how long the peak is measured, and how long a work runs before it is measured
	known        float64       // jobs per second at the peak; 0: measure it
	rates        []float64     // of the open loops, as parts of the peak
	works        []works.Work
	dir          string // on the disk to measure
	out, page    string
	commit       string
}

func parse() (options, error) {
	all := []works.Work{works.Bulk, works.Drain, works.Single, works.Lifecycles}
	var names []string
	for _, w := range all {
		names = append(names, w.Name)
	}
	o := options{peak: 8 * time.Second, warmUp: time.Second, out: "bin/open-loop.json"}
	flag.DurationVar(&o.length, "for", 20*time.Second, "how long calls are due at each rate")
	flag.Float64Var(&o.known, "of", 0, "jobs a second that count as the peak, to compare servers at the same rates (default: it is measured)")
	percents := flag.String("rates", "25,50,75,95", "rates, in percent of the peak")
	chosen := flag.String("works", strings.Join(names, ","), "the works")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "a directory on the disk to measure")
	flag.StringVar(&o.page, "page", "", "page whose block is replaced by the tables, such as docs/explanation/performance.md")
	flag.Parse()
	for name := range strings.SplitSeq(*chosen, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return o, fmt.Errorf("-works: there is no work %q; the works are %s", name, strings.Join(names, ", "))
		}
		o.works = append(o.works, all[i])
	}
	for text := range strings.SplitSeq(*percents, ",") {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || percent <= 0 || percent > 1000 {
			return o, fmt.Errorf("-rates: %q is not a percentage", text)
		}
		o.rates = append(o.rates, percent/100)
	}
	if o.length < time.Second || o.known < 0 {
		return o, errors.New("-for must be at least a second, and -of not negative")
	}
	commit, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	o.commit = strings.TrimSpace(string(commit))
	return o, err
}

func run() error {
	o, err := parse()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	binary, err := daybooktest.Binary()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "daybook-open-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := report{Date: time.Now().UTC().Truncate(time.Second), Commit: o.commit, SecondsEach: o.length.Seconds()}
	if err := r.Machine.read(dir); err != nil {
		return err
	}
	m := measurement{options: o, binary: binary, dir: dir}
	for _, w := range o.works {
		result, err := m.work(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		r.Works = append(r.Works, result)
	}
	if r.Machine.Load[1], err = load.Average(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	if err := r.write(o.out); err != nil {
		return err
	}
	fmt.Print(r.markdown())
	if o.page == "" {
		return nil
	}
	return proof.ReplaceBlock(o.page, "open", r.markdown())
}
