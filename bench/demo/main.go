package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("demo", flag.ExitOnError)
	flags.StringVar(&o.binary, "daybook", "", "the server binary; built when not given")
	flags.IntVar(&o.lines, "lines", 1_000_000, "lines to post")
	flags.IntVar(&o.runners, "runners", 4, "runner processes")
	flags.IntVar(&o.kills, "kills", 3, "times that the server is killed on the way")
	flags.StringVar(&o.data, "data", "", "data directory; a temporary one when not given")
	runner := flags.String("runner", "", "be a runner of the server at this URL instead")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *runner != "" {
		return work(ctx, *runner)
	}
	if o.lines < 1 || o.runners < 1 || o.kills < 0 {
		return errors.New("--lines and --runners must be at least 1, --kills not negative")
	}
	a, err := play(ctx, o)
	if err != nil {
		return err
	}
	if err := a.print(os.Stdout); err != nil {
		return err
	}
	if a.lost+a.wrong > 0 {
		return errors.New("jobs were lost or wrong")
	}
	return nil
}
