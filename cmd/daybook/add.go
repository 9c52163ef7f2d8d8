package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

const (
	// addPatience is how long a body is sent again to a server that refuses it for now.
	addPatience = time.Minute
	// addSilence is how long a stream may be silent before the lines that have arrived are posted.
	addSilence = 50 * time.Millisecond
)

type addFlags struct {
	server                  serverAddress
	client, typ             string
	priority, maxAttempts   int
	runAt                   int64
	delay, lease, retention durationFlag
	key                     string
	inFlight, skipLines     int
	stripCR                 bool
	asJSON                  bool
}

func newAdd() *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add [FILE]",
		Short: "Post the lines of a file as jobs",
		Long: `Post each line of a file as the payload of a job. Without a file, or with -, post the lines of standard
input. Empty lines are skipped.

The lines are sent in bodies of up to 1 MiB, several at the same time. Each body becomes a batch: the
server stores all of it or nothing. The id of each batch is printed, in order, when the batch is on the
server's disk.

If an answer is lost, the body is sent again with the same idempotency key, so that it is stored once. If
the server refuses a body for now, it is sent again for up to a minute.

If add of a file fails, it prints a --key. Run the same command with that --key within 24 hours to store
only what is missing. With --key, standard input is split into bodies by size, as a file is. Without it,
the lines of a stream are posted as they arrive.

Lines are stored unchanged. Use --skip-lines 1 to leave out the header of a CSV file, and --strip-cr to
remove the carriage returns of a file from Windows.`,
		Example: `  daybook add --type resize images.txt
  daybook add --type import --skip-lines 1 --strip-cr orders.csv
  find /data -type f | daybook add --client acme --type index --priority 7 --delay 10m`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	serverFlag(cmd, &f.server)
	flags.StringVar(&f.client, "client", job.DefaultName, "client of the jobs")
	flags.StringVar(&f.typ, "type", job.DefaultName, "type of the jobs")
	flags.IntVar(&f.priority, "priority", job.DefaultPriority, "priority of the jobs, 0 to 9; jobs with a higher priority are claimed first")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how many times a job may run (default: the server's)")
	flags.Int64Var(&f.runAt, "run-at", 0, "time before which the jobs do not run, in unix milliseconds")
	flags.Var(&f.delay, "delay", "how long the jobs wait before they may run")
	flags.Var(&f.lease, "lease", "how long a runner may hold a job without a tickle (default: the server's)")
	flags.Var(&f.retention, "retention", "how long ended jobs are kept (default: the server's)")
	for _, name := range []string{"delay", "lease", "retention"} {
		flags.Lookup(name).DefValue = "" // otherwise the help shows 0s as the default
	}
	flags.StringVar(&f.key, "key", "", "idempotency key of the whole input; give that of an earlier add to continue it (default: a new one)")
	flags.IntVar(&f.inFlight, "in-flight", 4, "how many bodies are sent at the same time")
	flags.IntVar(&f.skipLines, "skip-lines", 0, "how many lines at the beginning are left out")
	flags.BoolVar(&f.stripCR, "strip-cr", false, "remove a carriage return at the end of each line")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, one batch per line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return add(cmd, &f, args) }
	return cmd
}

// openInput opens the file that is the only argument; without one, or with -, it is standard input. The caller calls end.
func openInput(cmd *cobra.Command, args []string) (in io.Reader, end func(), err error) {
	if len(args) == 0 || args[0] == "-" {
		return cmd.InOrStdin(), func() {}, nil
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, nil, err
	}
	return file, func() { file.Close() }, nil // only read, so the error does not matter
}

func add(cmd *cobra.Command, f *addFlags, args []string) error {
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	url, err := reach(cmd, &f.server)
	if err != nil {
		return err
	}
	in, end, err := openInput(cmd, args)
	if err != nil {
		return err
	}
	defer end()
	lines := bufio.NewReader(inputReader{in})
	for range f.skipLines {
		for {
			if _, err = lines.ReadSlice('\n'); err != bufio.ErrBufferFull {
				break
			}
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	if f.key == "" {
		options.Key = client.NewKey()
		if !isFile(in) {
			options.FlushAfter = addSilence
		}
	}
	a := adding{cmd: cmd, asJSON: f.asJSON, watched: isTerminal(cmd.ErrOrStderr()), start: time.Now()}
	options.Stored, options.Progress = a.stored, a.progress
	result, err := client.New(url, client.Options{RetryFor: addPatience}).Add(cmd.Context(), lines, options)
	if a.watched {
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	if err == nil {
		return a.failed
	}
	if errors.Is(err, client.ErrKeyReused) {
		return fmt.Errorf("the input is not the one that was added with --key %s before: %d lines are the same, and the rest was not stored; to add a new input, leave out --key: %w",
			options.Key, result.Jobs, err)
	}
	err = fmt.Errorf("%d lines are stored in %d batches, and then add failed: %w", result.Jobs, len(result.Bodies), err)
	if options.FlushAfter == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "To store only what is missing, run the same command with --key %s within 24 hours.\n", options.Key)
	}
	return err
}

// options returns the attributes that were given. The server sets the others.
func (f *addFlags) options(cmd *cobra.Command) (o client.AddOptions, err error) {
	for _, err := range []error{
		job.CheckName("--client", f.client), job.CheckName("--type", f.typ), job.CheckRange("--priority", int64(f.priority), 0, job.MaxPriority),
		job.CheckRange("--in-flight", int64(f.inFlight), 1, maxInFlight), job.CheckRange("--skip-lines", int64(f.skipLines), 0, maxSkipLines),
	} {
		if err != nil {
			return o, usageError{err}
		}
	}
	// The client appends the offset of each body to the key, which makes it longer.
	if cmd.Flags().Changed("key") {
		if err := job.CheckText("--key", f.key, 1, job.MaxKeyBytes/2); err != nil {
			return o, usageError{err}
		}
	}
	o.Client, o.Type, o.Key, o.InFlight, o.StripCR = f.client, f.typ, f.key, f.inFlight, f.stripCR
	o.Priority = &f.priority
	o.MaxAttempts, o.RunAt, o.DelayMs, o.LeaseMs = f.maxAttempts, f.runAt, f.delay.ms(), f.lease.ms()
	if cmd.Flags().Changed("retention") {
		ms := f.retention.ms()
		o.RetentionMs = &ms
	}
	return o, nil
}

const (
	maxInFlight  = 64      // more do not make the server faster
	maxSkipLines = 1 << 20 // headers are shorter
)

// adding is what add prints while it runs.
type adding struct {
	cmd     *cobra.Command
	asJSON  bool
	watched bool
	start   time.Time
	failed  error // the first error of printing
}

// stored prints a batch.
func (a *adding) stored(b client.AddedBody) {
	if b.Count == 0 || a.failed != nil {
		return
	}
	if a.asJSON {
		a.failed = json.NewEncoder(a.cmd.OutOrStdout()).Encode(map[string]any{
			"batch_id": b.BatchID, "count": b.Count, "first_id": b.FirstID, "last_id": b.LastID,
		})
	} else {
		_, a.failed = fmt.Fprintln(a.cmd.OutOrStdout(), b.BatchID)
	}
}

func (a *adding) progress(p client.AddProgress) {
	if a.watched {
		rate := float64(p.Jobs) / max(time.Since(a.start).Seconds(), 0.001)
		fmt.Fprintf(a.cmd.ErrOrStderr(), "\r%d lines, %s, %.0f lines/s ", p.Jobs, sizeText(p.Bytes), rate)
	}
}

// inputError is an error of reading the input.
type inputError struct{ err error }

func (e *inputError) Error() string { return "read input: " + e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// inputReader marks the errors of the input, so that exitCode can distinguish them from those of the server.
type inputReader struct{ io.Reader }

func (r inputReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &inputError{err}
	}
	return n, err
}

// isFile reports whether the input is a file, which can be read again.
func isFile(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}
