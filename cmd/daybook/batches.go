package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/chunks"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

func newBatches() *cobra.Command {
	var r remote.Command
	var q client.BatchesQuery
	var meta []string
	var limit int
	cmd := &cobra.Command{
		Use:   "batches",
		Short: "List batches",
		Long: `List the batches of the server, the oldest first, or with --order newest the newest; with --name-prefix, in the order of their names. "daybook get
--batch ID" shows all of one.`,
		Example: `  daybook batches --status in_progress
  daybook batches --name nightly --meta user=42`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Status, "status", "", "only batches that are in_progress, paused, completed, failed or cancelled")
	flags.StringVar(&q.Client, "client", "", "only batches of this client")
	flags.StringVar(&q.Type, "type", "", "only batches of this type")
	flags.StringVar(&q.Name, "name", "", "only batches with this name")
	flags.StringVar(&q.NamePrefix, "name-prefix", "", "only batches whose names begin so")
	flags.StringArrayVar(&meta, "meta", nil, "only batches with NAME=VALUE in their meta; may be given several times")
	flags.StringVar(&q.Order, "order", "", "order of the list: oldest (default) or newest; not with --name-prefix")
	flags.IntVar(&limit, "limit", 100, "how many batches are listed; 0 means all")
	remote.LinesFlag(cmd, &r.AsJSON, "batch")
	return remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return terminal.Usagef("--limit is the number of batches, or 0 for all, and not %d", limit)
		}
		if err := givenFilters(cmd, "status", "client", "type", "name", "name-prefix"); err != nil {
			return err
		}
		switch {
		case q.Order != "" && q.Order != "oldest" && q.Order != "newest":
			return terminal.Usagef("--order is oldest or newest, and not %q", q.Order)
		case q.Order != "" && q.NamePrefix != "":
			return terminal.Usage(errors.New("--order and --name-prefix exclude each other: that list is in the order of names"))
		}
		if q.Status != "" {
			if _, err := job.ParseBatchStatus(q.Status); err != nil {
				return terminal.Usagef("--%w", err)
			}
		}
		for _, pair := range meta {
			name, value, ok := strings.Cut(pair, "=")
			if !ok {
				return terminal.Usagef("--meta %q is not NAME=VALUE", pair)
			}
			if q.Meta == nil {
				q.Meta = map[string]any{}
			}
			q.Meta[name] = value
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		q.PageSize = job.MaxPage
		if limit > 0 {
			q.PageSize = min(limit, job.MaxPage)
		}
		return listBatches(cmd, r.Client.Batches(cmd.Context(), q), limit, r.AsJSON)
	})
}

// listBatches prints batches, at most limit unless that is 0. It prints a table in parts, so that a long list needs
// little memory.
func listBatches(cmd *cobra.Command, all iter.Seq2[client.Batch, error], limit int, asJSON bool) error {
	out := cmd.OutOrStdout()
	list := batchTable{to: out}
	shown := 0
	for b, err := range all {
		if err != nil {
			return errors.Join(list.print(), err)
		}
		if limit > 0 && shown == limit {
			if err := list.print(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "there are more than %s; --limit 0 lists all\n", terminal.NumberText(limit, "batch", "batches"))
			return err
		}
		shown++
		if asJSON {
			err = remote.WriteDocument(out, b.Text)
		} else if list.rows = append(list.rows, b); len(list.rows) == job.MaxPage {
			err = list.print()
		}
		if err != nil {
			return err
		}
	}
	if shown == 0 && !asJSON {
		_, err := fmt.Fprintln(out, "there are no such batches")
		return err
	}
	return list.print()
}

func printLines[T any](w io.Writer, list []T) error {
	out := json.NewEncoder(w)
	for i := range list {
		if err := out.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// batchTable prints batches, some at a time.
type batchTable struct {
	to    io.Writer
	rows  []client.Batch // not printed yet
	begun bool           // its head was printed
}

func (t *batchTable) print() error {
	if len(t.rows) == 0 {
		return nil
	}
	err := terminal.Table(t.to, func(row func(...any)) {
		if !t.begun {
			row("ID", "NAME", "STATUS", "JOBS", "ENDED", "FAILED", "CREATED", "META")
		}
		for i := range t.rows {
			b := &t.rows[i]
			ended := b.Count - b.Counts["deferred"] - b.Counts["pending"] - b.Counts["active"]
			row(b.ID, terminal.OrDash(b.Name), b.Status, b.Count, ended, b.Counts["failed"], terminal.Moment(b.CreatedAt), terminal.OrDash(metaText(b)))
		}
	})
	t.rows, t.begun = t.rows[:0], true
	return err
}

// metaText returns the meta of a batch in the order of names.
func metaText(b *client.Batch) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(b.Meta)) {
		value := string(b.Meta[name])
		if text, err := strconv.Unquote(value); err == nil {
			value = text
		}
		pairs = append(pairs, name+"="+value)
	}
	return strings.Join(pairs, " ")
}

func newResults() *cobra.Command {
	var r remote.Command
	var q client.ResultsQuery
	var stored bool
	cmd := &cobra.Command{
		Use:   "results ID",
		Short: "Show the results of a batch",
		Long: `Show how the jobs of a batch have ended, in their order, up to the first job that has not ended: the number of
the job in the batch, its status, and its output or error. Each has one line: newlines at the end of an output are
left out, and others are shown as \n. With --json, outputs are exact. With --follow, wait for the other jobs until
the batch has ended.`,
		Example: `  daybook results --follow 0185a1b2-c3d4-7000-8000-00000c800000
  daybook results --chunks 0185a1b2-c3d4-7000-8000-00000c800000
  daybook results --from 1000 --json 0185a1b2-c3d4-7000-8000-00000c800000`,
		Args: cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(remote.BatchIDs),
	}
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "wait until the batch has ended")
	cmd.Flags().Int64Var(&q.From, "from", 0, "the number of the first job")
	remote.LinesFlag(cmd, &r.AsJSON, "result")
	cmd.Flags().BoolVar(&stored, "chunks", false, "read outputs that are blobs of the server")
	config.EncryptionFlag(cmd, &r.Server)
	return remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := remote.CheckIDs(args[0]); err != nil {
			return err
		}
		var store *chunks.Store
		if stored {
			store = &chunks.Store{}
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		out := terminal.Plain(r.Out)
		var undecodable error
		for one, err := range chunks.Results(cmd.Context(), r.Client, args[0], q, store) {
			undecodable = cmp.Or(undecodable, one.Undecodable)
			if err == nil {
				err = printResult(out, &one, r.AsJSON)
			}
			if err != nil {
				return err
			}
		}
		return undecodable
	})
}

// resultDocument is a result as JSON: output is a text or a JSON value, output_b64 has other bytes.
type resultDocument struct {
	Line        int64             `json:"line"`
	JobID       string            `json:"job_id"`
	Status      string            `json:"status"`
	Code        string            `json:"code,omitempty"`
	ExitCode    int               `json:"exit_code,omitempty"`
	ProcessExit *int64            `json:"process_exit,omitempty"`
	Error       string            `json:"error,omitempty"`
	Output      any               `json:"output,omitempty"`
	OutputB64   []byte            `json:"output_b64,omitempty"`
	OutputAddr  string            `json:"output_addr,omitempty"`
	AddrKind    client.Kind       `json:"output_addr_kind,omitempty"`
	LogAddr     string            `json:"log_addr,omitempty"`
	Why         string            `json:"why"`
	CompletedAt int64             `json:"completed_at"`
	Meta        map[string]string `json:"meta,omitempty"`
}

func documentOfResult(r *client.BatchResult) resultDocument {
	doc := resultDocument{
		Line: r.Line, JobID: r.JobID, Status: r.Status, Code: r.Code, ExitCode: r.ExitCode, ProcessExit: r.ProcessExit, Error: r.Error,
		OutputAddr: r.OutputAddr, AddrKind: r.OutputAddrKind, LogAddr: r.LogAddr, Why: r.Why, CompletedAt: r.CompletedAt, Meta: r.Meta,
	}
	switch r.OutputKind {
	case client.Text:
		doc.Output = string(r.Output)
	case client.JSON:
		doc.Output = json.RawMessage(r.Output)
	default:
		doc.OutputB64 = r.Output
	}
	return doc
}

func printResult(w io.Writer, r *client.BatchResult, asJSON bool) error {
	if asJSON {
		return printLines(w, []resultDocument{documentOfResult(r)})
	}
	text := string(r.Output)
	switch {
	case r.Status != "completed" && r.Error != "":
		text = r.Error
	case r.OutputKind == client.Bytes:
		text = fmt.Sprintf("%d bytes", len(r.Output))
	case text == "":
		text = r.OutputAddr
	}
	_, err := fmt.Fprintf(w, "%d\t%s\t%s\n", r.Line, r.Status, oneLine(text))
	return err
}

// oneLine returns a text without the newlines at its end, with all other newlines as \n, and with carriage returns as
// \r.
func oneLine(text string) string {
	return newlines.Replace(strings.TrimRight(text, "\r\n"))
}

var newlines = strings.NewReplacer("\n", `\n`, "\r", `\r`)
