package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

type submitFlags struct {
	inputFormat
	runFlags
	server    config.ServerAddress
	batch     client.NewBatch
	meta      []string
	metadata  string
	retention config.DurationFlag
	chunks    bool
	wait      bool
	asJSON    bool
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
	config.ServerFlag(cmd, &f.server)
	f.inputFormat.add(cmd)
	f.runFlags.add(cmd)
	flags.StringVar(&f.batch.Name, "name", "", "name of the batch; it need not be unique")
	flags.StringVar(&f.batch.Client, "client", job.DefaultName, "client of the jobs")
	flags.StringVar(&f.batch.Type, "type", job.DefaultName, "type of the jobs")
	flags.StringArrayVar(&f.meta, "meta", nil, "NAME=VALUE for the batch and its jobs; a whole number is an integer; may be given several times")
	flags.StringVar(&f.metadata, "metadata", "", "file with metadata of the batch, 1 MiB at most")
	flags.StringVar(&f.batch.OnFailure, "on-failure", client.Continue, "what happens to the other jobs when one fails for good: continue or cancel_rest")
	flags.BoolVar(&f.batch.Paused, "paused", false, "hand out no job until the batch is resumed")
	flags.Var(&f.retention, "retention", "how long the batch and its jobs are kept after their end (default: the server's)")
	flags.Lookup("retention").DefValue = "" // otherwise the help shows 0s as the default
	flags.BoolVar(&f.chunks, "chunks", false, "store lines of more than 64 KiB as blobs of the server, up to 64 MiB each")
	flags.BoolVar(&f.wait, "wait", false, "wait until the batch has ended")
	flags.BoolVar(&f.asJSON, "json", false, "print the document of the batch as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return submit(cmd, &f, args) }
	return cmd
}

func submit(cmd *cobra.Command, f *submitFlags, args []string) error {
	if err := f.Check(cmd); err != nil {
		return err
	}
	attributes, err := f.attributes(cmd)
	if err != nil {
		return err
	}
	in, closeInput, err := openInput(cmd, args)
	if err != nil {
		return err
	}
	defer closeInput()
	url, err := reach(cmd, &f.server)
	if err != nil {
		return err
	}
	c := newClient(cmd, url)
	untilSignal, end := terminal.UntilInterrupted(cmd.Context())
	defer end()
	ctx, stop := context.WithCancel(untilSignal)
	defer stop()
	made, err := newAddInput(&stoppableReader{ctx: untilSignal, in: in}, &f.inputFormat)
	if err != nil {
		return err
	}
	lines := jobLines{in: bufio.NewReaderSize(made, inputBytes), stop: stop, most: job.MaxPayloadBytes, kind: f.kind(), stripCR: f.stripCR, skipped: f.skipLines, attributes: attributes}
	var store *chunks.Store
	if f.chunks {
		store, lines.most = &chunks.Store{}, maxStoredLine
	}
	s, err := chunks.Submit(ctx, c, f.batch, lines.all(), store)
	if lines.err != nil {
		err = lines.err
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
	} else if f.asJSON {
		b, err = c.Batch(cmd.Context(), s.ID)
	}
	if err != nil {
		return err
	}
	if f.asJSON {
		err = writeDocument(cmd.OutOrStdout(), b.Text)
	} else {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), s.ID)
	}
	if err == nil && f.wait {
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
	if err := f.inputFormat.Check(cmd); err != nil {
		return err
	}
	if f.format != formatLines && f.chunks {
		return terminal.Usage(errors.New("--chunks is for --format lines only"))
	}
	if _, err := job.ParseOnFailure(f.batch.OnFailure); err != nil {
		return terminal.Usage(err)
	}
	if cmd.Flags().Changed("retention") {
		ms := time.Duration(f.retention).Milliseconds()
		f.batch.RetentionMs = &ms
	}
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

// inputBytes is how much of the input is read at once.
const inputBytes = 64 << 10

// stoppableReader reads an input that may be silent for long. Read fails when ctx ends.
type stoppableReader struct {
	ctx    context.Context
	in     io.Reader
	buffer [inputBytes]byte // the input is read into it, since a Read that failed must not write to its argument later
	done   chan readResult  // the result of the outstanding read
}

type readResult struct {
	n   int
	err error
}

func (r *stoppableReader) Read(p []byte) (int, error) {
	if r.done == nil {
		r.done = make(chan readResult, 1)
	}
	if r.ctx.Err() != nil {
		return 0, terminal.ErrInterrupted
	}
	size := min(len(p), len(r.buffer))
	go func() {
		n, err := r.in.Read(r.buffer[:size])
		r.done <- readResult{n, err}
	}()
	select {
	case result := <-r.done:
		return copy(p, r.buffer[:result.n]), result.err
	case <-r.ctx.Done():
		return 0, terminal.ErrInterrupted
	}
}

// jobLines turns the lines of an input that are not empty into jobs. If the input cannot be read, stop keeps the batch
// from being closed as if it had all lines.
type jobLines struct {
	in      *bufio.Reader
	stop    func()
	most    int // bytes of a line
	kind    client.Kind
	stripCR bool
	skipped int // lines of the input before the first one read

	attributes client.Attributes
	err        error
}

// maxStoredLine is the limit of a line that is stored by address: the default of Chunks.MaxBytes.
const maxStoredLine = 64 << 20

func (l *jobLines) fail(err error) {
	l.err = err
	l.stop()
}

func (l *jobLines) all() iter.Seq[client.NewJob] {
	return func(yield func(client.NewJob) bool) {
		for number := l.skipped + 1; ; number++ {
			line, err := l.next()
			if l.stripCR {
				line = bytes.TrimSuffix(line, []byte{'\r'})
			}
			if len(line) > l.most {
				l.fail(fmt.Errorf("line %d has more than %d bytes, which is the maximum of a payload", number, l.most))
				return
			}
			if len(line) > 0 && !yield(client.NewJob{Payload: line, Kind: l.kind, Attributes: l.attributes}) {
				return
			}
			if err != nil {
				if err != io.EOF {
					l.fail(err)
				}
				return
			}
		}
	}
}

// next returns the next line without its newline, or the beginning of a line that is longer than a payload may be.
func (l *jobLines) next() (line []byte, err error) {
	for len(line) <= l.most {
		var part []byte
		part, err = l.in.ReadSlice('\n')
		if line = append(line, part...); err != bufio.ErrBufferFull {
			break
		}
	}
	return bytes.TrimSuffix(line, []byte{'\n'}), err
}
