package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/checkpoint"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/input"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

const (
	// addPatience is how long add repeats the post of a body that the server refuses for now.
	addPatience = time.Minute
	// addSilence is how long the input may be silent before add posts the lines that have arrived.
	addSilence = 50 * time.Millisecond
)

type addFlags struct {
	remote.Command
	attributeFlags
	input.Format
	key, resume string
	unknown     string
	onComplete  string
	inFlight    int
	dryRun      bool
	ids         bool
}

// The values of --unknown.
const (
	unknownRepeat = "repeat"
	unknownSkip   = "skip"
)

func newAdd() *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add [FILE]",
		Short: "Post the lines of a file as jobs",
		Long: `Post each line of a file as the payload of a job. Without a file, or with -, post the lines of standard
input. Empty lines are skipped.

--format says what the input is:

  lines   each line is a text, and is stored unchanged (the default)
  ndjson  each line is a JSON value, which becomes the payload. null makes a job without a payload.
  csv     the first row has the names of the columns. Each other row becomes a JSON object, whose fields are
          texts. A quoted field may contain the delimiter, newlines and doubled quotes;
          a carriage return before a newline in it is left out.

The lines are sent in bodies of up to 1 MiB, several at the same time. Each body becomes a batch: the
server stores all of it or nothing. The id of each batch is printed, in order, when the batch is on the
server's disk; on a terminal, one line at the end says what was added, unless --ids is given. An error in a
line, such as a row with too few fields, ends the command: what is printed was stored. With --dry-run, the command reads the whole input, sends nothing, and prints what it would add.

If an answer is lost, the body is sent again with the same idempotency key, so that it is stored once. If
the server refuses a body for now, it is sent again for up to a minute.

If add is killed or fails, run it again with the same --resume STATE. It creates that file, and writes there
what it has sent and what the server has stored. It then adds only what is missing, and prints the ids of all
batches. One add at a time can use the file: another one ends with exit code 3. What was sent must not have
changed; a wrong line after it may have been corrected. When everything is stored, the file says so, and the
same command line adds nothing. The server recognizes what was sent without an answer for 24 hours. After
that, add stops and names the bytes that may be stored or not; --unknown repeat sends them again, and
--unknown skip leaves them out.

Without --resume, if add of a file fails, it prints a --key. Run the same command with that --key within 24
hours to store only what is missing. With --key or --resume, standard input is split into bodies by size, as
a file is. Without them, the lines of a stream are posted as they arrive.

Use --skip-lines 1 to leave out a header, and --strip-cr to remove the carriage returns of lines from
Windows.`,
		Example: `  daybook add --type resize images.txt
  daybook add --type import --format csv --delimiter ';' --resume orders.state orders.csv
  daybook add --type import --format ndjson --dry-run events.ndjson
  find /data -type f | daybook add --client acme --type index --priority 7 --delay 10m`,
		Args: cobra.MaximumNArgs(1),
	}
	config.ServerFlag(cmd, &f.Server)
	config.EncryptionFlag(cmd, &f.Server)
	f.attributeFlags.add(cmd)
	f.Format.Add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.resume, "resume", "", "a `file` that this command creates, with which it goes on after it was killed or failed")
	flags.StringVar(&f.unknown, "unknown", "", "with --resume, what happens to bodies that were sent more than 23 hours ago and not answered: repeat or skip (default: an error)")
	flags.StringVar(&f.key, "key", "", "idempotency key of the whole input; give that of an earlier add to continue it (default: a new one)")
	flags.StringVar(&f.onComplete, "on-complete", "", "type of the jobs that are created with the outputs of these when they complete")
	flags.IntVar(&f.inFlight, "in-flight", 4, "how many bodies are sent at the same time")
	flags.BoolVar(&f.dryRun, "dry-run", false, "send nothing, and print how many jobs would be added, and the first three payloads")
	flags.BoolVar(&f.ids, "ids", false, "print the id of each batch, on a terminal too")
	remote.LinesFlag(cmd, &f.AsJSON, "batch")
	cmd.MarkFlagsMutuallyExclusive("ids", "json")
	cmd.MarkFlagsMutuallyExclusive("key", "resume")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "resume")
	config.CompleteFlag(cmd, "unknown", func(*cobra.Command, string) []string { return []string{unknownRepeat, unknownSkip} })
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return add(cmd, &f, args) }
	return cmd
}

func add(cmd *cobra.Command, f *addFlags, args []string) error {
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	in, closeInput, err := input.Open(cmd, args)
	if err != nil {
		return err
	}
	defer closeInput()
	if f.dryRun {
		return dryAdd(cmd, f, in, options)
	}
	if err := f.ConnectFor(cmd, addPatience); err != nil {
		return err
	}
	// The first body may be refused after much of the input was read, so add asks before.
	if key, err := f.Server.Key(); err == nil && key != "" && !cmd.Flags().Changed("client") {
		k, err := f.Command.Client.Whoami(cmd.Context())
		if err != nil {
			return fmt.Errorf("read what the key is for: %w", err)
		}
		f.fill(cmd, k, &options.Client)
	}
	a := adding{cmd: cmd, asJSON: f.AsJSON, ids: f.ids || !terminal.IsTerminal(cmd.OutOrStdout()), line: terminal.NewStatusLine(cmd.ErrOrStderr()), start: time.Now(), size: input.Size(in)}
	options.Stored, options.Progress = a.stored, a.progress
	var state *checkpoint.Add
	switch {
	case f.resume != "":
		if state, err = f.openState(cmd, args, &options); err != nil {
			return err
		}
		defer state.Close()
		options.DryRun = state.Done // add then compares the input, and posts nothing
	case f.key == "":
		options.Key = client.NewKey()
		if !input.IsFile(in) {
			options.FlushAfter = addSilence
		}
	}
	ctx, end := terminal.UntilInterrupted(cmd.Context())
	defer end()
	if !input.IsFile(in) {
		in = &input.StoppableReader{Ctx: ctx, In: in}
	}
	if a.in, err = input.NewLineReader(in, &f.Format); err != nil {
		return err
	}
	var early []client.AddedBody // from a state file that is done: they count once the input is known to be the same
	if state != nil && state.Done {
		options.Stored = func(b client.AddedBody) { early = append(early, b) }
	}
	if options.Resume != nil {
		for i := range options.Resume.Bodies {
			a.earlier += int64(options.Resume.Bodies[i].Count)
		}
	}
	result, err := f.Command.Client.Add(ctx, a.in, options)
	a.line.Clear()
	if err != nil && ctx.Err() != nil {
		err = terminal.ErrInterrupted
	}
	if state != nil {
		if err == nil {
			err = state.CheckEnd(a.in.Made.Load())
		}
		if err == nil {
			err = state.Finish()
		}
		if err != nil {
			return f.stopped(cmd, options.Resume != nil, &result, err)
		}
		for _, b := range early {
			a.stored(b)
		}
		switch {
		case result.Jobs == 0:
			fmt.Fprintln(cmd.ErrOrStderr(), nothingThere)
		case early != nil:
			fmt.Fprintf(cmd.ErrOrStderr(), "%s says that everything is stored; nothing is added\n", f.resume)
		}
		return a.end(config.QueueName{Client: f.client, Type: f.typ})
	}
	if err == nil {
		if result.Jobs == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), nothingThere)
		}
		return a.end(config.QueueName{Client: f.client, Type: f.typ})
	}
	if errors.Is(err, client.ErrKeyReused) {
		return fmt.Errorf("the input is not the one that was added with --key %s before: %d lines are the same, and the rest was not stored; to add a new input, leave out --key: %w",
			options.Key, result.Jobs, err)
	}
	if options.FlushAfter == 0 && mayBeStored(&result, err) {
		fmt.Fprintf(cmd.ErrOrStderr(), "To store only what is missing, run the same command with --key %s within 24 hours.\n", options.Key)
	}
	return stoppedAfter(&result, err)
}

// nothingThere is the message for an input without lines.
const nothingThere = "the input has no lines: nothing was added"

// mayBeStored reports whether a part of an input is stored, or may be, so that the next add has to continue after it.
func mayBeStored(result *client.AddResult, err error) bool {
	_, isFormat := errors.AsType[*input.FormatError](err)
	_, isRefused := errors.AsType[*client.Error](err)
	isLong := errors.Is(err, client.ErrTooLarge) && !isRefused // a line, which was not sent
	return result.Jobs > 0 || len(result.Unknown) > 0 || !isFormat && !isLong
}

// stoppedAfter adds to an error how much of the input is stored. It counts lines of the input file, also if add has
// converted them.
func stoppedAfter(result *client.AddResult, err error) error {
	if wrong, ok := errors.AsType[*input.FormatError](err); ok {
		err = wrong
	}
	if !mayBeStored(result, err) {
		return fmt.Errorf("nothing was stored: %w", err)
	}
	return fmt.Errorf("%d lines are stored in %d batches, and then add failed: %w", result.Jobs, len(result.Bodies), err)
}

// openState opens the state file, and sets the options to continue from it.
func (f *addFlags) openState(cmd *cobra.Command, args []string, o *client.AddOptions) (*checkpoint.Add, error) {
	stats, err := remote.AskFor[ingest.Stats](&f.Command, cmd, "/stats")
	if err != nil {
		return nil, err
	}
	head := checkpoint.Head{
		Journal: stats.Journal.UUID, Format: f.Kind, SkipLines: f.SkipLines, StripCR: f.StripCR, Client: f.client, Type: f.typ, Attributes: o.Attributes,
	}
	codec, err := f.Server.Codec()
	if err != nil {
		return nil, err
	}
	head.Encrypted = codec != nil
	if f.Kind == input.CSV {
		head.Comma = string(f.Comma)
	}
	if len(args) > 0 && args[0] != "-" {
		if head.Input, err = filepath.Abs(args[0]); err != nil {
			return nil, err
		}
	}
	s, err := checkpoint.OpenAdd(f.resume, head)
	if err != nil {
		return nil, err
	}
	s.Repeat = f.unknown == unknownRepeat
	var forgotten []*checkpoint.SentBody
	if o.Resume, forgotten = s.Resumed(); len(forgotten) > 0 && !s.Done {
		switch f.unknown {
		case unknownSkip:
			err = s.Skip(forgotten)
			o.Resume, _ = s.Resumed()
		case "":
			err = &checkpoint.UnknownBodiesError{List: forgotten}
		}
		if err != nil {
			s.Close()
			return nil, err
		}
	}
	o.Key, o.RepeatUnknown, o.Body, o.Acknowledged = s.Head.Key, true, s.Body, s.Acknowledged
	return s, nil
}

// stopped adds to an error the next step with the state file.
func (f *addFlags) stopped(cmd *cobra.Command, resumed bool, result *client.AddResult, err error) error {
	_, isChanged := errors.AsType[*checkpoint.InputChangedError](err)
	_, isRefused := errors.AsType[*client.Error](err)
	if resumed && !isChanged && (errors.Is(err, client.ErrBadRequest) && !isRefused || errors.Is(err, client.ErrKeyReused)) {
		where := "its lines are split in other places"
		if isRefused {
			where = err.Error()
		}
		err, isChanged = &checkpoint.InputChangedError{Where: where}, true
	}
	if isChanged {
		return err
	}
	if mayBeStored(result, err) {
		fmt.Fprintf(cmd.ErrOrStderr(), "To store only what is missing, run the same command again. %s knows what is stored.\n", f.resume)
	}
	return stoppedAfter(result, err)
}

// dryAdd prints the jobs that add would create.
func dryAdd(cmd *cobra.Command, f *addFlags, in io.Reader, o client.AddOptions) error {
	lines, err := input.NewLineReader(in, &f.Format)
	if err != nil {
		return err
	}
	var first []string
	o.DryRun = true
	o.Body = func(_ client.AddedBody, text []byte) error {
		for line := range bytes.Lines(text) {
			if len(first) == shownPayloads {
				break
			}
			line = bytes.TrimSuffix(line, []byte{'\n'})
			if f.StripCR {
				line = bytes.TrimSuffix(line, []byte{'\r'})
			}
			if len(line) > 0 {
				first = append(first, string(line))
			}
		}
		return nil
	}
	result, err := client.New(config.DefaultServer, client.Options{}).Add(cmd.Context(), lines, o) // the client is not used
	if err != nil {
		if wrong, ok := errors.AsType[*input.FormatError](err); ok {
			err = wrong
		}
		return fmt.Errorf("%d lines before this one could be added: %w", result.Jobs, err)
	}
	out := cmd.OutOrStdout()
	if f.AsJSON {
		return json.NewEncoder(out).Encode(map[string]any{"would_add": result.Jobs, "bytes": result.Bytes, "batches": len(result.Bodies), "first_payloads": first})
	}
	fmt.Fprintf(out, "would add %s to %s/%s: %s in %s\n", terminal.JobsText(result.Jobs), f.client, f.typ, terminal.SizeText(result.Bytes), terminal.NumberText(len(result.Bodies), "batch", "batches"))
	for _, text := range first {
		if _, err := fmt.Fprintln(out, terminal.PlainCell(ansi.Truncate(text, shownWidth, "…"))); err != nil {
			return err
		}
	}
	return nil
}

const (
	shownPayloads = 3
	shownWidth    = 200 // characters of a payload
)

// options returns the attributes that were given. The server sets all others.
func (f *addFlags) options(cmd *cobra.Command) (o client.AddOptions, err error) {
	if err := job.CheckRange("--in-flight", int64(f.inFlight), 1, maxInFlight); err != nil {
		return o, terminal.Usage(err)
	}
	if f.resume != "" {
		_, err := os.Stat(f.resume)
		f.begun = err == nil
	}
	if o.Attributes, err = f.attributes(cmd); err != nil {
		return o, err
	}
	if f.onComplete != "" {
		if err := job.CheckName("--on-complete", f.onComplete); err != nil {
			return o, terminal.Usage(err)
		}
		o.OnComplete = &client.FollowOn{Type: f.onComplete}
	}
	// The client appends the offset of each body to the key, which makes it longer.
	if cmd.Flags().Changed("key") {
		if err := job.CheckText("--key", f.key, 1, job.MaxKeyBytes/2); err != nil {
			return o, terminal.Usage(err)
		}
	}
	if err := f.Format.Check(cmd); err != nil {
		return o, err
	}
	if f.unknown != "" && (f.resume == "" || f.unknown != unknownRepeat && f.unknown != unknownSkip) {
		return o, terminal.Usagef("--unknown must be %s or %s, and is for --resume only", unknownRepeat, unknownSkip)
	}
	o.Client, o.Type, o.Key, o.InFlight, o.StripCR, o.BodyBytes = f.client, f.typ, f.key, f.inFlight, f.StripCR, addBodyBytes
	o.Kind = f.PayloadKind()
	return o, nil
}

// addBodyBytes is the size of a body. A key and a state file are useful only as long as this size stays the same.
const addBodyBytes = 1 << 20

// maxInFlight bounds --in-flight: more posts do not make the server faster.
const maxInFlight = 64

// adding prints the output of add while it runs.
type adding struct {
	cmd     *cobra.Command
	asJSON  bool
	ids     bool // prints the ids of the batches
	batches int  // stored batches
	jobs    int64
	first   string // the id of the first batch
	line    *terminal.StatusLine
	start   time.Time
	size    int64 // of the file; 0 if it is not known
	in      *input.LineReader
	earlier int64 // jobs that earlier adds with the same state file have stored
	failed  error // the first error of printing
}

// stored prints a batch.
func (a *adding) stored(b client.AddedBody) {
	if b.Count == 0 || a.failed != nil {
		return
	}
	a.line.Clear()
	if a.batches++; a.batches == 1 {
		a.first = b.BatchID
	}
	a.jobs += int64(b.Count)
	if a.asJSON {
		a.failed = json.NewEncoder(a.cmd.OutOrStdout()).Encode(map[string]any{
			"batch_id": b.BatchID, "count": b.Count, "first_id": b.FirstID, "last_id": b.LastID,
		})
	} else if a.ids {
		_, a.failed = fmt.Fprintln(a.cmd.OutOrStdout(), b.BatchID)
	}
}

// end prints how much is stored, unless the batches were printed.
func (a *adding) end(to config.QueueName) error {
	if a.failed != nil || a.asJSON || a.ids || a.batches == 0 {
		return a.failed
	}
	text := "batch " + a.first
	if a.batches > 1 {
		text = fmt.Sprintf("%d batches; the first is %s, and --ids prints all", a.batches, a.first)
	}
	_, err := fmt.Fprintf(a.cmd.OutOrStdout(), "added %s to %s: %s\n", terminal.JobsText(a.jobs), to, text)
	return err
}

func (a *adding) progress(p client.AddProgress) {
	if a.line.IsOn() && p.Jobs > a.earlier {
		a.line.Show(a.text(p, time.Since(a.start)))
	}
}

// text returns the progress after a time. It compares the size of the input with the bytes of the file from which the
// stored lines were read.
func (a *adding) text(p client.AddProgress, after time.Duration) string {
	rate := float64(p.Jobs-a.earlier) / max(after.Seconds(), 0.001)
	text := fmt.Sprintf("%d lines, %s, %.0f lines/s", p.Jobs, terminal.SizeText(p.Bytes), rate)
	if a.size <= 0 {
		return text
	}
	read := a.in.FileBytes(p.Bytes)
	part := min(read/float64(a.size), 1)
	if part > 0 && part < 1 {
		if left := terminal.Remaining(float64(p.Jobs)/part-float64(p.Jobs), rate); left != "" {
			text += ", " + left + " left"
		}
	}
	return fmt.Sprintf("%s %s %s", terminal.Bar(part), terminal.Percent(part), text)
}
