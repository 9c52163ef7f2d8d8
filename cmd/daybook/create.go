package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/input"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// attributeFlags are the attributes of the jobs of a command.
type attributeFlags struct {
	client, typ string
	runFlags
	retention config.DurationFlag
	meta      []string
}

// runFlags are the attributes that decide when and how often jobs run, and for how long.
type runFlags struct {
	priority, maxAttempts int
	runAt                 terminal.TimeFlag
	delay, lease, timeout config.DurationFlag
	expires               terminal.TimeFlag
	begun                 bool // the command continues one that began earlier, maybe days ago
}

func (f *attributeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.client, "client", job.DefaultName, "client of the job; without this flag, the only client of the key, if it is for one")
	flags.StringVar(&f.typ, "type", job.DefaultName, "type of the job")
	f.runFlags.add(cmd)
	config.OptionalDuration(flags, &f.retention, "retention", "how long the job is kept after its end (default: the server's)")
	flags.StringArrayVar(&f.meta, "meta", nil, "NAME=VALUE for the job; may be given several times")
	config.CompleteFlag(cmd, "client", remote.ClientNames)
	config.CompleteFlag(cmd, "type", remote.TypeNames)
}

// fill makes the client, if none was given, the only one that the key is for. It reports whether it has changed it.
func (f *attributeFlags) fill(cmd *cobra.Command, k client.Key, to *string) bool {
	if cmd.Flags().Changed("client") || len(k.Clients) != 1 || k.Clients[0] == *to {
		return false
	}
	f.client, *to = k.Clients[0], k.Clients[0]
	return true
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.priority, "priority", job.DefaultPriority, "priority, 0 to 9; jobs with a higher priority are claimed first")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how many times the job may run (default: the server's)")
	flags.Var(&f.runAt, "run-at", "time before which the job does not run: "+terminal.TimeForms)
	config.OptionalDuration(flags, &f.delay, "delay", "how long the job waits before it may run")
	config.OptionalDuration(flags, &f.lease, "lease", "how long a runner may hold the job without a tickle (default: the server's)")
	config.OptionalDuration(flags, &f.timeout, "timeout", "how long a run of the job may last (default: no limit)")
	flags.Var(&f.expires, "expires-at", "time at which the job is cancelled unless it has started; as --run-at")
}

// attributes returns the attributes that were given.
func (f *attributeFlags) attributes(cmd *cobra.Command) (a client.Attributes, err error) {
	for _, err := range []error{job.CheckName("--client", f.client), job.CheckName("--type", f.typ)} {
		if err != nil {
			return a, terminal.Usage(err)
		}
	}
	if a, err = f.runFlags.attributes(cmd); err != nil {
		return a, err
	}
	a.RetentionMs = f.retention.MsIfGiven(cmd, "retention")
	a.Meta, err = metaPairs(f.meta)
	return a, err
}

func (f *runFlags) attributes(cmd *cobra.Command) (a client.Attributes, err error) {
	if err := job.CheckRange("--priority", int64(f.priority), 0, job.MaxPriority); err != nil {
		return a, terminal.Usage(err)
	}
	if f.runAt != 0 && f.delay != 0 {
		return a, terminal.Usage(errors.New("--run-at and --delay exclude each other"))
	}
	if !f.begun {
		for _, err := range []error{f.runAt.NotPast("--run-at"), f.expires.NotPast("--expires-at")} {
			if err != nil {
				return a, terminal.Usage(err)
			}
		}
	}
	if cmd.Flags().Changed("priority") {
		a.Priority = &f.priority
	}
	return client.Attributes{
		Priority: a.Priority, MaxAttempts: f.maxAttempts, RunAt: int64(f.runAt), DelayMs: f.delay.Ms(), LeaseMs: f.lease.Ms(),
		TimeoutMs: f.timeout.Ms(), ExpiresAt: int64(f.expires),
	}, nil
}

// metaPairs parses the values of --meta.
func metaPairs(pairs []string) (map[string]string, error) {
	var meta map[string]string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, terminal.Usagef("--meta %q is not NAME=VALUE", pair)
		}
		if meta == nil {
			meta = map[string]string{}
		}
		meta[name] = value
	}
	return meta, nil
}

type createFlags struct {
	remote.Command
	attributeFlags
	file, key, uniqueKey string
	binary, input        string
	asValue, wait        bool
	waitTimeout          config.DurationFlag
	onComplete           string
}

func newCreate() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create [PAYLOAD]",
		Short: "Create one job",
		Long: `Create one job with a payload. The payload is the argument, or a file, or with --file - standard input, and
without these it is empty. It is sent as text, or with --value as a JSON value; bytes that are not UTF-8 are sent as
they are.

The command prints the id of the job when the job is on the server's disk. With --wait it goes on until the
job has ended, and prints its output, which ends with a newline on a terminal. The exit code is then 15 if the job has
failed, and 16 if it was cancelled. --timeout limits a run of the job, and --wait-timeout the wait: the exit code is 17
when it has passed, and the job goes on.

"daybook add" creates many jobs from the lines of a file.`,
		Example: `  daybook create --type resize cat.jpg
  daybook create --type mail --value '{"to": "a@example.com"}' --run-at "tomorrow 08:00"
  daybook create --type sum --wait '1 2 3'
  daybook create --binary-addr sha256:… --input-addr sha256:…`,
		Args: cobra.MaximumNArgs(1),
	}
	config.EncryptionFlag(cmd, &f.Command.Server)
	remote.Over(&f.Command, cmd, func(cmd *cobra.Command, args []string) error { return create(cmd, &f, args) })
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
	config.OptionalDuration(flags, &f.waitTimeout, "wait-timeout", "with --wait, how long the command waits at most (default: no limit)")
	remote.JSONFlag(cmd, &f.AsJSON)
	return cmd
}

func create(cmd *cobra.Command, f *createFlags, args []string) error {
	if f.waitTimeout != 0 && !f.wait {
		return terminal.Usage(errors.New("--wait-timeout is for --wait only"))
	}
	j, err := f.newJob(cmd, args)
	if err != nil {
		return err
	}
	if err := f.Connect(cmd); err != nil {
		return err
	}
	var created *client.Job
	err = f.ForKey(cmd, func() (err error) {
		created, err = f.Client.Create(cmd.Context(), j)
		return err
	}, func(k client.Key) bool { return f.fill(cmd, k, &j.Client) })
	if err != nil {
		return err
	}
	if created.Existing {
		fmt.Fprintln(cmd.ErrOrStderr(), "An unfinished job has this unique key: no job was created.")
	}
	if !f.wait {
		if f.AsJSON {
			return remote.WriteDocument(f.Out, created.Text)
		}
		_, err := fmt.Fprintln(f.Out, created.ID)
		return err
	}
	ctx := cmd.Context()
	if f.waitTimeout != 0 {
		limited, end := context.WithTimeout(ctx, time.Duration(f.waitTimeout))
		defer end()
		ctx = limited
	}
	if err = awaitJob(ctx, &f.Command, created.ID); err != nil && ctx.Err() != nil && cmd.Context().Err() == nil {
		return fmt.Errorf("the job %s: %w", created.ID, errWaitTimeout)
	}
	return err
}

func (f *createFlags) newJob(cmd *cobra.Command, args []string) (j client.NewJob, err error) {
	if j.Attributes, err = f.attributes(cmd); err != nil {
		return j, err
	}
	switch {
	case len(args) > 0 && f.file != "":
		return j, terminal.Usage(errors.New("the payload is either the argument or --file"))
	case len(args) > 0:
		j.Payload = []byte(args[0])
	case f.file != "":
		j.Payload, err = input.ReadAll(cmd, f.file, job.MaxPayloadBytes)
	}
	if err != nil {
		return j, err
	}
	if len(j.Payload) > job.MaxPayloadBytes {
		return j, terminal.Usagef("the payload has more than %d bytes, which is the maximum; store it with `daybook blob put`, and send its address", job.MaxPayloadBytes)
	}
	if f.asValue {
		if err := input.CheckValue(j.Payload); err != nil {
			return j, terminal.Usagef("the payload: %w; without --value it is sent as text", err)
		}
		j.Kind = client.JSON
	}
	j.Client, j.Type, j.UniqueKey, j.BinaryAddr, j.InputAddr = f.client, f.typ, f.uniqueKey, f.binary, f.input
	if j.Key = f.key; j.Key == "" {
		j.Key = client.NewKey()
	}
	if f.onComplete != "" {
		if err := job.CheckName("--on-complete", f.onComplete); err != nil {
			return j, terminal.Usage(err)
		}
		j.OnComplete = &client.FollowOn{Type: f.onComplete}
	}
	return j, nil
}

// awaitJob waits for the end of a job, and prints its output, or with --json its document. It returns an error if the
// job has not completed.
func awaitJob(ctx context.Context, r *remote.Command, id string) error {
	for {
		o, err := r.Client.Output(ctx, id, time.Minute)
		if errors.Is(err, client.ErrConflict) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		var j *client.Job
		if r.AsJSON || o.Status != job.Completed.String() {
			if j, err = r.Client.Job(ctx, id); err != nil {
				return err
			}
		}
		if r.AsJSON {
			err = remote.WriteDocument(r.Out, j.Text)
		} else if len(o.Bytes) > 0 {
			err = printOutput(r.Out, &o)
		}
		if err != nil || o.Status == job.Completed.String() {
			return err
		}
		return &notCompleted{"the job " + id, o.Status, j.Error}
	}
}

// printOutput writes the output of a job. A text on a terminal ends with a newline, and cannot change the terminal.
func printOutput(w io.Writer, o *client.Output) error {
	if !terminal.IsTerminal(w) {
		_, err := w.Write(o.Bytes)
		return err
	}
	if o.Kind == client.Bytes {
		_, err := fmt.Fprintf(w, "%d bytes\n", len(o.Bytes))
		return err
	}
	_, err := fmt.Fprintln(terminal.Plain(w), strings.TrimSuffix(string(o.Bytes), "\n"))
	return err
}
