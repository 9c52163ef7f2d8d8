package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/input"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

type submitFlags struct {
	remote.Command
	input.Format
	runFlags
	batch     client.NewBatch
	meta      []string
	metadata  string
	retention config.DurationFlag
	chunks    bool
	wait      bool
}

func newSubmit() *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit [FILE]",
		Short: "Post the lines of a file as one batch",
		Long: `Post each line of a file as the payload of a job, all of them in one batch. Without a file, or with -, post
the lines of standard input. Empty lines are skipped. The batch is open until the last line is stored, so the
input may be of any length, and its jobs may run meanwhile. If the command is interrupted before, the batch is
cancelled.

--format says what the input is, as in "daybook add": lines are texts, each line of ndjson is a JSON value, and each row
of a csv file after its header row becomes a JSON object. An error in a line or row cancels the batch.

With --wait, the command goes on until the batch has ended. The exit code is then 15 if the batch has failed, and 16
if it was cancelled. "daybook watch" shows its progress. With --paused, no job of it is handed out before
"daybook resume --batch ID".

The status of the batch is final when it has ended. "daybook redrive" cannot run its failed jobs again then: submit
their payloads again. Of lines that "daybook add" has posted, failed jobs can be redriven at any time.`,
		Example: `  daybook submit --name nightly --type resize images.txt
  daybook submit --type resize --priority 7 --max-attempts 1 --timeout 1m images.txt
  daybook submit --type check --on-failure cancel_rest --meta user=42 --wait urls.txt
  daybook submit --type import --format csv --delimiter ';' orders.csv
  daybook submit --chunks --type parse documents.jsonl
  daybook results --follow "$(seq 10 | daybook submit --type double)"`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	f.Format.Add(cmd)
	f.runFlags.add(cmd)
	flags.StringVar(&f.batch.Name, "name", "", "name of the batch; it need not be unique")
	flags.StringVar(&f.batch.Client, "client", job.DefaultName, "client of the jobs")
	flags.StringVar(&f.batch.Type, "type", job.DefaultName, "type of the jobs")
	flags.StringArrayVar(&f.meta, "meta", nil, "NAME=VALUE for the batch and its jobs; a whole number is an integer; may be given several times")
	flags.StringVar(&f.metadata, "metadata", "", "file with metadata of the batch, 1 MiB at most")
	flags.StringVar(&f.batch.OnFailure, "on-failure", client.Continue, "what happens to the other jobs when one fails for good: continue or cancel_rest")
	flags.BoolVar(&f.batch.Paused, "paused", false, "hand out no job until the batch is resumed")
	config.OptionalDuration(flags, &f.retention, "retention", "how long the batch and its jobs are kept after their end (default: the server's)")
	flags.BoolVar(&f.chunks, "chunks", false, "store lines of more than 64 KiB as blobs of the server, up to 64 MiB each")
	flags.BoolVar(&f.wait, "wait", false, "wait until the batch has ended")
	flags.BoolVar(&f.AsJSON, "json", false, "print the document of the batch as JSON")
	config.EncryptionFlag(cmd, &f.Command.Server)
	return remote.Over(&f.Command, cmd, func(cmd *cobra.Command, args []string) error { return submit(cmd, &f, args) })
}

func submit(cmd *cobra.Command, f *submitFlags, args []string) error {
	if err := f.Check(cmd); err != nil {
		return err
	}
	attributes, err := f.attributes(cmd)
	if err != nil {
		return err
	}
	in, closeInput, err := input.Open(cmd, args)
	if err != nil {
		return err
	}
	defer closeInput()
	if err := f.Connect(cmd); err != nil {
		return err
	}
	untilSignal, end := terminal.UntilInterrupted(cmd.Context())
	defer end()
	ctx, stop := context.WithCancel(untilSignal)
	defer stop()
	made, err := input.NewLineReader(&input.StoppableReader{Ctx: untilSignal, In: in}, &f.Format)
	if err != nil {
		return err
	}
	lines := input.Jobs{In: bufio.NewReaderSize(made, input.BufferBytes), Stop: stop, Most: job.MaxPayloadBytes, PayloadKind: f.PayloadKind(), StripCR: f.StripCR, Skipped: f.SkipLines, Attributes: attributes}
	var store *chunks.Store
	if f.chunks {
		store, lines.Most = &chunks.Store{}, input.MaxStoredLine
	}
	s, err := chunks.Submit(ctx, f.Client, f.batch, lines.All(), store)
	if lines.Err != nil {
		err = lines.Err
	}
	if err != nil && (untilSignal.Err() != nil || errors.Is(err, terminal.ErrInterrupted)) {
		err = terminal.ErrInterrupted
	}
	if err != nil {
		return unfinished(cmd, s, err)
	}
	if s.Count == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "the input has no lines: the batch has no jobs")
	}
	var b client.Batch
	if f.wait {
		if b, err = s.Wait(untilSignal); untilSignal.Err() != nil {
			err = fmt.Errorf("%w; the batch %s goes on", terminal.ErrInterrupted, s.ID)
		}
	} else if f.AsJSON {
		b, err = f.Client.Batch(cmd.Context(), s.ID)
	}
	if err != nil {
		return err
	}
	if err = f.Show(b.Text, "%s\n", s.ID); err == nil && f.wait {
		err = outcome("the batch "+s.ID, b.Status, b.Error)
	}
	return err
}

// unfinished cancels the stored part of a submission that failed.
func unfinished(cmd *cobra.Command, s *chunks.Submission, err error) error {
	if s == nil {
		return err
	}
	ctx := context.WithoutCancel(cmd.Context())
	if failed := s.Cancel(ctx); failed != nil {
		return fmt.Errorf("the batch %s has %d jobs and is still open: %w", s.ID, s.Count, errors.Join(err, failed))
	}
	return fmt.Errorf("the batch %s was cancelled after %d jobs: %w", s.ID, s.Count, err)
}

// Check checks the flags beyond what their parser does.
func (f *submitFlags) Check(cmd *cobra.Command) error {
	if err := f.Format.Check(cmd); err != nil {
		return err
	}
	if f.Kind != input.Lines && f.chunks {
		return terminal.Usage(errors.New("--chunks is for --format lines only"))
	}
	if _, err := job.ParseOnFailure(f.batch.OnFailure); err != nil {
		return terminal.Usage(err)
	}
	f.batch.RetentionMs = f.retention.MsIfGiven(cmd, "retention")
	for _, pair := range f.meta {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return terminal.Usagef("--meta %q is not NAME=VALUE", pair)
		}
		if f.batch.Meta == nil {
			f.batch.Meta = map[string]any{}
		}
		f.batch.Meta[name] = text
		if v, ok := job.ParseMetaInteger(text); ok {
			f.batch.Meta[name] = v.Integer
		}
	}
	if f.metadata == "" {
		return nil
	}
	text, err := os.ReadFile(f.metadata)
	if err == nil && len(text) > job.MaxBatchMetadataBytes {
		err = terminal.Usagef("--metadata %s has %d bytes; the maximum is %d", f.metadata, len(text), job.MaxBatchMetadataBytes)
	}
	f.batch.Metadata = text
	return err
}
