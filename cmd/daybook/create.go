package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// attributeFlags are the attributes of the jobs of a command.
type attributeFlags struct {
	client, typ             string
	priority, maxAttempts   int
	runAt                   timeFlag
	delay, lease, retention durationFlag
	timeout                 durationFlag
	expires                 timeFlag
	meta                    []string
	begun                   bool // the command goes on with what it began before, maybe days ago
}

func (f *attributeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.client, "client", job.DefaultName, "client of the job")
	flags.StringVar(&f.typ, "type", job.DefaultName, "type of the job")
	flags.IntVar(&f.priority, "priority", job.DefaultPriority, "priority, 0 to 9; jobs with a higher priority are claimed first")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how many times the job may run (default: the server's)")
	flags.Var(&f.runAt, "run-at", "time before which the job does not run: "+timeForms)
	flags.Var(&f.delay, "delay", "how long the job waits before it may run")
	flags.Var(&f.lease, "lease", "how long a runner may hold the job without a tickle (default: the server's)")
	flags.Var(&f.retention, "retention", "how long the job is kept after its end (default: the server's)")
	flags.Var(&f.timeout, "timeout", "how long a run may last (default: no limit)")
	flags.Var(&f.expires, "expires-at", "time at which the job is cancelled unless it has started; as --run-at")
	flags.StringArrayVar(&f.meta, "meta", nil, "NAME=VALUE for the job; may be given several times")
	for _, name := range []string{"delay", "lease", "retention", "timeout"} {
		flags.Lookup(name).DefValue = "" // otherwise the help shows 0s as the default
	}
	completeFlag(cmd, "client", clientNames)
	completeFlag(cmd, "type", typeNames)
}

// attributes returns the attributes that were given.
func (f *attributeFlags) attributes(cmd *cobra.Command) (a client.Attributes, err error) {
	for _, err := range []error{
		job.CheckName("--client", f.client), job.CheckName("--type", f.typ), job.CheckRange("--priority", int64(f.priority), 0, job.MaxPriority),
	} {
		if err != nil {
			return a, usageError{err}
		}
	}
	if f.runAt != 0 && f.delay != 0 {
		return a, usageError{errors.New("--run-at and --delay exclude each other")}
	}
	if !f.begun {
		for _, err := range []error{f.runAt.notPast("--run-at"), f.expires.notPast("--expires-at")} {
			if err != nil {
				return a, usageError{err}
			}
		}
	}
	a = client.Attributes{
		Priority: &f.priority, MaxAttempts: f.maxAttempts, RunAt: int64(f.runAt), DelayMs: f.delay.ms(), LeaseMs: f.lease.ms(),
		TimeoutMs: f.timeout.ms(), ExpiresAt: int64(f.expires),
	}
	if cmd.Flags().Changed("retention") {
		ms := f.retention.ms()
		a.RetentionMs = &ms
	}
	if a.Meta, err = metaPairs(f.meta); err != nil {
		return a, err
	}
	return a, nil
}

// metaPairs parses the values of --meta.
func metaPairs(pairs []string) (map[string]string, error) {
	var meta map[string]string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--meta %q is not NAME=VALUE", pair)}
		}
		if meta == nil {
			meta = map[string]string{}
		}
		meta[name] = value
	}
	return meta, nil
}

type createFlags struct {
	remote
	attributeFlags
	file, key, uniqueKey string
	binary, input        string
	asValue, wait        bool
	onComplete           string
}

func newCreate() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create [PAYLOAD]",
		Short: "Create one job",
		Long: `Create one job with a payload. The payload is the argument, or a file, or with --file - standard input. It is
sent as text, or with --value as a JSON value; bytes that are not UTF-8 are sent as they are.

The command prints the id of the job when the job is on the server's disk. With --wait it goes on until the
job has ended, and prints its output. The exit code is then 15 if the job has failed, and 16 if it was cancelled.

"daybook add" creates many jobs from the lines of a file.`,
		Example: `  daybook create --type resize cat.jpg
  daybook create --type mail --value '{"to": "a@example.com"}' --run-at "tomorrow 08:00"
  daybook create --type sum --wait '1 2 3'
  daybook create --binary-addr sha256:… --input-addr sha256:…`,
		Args: cobra.MaximumNArgs(1),
	}
	overServer(&f.remote, cmd, func(cmd *cobra.Command, args []string) error { return create(cmd, &f, args) })
	f.attributeFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "file with the payload; - is standard input")
	flags.BoolVar(&f.asValue, "value", false, "the payload is a JSON value")
	flags.StringVar(&f.uniqueKey, "unique-key", "", "at most one unfinished job of the queue has this key: the command then prints that job")
	flags.StringVar(&f.key, "key", "", "idempotency key: a second create with this key within 24 hours creates nothing (default: a new one)")
	flags.StringVar(&f.binary, "binary-addr", "", "address of a WASI binary that the job runs, in place of a payload")
	flags.StringVar(&f.input, "input-addr", "", "address of the input of that binary")
	flags.StringVar(&f.onComplete, "on-complete", "", "type of the job that is created with the output of this one when it completes")
	flags.BoolVar(&f.wait, "wait", false, "wait until the job has ended, and print its output")
	jsonFlag(cmd, &f.asJSON)
	return cmd
}

func create(cmd *cobra.Command, f *createFlags, args []string) error {
	j, err := f.newJob(cmd, args)
	if err != nil {
		return err
	}
	if err := f.connect(cmd); err != nil {
		return err
	}
	created, err := f.c.Create(cmd.Context(), j)
	if err != nil {
		return err
	}
	if !f.wait {
		if f.asJSON {
			return writeDocument(f.out, created.Text)
		}
		_, err := fmt.Fprintln(f.out, created.ID)
		return err
	}
	return awaitJob(cmd.Context(), &f.remote, created.ID)
}

func (f *createFlags) newJob(cmd *cobra.Command, args []string) (j client.NewJob, err error) {
	if j.Attributes, err = f.attributes(cmd); err != nil {
		return j, err
	}
	switch {
	case len(args) > 0 && f.file != "":
		return j, usageError{errors.New("the payload is either the argument or --file")}
	case len(args) > 0:
		j.Payload = []byte(args[0])
	case f.file == "-":
		j.Payload, err = io.ReadAll(io.LimitReader(inputReader{cmd.InOrStdin()}, job.MaxPayloadBytes+1))
	case f.file != "":
		j.Payload, err = os.ReadFile(f.file)
	}
	if err != nil {
		return j, err
	}
	if len(j.Payload) > job.MaxPayloadBytes {
		return j, usageError{fmt.Errorf("the payload has more than %d bytes, which is the maximum; store it with `daybook blob put`, and send its address", job.MaxPayloadBytes)}
	}
	if f.asValue {
		if !json.Valid(j.Payload) {
			return j, usageError{errors.New("the payload is not a JSON value; without --value it is sent as text")}
		}
		j.Kind = client.JSON
	}
	j.Client, j.Type, j.UniqueKey, j.BinaryAddr, j.InputAddr = f.client, f.typ, f.uniqueKey, f.binary, f.input
	if j.Key = f.key; j.Key == "" {
		j.Key = client.NewKey()
	}
	if f.onComplete != "" {
		if err := job.CheckName("--on-complete", f.onComplete); err != nil {
			return j, usageError{err}
		}
		j.OnComplete = &client.FollowOn{Type: f.onComplete}
	}
	return j, nil
}

// awaitJob waits for the end of a job, and prints its output, or with --json its document. It is an error if the job has
// not completed.
func awaitJob(ctx context.Context, r *remote, id string) error {
	for {
		o, err := r.c.Output(ctx, id, time.Minute)
		if errors.Is(err, client.ErrConflict) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		var j *client.Job
		if r.asJSON || o.Status != job.Completed.String() {
			if j, err = r.c.Job(ctx, id); err != nil {
				return err
			}
		}
		if r.asJSON {
			err = writeDocument(r.out, j.Text)
		} else if len(o.Bytes) > 0 {
			err = printOutput(r.out, &o)
		}
		if err != nil || o.Status == job.Completed.String() {
			return err
		}
		return &notCompleted{"the job " + id, o.Status, j.Error}
	}
}

// printOutput writes the output of a job. A text on a terminal ends with a newline, and cannot change the terminal.
func printOutput(w io.Writer, o *client.Output) error {
	if !isTerminal(w) {
		_, err := w.Write(o.Bytes)
		return err
	}
	if o.Kind == client.Bytes {
		_, err := fmt.Fprintf(w, "%d bytes\n", len(o.Bytes))
		return err
	}
	_, err := fmt.Fprintln(&plainText{to: w}, strings.TrimSuffix(string(o.Bytes), "\n"))
	return err
}
