package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/bench"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/load/limits"
	"github.com/daybookq/daybook/internal/load/works"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	server   config.ServerAddress
	data     string
	duration config.DurationFlag
	json     bool
}

const (
	minBenchMs = 5_000
	maxBenchMs = 30 * 60_000
	// benchEnd is how long deleting the queues may take after the measurement has ended or was interrupted.
	benchEnd = 10 * time.Minute
)

func newBench() *cobra.Command {
	f := benchFlags{duration: config.DurationFlag(time.Minute)}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this machine is, and what limits it",
		Long: `Measure in about a minute how many jobs a server creates, claims and completes each second, how long that
takes at half of that rate, and what limits it: the processors, the disk or the network.

Without --server, the command starts a server of its own, on a free port that only this machine can connect
to, in a temporary directory on the disk of --data. The data in --data are not touched. With --server it
measures that server, in queues of a client name of its own (bench- and random characters), so jobs of others
are not touched; they take longer meanwhile. At the end, and after Ctrl-C, the command deletes the directory
or the queues. A second Ctrl-C ends it at once, and leaves them.

Everything is on disk before the server answers, as always. The load, which runs on this machine, is the Go
client: bulk posts of 1,000 jobs from 16 connections; claims and completions of 100 jobs from 16 connections;
a Worker with 16 handlers that do nothing; single creates from 64 goroutines; and one job after the other,
created, claimed and completed. Payloads have 100 bytes.

"jobs/s" and "p99 at peak" are measured while each caller sends its next call when the last one is answered.
The other columns are measured with calls that are due at fixed times, half as many a second. Their latency
counts from the time when they were due, so it includes all waiting. That of the Worker is from the creation
of a job to the end of its completion.`,
		Example: `  daybook bench
  daybook bench --data /var/lib/daybook --duration 5m
  daybook bench --server http://127.0.0.1:1717 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.CheckDuration("--duration", f.duration, minBenchMs, maxBenchMs); err != nil {
				return terminal.Usage(err)
			}
			return measure(cmd, &f)
		},
	}
	config.ServerFlag(cmd, &f.server)
	cmd.Flags().Lookup("server").DefValue = "a server of its own"
	remote.JSONFlag(cmd, &f.json)
	cmd.Flags().StringVar(&f.data, "data", config.DefaultData, "data directory whose disk is measured; it need not exist, and nothing in it is changed")
	cmd.Flags().Var(&f.duration, "duration", "about how long to measure")
	cobra.CheckErr(cmd.MarkFlagDirname("data"))
	return cmd
}

// measure measures, deletes what it has made, and prints the result.
func measure(cmd *cobra.Command, f *benchFlags) (err error) {
	ctx, stop := terminal.UntilInterrupted(cmd.Context())
	defer stop()
	b := benchRun{show: bench.NewProgress(cmd.ErrOrStderr(), time.Duration(f.duration))}
	defer b.show.End()
	b.Runner = limits.Runner{Processors: runtime.GOMAXPROCS(0), Length: time.Duration(f.duration), Progress: b.show.Step}
	if cmd.Flags().Changed("server") || cmd.Flags().Changed("context") {
		err = b.given(ctx, f)
	} else if err = checkServerSystem(cmd); err == nil {
		err = b.own(ctx, f)
	}
	if err != nil {
		return interruptedOr(ctx, err)
	}
	report, err := b.report(ctx)
	if err != nil {
		err = interruptedOr(ctx, err)
	}
	removed := b.remove(context.WithoutCancel(ctx)) // also if the measurement failed
	if err != nil {
		return errors.Join(err, removed)
	}
	b.show.End()
	if f.json {
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		return errors.Join(removed, encoder.Encode(report))
	}
	return errors.Join(removed, report.Print(cmd.OutOrStdout()))
}

// benchRun is one run of bench.
type benchRun struct {
	limits.Runner
	show    *bench.Progress
	what    string                      // a name for what is measured
	version string                      // of the server
	remove  func(context.Context) error // deletes the queues of the measurement
}

// report measures.
func (b *benchRun) report(ctx context.Context) (*bench.Report, error) {
	began := time.Now()
	result, err := b.Run(ctx)
	if err != nil {
		return nil, err
	}
	return &bench.Report{
		Version: version, Server: b.what, ServerVersion: b.version, Date: began.UTC().Truncate(time.Second), Seconds: time.Since(began).Seconds(),
		Processors: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH, Result: result,
	}, nil
}

// given prepares to measure the server of --server.
func (b *benchRun) given(ctx context.Context, f *benchFlags) error {
	url, err := f.server.URL(ctx)
	if err != nil {
		return err
	}
	o, err := f.server.Options(client.Options{})
	if err != nil {
		return err
	}
	b.what, b.Target = f.server.String(), works.NewTarget(url, o)
	v, err := b.Target.Version(ctx)
	if err != nil {
		return err
	}
	b.version = v.Version
	b.remove = func(ctx context.Context) error { return deleteQueues(ctx, b.Target, b.show) }
	b.show.Say("measuring %s in queues of client %s, which are deleted at the end; other jobs take longer meanwhile", b.what, b.Target.Name)
	return nil
}

// own starts a server to measure.
func (b *benchRun) own(ctx context.Context, f *benchFlags) error {
	own, err := bench.StartServer(ctx, f.data, b.show)
	if err != nil {
		return err
	}
	b.what, b.version = "a server of its own, in "+own.Dir, version
	b.Target, b.Local, b.Dir = works.NewTarget(own.Url, client.Options{}), true, own.Dir
	b.remove = func(context.Context) error {
		b.Target.Close()
		return own.End()
	}
	b.show.Say("measuring %s, which is deleted at the end", b.what)
	return nil
}

// interruptedOr returns ErrInterrupted if ctx has ended, and otherwise err.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return bench.ErrInterrupted
	}
	return err
}

// deleteQueues deletes the queues of a target.
func deleteQueues(ctx context.Context, t *works.Target, show *bench.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, benchEnd)
	defer cancel()
	defer t.Close()
	show.Deleting(0)
	defer show.End()
	if err := t.Delete(ctx, show.Deleting); err != nil {
		return fmt.Errorf("%w; jobs of client %s remain: delete them with DELETE /queues/%s/TYPE/jobs?status=all", err, t.Name, t.Name)
	}
	return nil
}
