package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/input"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// askFrom is the number of jobs from which a command asks before it changes them.
const askFrom = 1001

// errNotConfirmed means that a person has answered no.
var errNotConfirmed = errors.New("nothing was changed")

// bulk is a command that changes jobs: some by their ids, or the jobs of a batch or queue. Without ofBatch and ofQueue,
// it accepts ids only.
type bulk struct {
	remote.Command
	batch, queue, status string
	dryRun, yes, noWait  bool
	isJob                bool // all ids belong to jobs, even one that a batch has too

	verb, done string       // cancel, cancelled
	allowed    []job.Status // the statuses that the jobs may have
	standard   []job.Status // the statuses of the jobs of a batch or queue to change without --status; nil if a queue requires --status
	anyStatus  string       // the value of status that means all of them, for a queue

	one     func(ctx context.Context, id string) (*client.Job, error)
	ofBatch func(ctx context.Context, id, status string) (client.Sweep, error)
	ofQueue func(ctx context.Context, client, typ, status string) (client.Sweep, error)

	dryOne   func(ctx context.Context, j *client.Job) error // returns the error with which the server would refuse; nil: it refuses no job of allowed
	dryBatch func(ctx context.Context, id string) error     // the same for a batch
	leftOut  string                                         // the jobs of a queue that the server skips; "": none
}

// command adds the flags and the arguments of b to a command.
func (b *bulk) command(cmd *cobra.Command) *cobra.Command {
	config.EncryptionFlag(cmd, &b.Command.Server)
	remote.Over(&b.Command, cmd, b.run)
	cmd.Use += " [ID...]"
	names, which := ", or by - with the ids on standard input, one per line.", "--job says that the job is meant"
	if b.ofBatch != nil {
		names = "; by - with the ids on standard input, one per line; by --batch; or by --queue."
		which = "--batch says that the batch is meant, or --job that the job is"
		b.sweepFlags(cmd)
	}
	cmd.Long += "\n\nThe jobs are named by their ids" + names + `
The id of a batch that was created by one request is also that of its first job. The command refuses it if the batch
has more than one job, unless ` + which + `.
With --dry-run, the command only says which jobs it would ` + b.verb + `. It asks before it changes more than 1,000 jobs,
unless --yes is given.`
	flags := cmd.Flags()
	flags.BoolVar(&b.dryRun, "dry-run", false, "change nothing, and say what would be changed")
	flags.BoolVarP(&b.yes, "yes", "y", false, "do not ask")
	remote.JobFlag(flags, &b.isJob, remote.JobFlagText)
	remote.JSONFlag(cmd, &b.AsJSON)
	cmd.ValidArgsFunction = config.Each(remote.JobIDs(b.allowed...))
	return cmd
}

// sweepFlags adds the flags of batches and queues.
func (b *bulk) sweepFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.batch, "batch", "", "the jobs of the batch with this id")
	flags.StringVar(&b.queue, "queue", "", "the jobs of a queue, as CLIENT/TYPE")
	flags.StringVar(&b.status, "status", "", "only jobs of the batch or queue with this status: "+statusList(b.allowed))
	flags.BoolVar(&b.noWait, "no-wait", false, "end when the server has accepted the change of a batch or queue")
	cmd.MarkFlagsMutuallyExclusive("batch", "queue")
	config.CompleteFlag(cmd, "batch", remote.BatchIDs)
	config.CompleteFlag(cmd, "queue", remote.QueueNames)
	config.CompleteFlag(cmd, "status", func(*cobra.Command, string) []string { return strings.Split(statusList(b.allowed), ", ") })
}

func statusList(list []job.Status) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.String()
	}
	return strings.Join(names, ", ")
}

func (b *bulk) run(cmd *cobra.Command, args []string) error {
	if b.ofBatch == nil && len(args) == 0 {
		return terminal.Usagef("%s requires the ids of jobs", terminal.TypedName(cmd))
	}
	if (b.batch != "" || b.queue != "") == (len(args) > 0) {
		return terminal.Usagef("%s requires the ids of jobs, or --batch, or --queue", terminal.TypedName(cmd))
	}
	if b.isJob && len(args) == 0 {
		return terminal.Usage(errors.New("--job is for ids of jobs, and not for --batch and --queue"))
	}
	if b.status != "" && (len(args) > 0 || !slices.Contains(b.allowed, namedStatus(b.status))) {
		return terminal.Usagef("--status must be one of %s, and is for --batch and --queue only", statusList(b.allowed))
	}
	if len(args) > 0 {
		return b.jobs(cmd, args)
	}
	if b.batch != "" {
		return b.sweep(cmd, "the batch "+b.batch)
	}
	return b.sweep(cmd, "the queue "+b.queue)
}

// namedStatus returns the status with a name, or 0.
func namedStatus(name string) job.Status {
	s, _ := job.ParseStatus(name)
	return s
}

// jobs changes jobs one by one. If one cannot be changed, it continues with the next.
func (b *bulk) jobs(cmd *cobra.Command, ids []string) error {
	fromInput := slices.Equal(ids, []string{"-"})
	if fromInput {
		var err error
		if ids, err = readIDs(cmd.InOrStdin()); err != nil {
			return err
		}
	}
	if err := remote.CheckIDs(ids...); err != nil {
		return err
	}
	if !b.dryRun {
		if err := b.confirm(cmd, int64(len(ids)), "", fromInput); err != nil {
			return err
		}
	}
	if err := b.Connect(cmd); err != nil {
		return err
	}
	if !b.isJob {
		ofBatch := ""
		if b.ofBatch != nil {
			ofBatch = "--batch"
		}
		if err := remote.RefuseBatches(cmd, b.Client, ids, ofBatch); err != nil {
			return err
		}
	}
	return b.EachJob(cmd, ids, b.done, b.job)
}

// job changes one job, or with --dry-run prints the change.
func (b *bulk) job(ctx context.Context, id string) error {
	if !b.dryRun {
		j, err := b.one(ctx, id)
		if err != nil {
			return err
		}
		return b.PrintJob(j)
	}
	j, err := b.Client.Job(ctx, id)
	if err != nil {
		return err
	}
	stays := !slices.Contains(b.allowed, namedStatus(j.Status))
	if !stays && b.dryOne != nil {
		if err := b.dryOne(ctx, j); err != nil {
			return err
		}
	}
	if b.AsJSON {
		return json.NewEncoder(b.Out).Encode(map[string]any{"operation": b.verb, "job_id": id, "status": j.Status, "would_move": !stays})
	}
	if stays {
		_, err = fmt.Fprintf(b.Out, "%s is %s and would stay so\n", id, j.Status)
	} else {
		_, err = fmt.Fprintf(b.Out, "%s is %s and would be %s\n", id, j.Status, b.done)
	}
	return err
}

// maxIDs bounds how many ids are read from standard input.
const maxIDs = 1_000_000

// readIDs reads ids, one per line. It ignores the rest of a line after the id, so that lists can be passed on.
func readIDs(in io.Reader) (ids []string, err error) {
	lines := bufio.NewScanner(input.Reader{Reader: in})
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 0 {
			ids = append(ids, fields[0])
		}
		if len(ids) > maxIDs {
			return nil, terminal.Usagef("standard input has more than %d ids", maxIDs)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, terminal.Usagef("line %d of standard input is too long for one that begins with an id", len(ids)+1)
	}
	return ids, lines.Err()
}

// sweep changes the jobs of a batch or queue.
func (b *bulk) sweep(cmd *cobra.Command, what string) error {
	ctx := cmd.Context()
	var q config.QueueName
	if b.batch != "" {
		if err := remote.CheckIDs(b.batch); err != nil {
			return err
		}
	} else {
		var err error
		if q, err = config.ParseQueue(b.queue); err != nil {
			return err
		}
		if b.status == "" && b.anyStatus == "" && len(b.standard) == 0 {
			return terminal.Usagef("%s --queue requires --status", terminal.TypedName(cmd))
		}
	}
	if err := b.Connect(cmd); err != nil {
		return err
	}
	n, text, err := b.count(ctx, q)
	if err != nil {
		return err
	}
	if b.dryRun {
		if b.batch != "" && b.dryBatch != nil {
			if err := b.dryBatch(ctx, b.batch); err != nil {
				return err
			}
		}
		if b.AsJSON {
			return json.NewEncoder(b.Out).Encode(map[string]any{"operation": b.verb, "would_move": n, "batch_id": b.batch, "client": q.Client, "type": q.Type, "status": b.status})
		}
		if b.queue != "" && n > 0 && b.leftOut != "" {
			text += "; " + b.leftOut
		}
		_, err := fmt.Fprintf(b.Out, "would %s %s of %s%s\n", b.verb, terminal.JobsText(n), what, text)
		return err
	}
	if err := b.confirm(cmd, n, " of "+what, false); err != nil {
		return err
	}
	var w client.Sweep
	if b.batch != "" {
		w, err = b.ofBatch(ctx, b.batch, b.status)
	} else {
		status := b.status
		if status == "" {
			status = b.anyStatus
		}
		w, err = b.ofQueue(ctx, q.Client, q.Type, status)
	}
	if err != nil {
		return err
	}
	if !b.noWait {
		watched := terminal.IsTerminal(cmd.ErrOrStderr())
		w, err = b.Client.WaitSweep(ctx, w, func(w client.Sweep) {
			if watched {
				fmt.Fprintf(cmd.ErrOrStderr(), "\r%s %d of about %d jobs ", b.done, w.Moved, n)
			}
		})
		if watched {
			fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
		}
		if err != nil {
			return err
		}
	}
	if b.AsJSON {
		return remote.WriteDocument(b.Out, w.Text)
	}
	if !w.Done {
		_, err = fmt.Fprintf(b.Out, "the server goes on to %s jobs of %s; `daybook sweeps %s` shows how far it is\n", b.verb, what, w.ID)
		return err
	}
	skipped := ""
	if w.Skipped > 0 {
		skipped = fmt.Sprintf("; %d were left, since other jobs have their unique keys", w.Skipped)
	}
	if left := n - w.Moved - w.Skipped; b.queue != "" && b.leftOut != "" && left > 0 {
		skipped += fmt.Sprintf("; %d were left: %s", left, b.leftOut)
	}
	_, err = fmt.Fprintf(b.Out, "%s %s of %s%s\n", b.done, terminal.JobsText(w.Moved), what, skipped)
	return err
}

// count returns how many jobs would be changed now, and how many of each status as a text.
func (b *bulk) count(ctx context.Context, q config.QueueName) (n int64, text string, err error) {
	var counts map[string]int64
	if b.batch != "" {
		doc, err := b.Client.Batch(ctx, b.batch)
		if err != nil {
			return 0, "", err
		}
		counts = doc.Counts
	} else {
		doc, err := b.Client.Queue(ctx, q.Client, q.Type)
		if err != nil {
			return 0, "", err
		}
		counts = doc.Counts
	}
	statuses := b.standard
	if b.status != "" {
		statuses = []job.Status{namedStatus(b.status)}
	}
	var parts []string
	for _, s := range statuses {
		if k := counts[s.String()]; k > 0 {
			n += k
			parts = append(parts, fmt.Sprintf("%d %s", k, s))
		}
	}
	if len(parts) > 0 {
		text = ": " + strings.Join(parts, ", ")
	}
	return n, text, nil
}

// confirm asks a person before many jobs are changed. of describes the jobs. If there is nobody to ask, --yes is
// required.
func (b *bulk) confirm(cmd *cobra.Command, n int64, of string, inputUsed bool) error {
	if n < askFrom || b.yes {
		return nil
	}
	in := cmd.InOrStdin()
	if inputUsed || !terminal.IsTerminalInput(in) {
		return terminal.Usagef("this would %s %d jobs%s, which are more than %d; give --yes if that is meant, or --dry-run", b.verb, n, of, askFrom-1)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s %d jobs%s? [y/N] ", b.verb, n, of)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errNotConfirmed
	}
	return nil
}
