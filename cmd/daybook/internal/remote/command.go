package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// Command holds the flags --server, --context and --json of a command about a server, and a client of the server.
type Command struct {
	Server config.ServerAddress
	AsJSON bool
	URL    string // of the server, when it is connected
	Client *client.Client
	Out    io.Writer
	// Check, if not nil, checks the command line before Connected connects.
	Check func(cmd *cobra.Command, args []string) error
}

// Over makes a command that sends requests to a server. run calls Connect when it has checked its arguments.
func Over(r *Command, cmd *cobra.Command, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	config.ServerFlag(cmd, &r.Server)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.Out = cmd.OutOrStdout()
		return run(cmd, args)
	}
	return cmd
}

// Connected makes a command that begins with a client of the server, after Check.
func Connected(r *Command, cmd *cobra.Command, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return Over(r, cmd, func(cmd *cobra.Command, args []string) error {
		if r.Check != nil {
			if err := r.Check(cmd, args); err != nil {
				return err
			}
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		return run(cmd, args)
	})
}

// Connect sets the client.
func (r *Command) Connect(cmd *cobra.Command) error {
	return r.ConnectFor(cmd, 0)
}

// ConnectFor is Connect with a client that repeats requests for this long, or 0 for its default.
func (r *Command) ConnectFor(cmd *cobra.Command, retryFor time.Duration) (err error) {
	if r.URL, err = reach(cmd, &r.Server); err == nil {
		r.Client, err = newClient(cmd, &r.Server, r.URL, retryFor)
	}
	return err
}

// Owned is a Command about objects that can belong to a client: blobs, filesets and handlers.
type Owned struct {
	Command
	Owner string // the client; "" if they belong to none
}

// Over adds the flag --client with a help text, and runs the command with a client of the server. It checks the first
// argument as a name of this kind; with "", it is no name. Check makes the other checks.
func (o *Owned) Over(cmd *cobra.Command, help, kind string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd.Flags().StringVar(&o.Owner, "client", "", help)
	others := o.Check
	o.Check = func(cmd *cobra.Command, args []string) error {
		if err := o.names(kind, args); err != nil {
			return terminal.Usage(err)
		}
		if others != nil {
			return others(cmd, args)
		}
		return nil
	}
	return Connected(&o.Command, cmd, run)
}

// names checks the names that the command line has.
func (o *Owned) names(kind string, args []string) error {
	if o.Owner != "" {
		if err := job.CheckName("--client", o.Owner); err != nil {
			return err
		}
	}
	if kind != "" && len(args) > 0 {
		return job.CheckName(kind, args[0])
	}
	return nil
}

// JSONFlag adds the flag --json.
func JSONFlag(cmd *cobra.Command, to *bool) { cmd.Flags().BoolVar(to, "json", false, "print JSON") }

// LinesFlag adds the flag --json of a command that prints a list.
func LinesFlag(cmd *cobra.Command, to *bool, one string) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON, one "+one+" per line")
}

// PrintJob prints the job that a command has changed: its document, or a line with its id and status.
func (r *Command) PrintJob(j *client.Job) error {
	return r.Show(j.Text, "%s %s\n", j.ID, j.Status)
}

// Show prints a document that the server has sent, or without --json a line.
func (r *Command) Show(document []byte, format string, args ...any) error {
	if r.AsJSON {
		return WriteDocument(r.Out, document)
	}
	_, err := fmt.Fprintf(r.Out, format, args...)
	return err
}

// ShowValue prints a value as JSON, or without --json a line.
func (r *Command) ShowValue(value any, format string, args ...any) error {
	if r.AsJSON {
		return json.NewEncoder(r.Out).Encode(value)
	}
	_, err := fmt.Fprintf(r.Out, format, args...)
	return err
}

// PrintList prints a list: the documents as the server has sent them, or without --json a table. none is the line for an
// empty list.
func PrintList[T any](r *Command, list []T, document func(T) []byte, none string, table func(row func(...any))) error {
	if r.AsJSON {
		for _, one := range list {
			if err := WriteDocument(r.Out, document(one)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(r.Out, none)
		return err
	}
	return terminal.Table(r.Out, table)
}

// Collect reads a list to its end.
func Collect[T any](all iter.Seq2[T, error]) (list []T, err error) {
	for one, err := range all {
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// WriteDocument writes a document that a server has sent, and ends it with a newline.
func WriteDocument(w io.Writer, text []byte) error {
	_, err := fmt.Fprintf(w, "%s\n", strings.TrimSpace(string(text)))
	return err
}

// EachJob changes jobs one by one. If one cannot be changed, it continues with the next. If the server does not answer,
// it stops. done is the status that the jobs get.
func (r *Command) EachJob(cmd *cobra.Command, ids []string, done string, change func(ctx context.Context, id string) error) error {
	var failed error
	wrong := 0
	for i, id := range ids {
		err := change(cmd.Context(), id)
		if err != nil && (len(ids) == 1 || cmd.Context().Err() != nil) {
			return err
		}
		if errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown) {
			return fmt.Errorf("%s: %w; the %d jobs after it were not tried", id, err, len(ids)-i-1) // each would wait as long
		}
		if err != nil {
			failed, wrong = err, wrong+1
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", id, err)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d jobs were not %s; the last one: %w", wrong, len(ids), done, failed)
	}
	return nil
}

// CheckIDs checks the ids of jobs on a command line.
func CheckIDs(ids ...string) error {
	for _, id := range ids {
		if _, err := job.ParseID(id); err != nil {
			return terminal.Usagef("%q is not an id: ids have 36 characters, like 0185a1b2-c3d4-7000-8000-00000c800000", id)
		}
	}
	return nil
}

// List reads a list page by page, from the named field. With --json it prints the documents as the server sent them, and
// otherwise it returns them.
func List[T any](r *Command, cmd *cobra.Command, path string, query url.Values, field string) (list []T, err error) {
	err = r.EachDocument(cmd, path, query, field, func(text json.RawMessage) (bool, error) {
		if r.AsJSON {
			return true, WriteDocument(r.Out, text)
		}
		var one T
		if err := json.Unmarshal(text, &one); err != nil {
			return false, Unreadable(err)
		}
		list = append(list, one)
		return true, nil
	})
	return list, err
}

// EachDocument reads a list page by page. It calls each with the documents as the server sent them, decrypted, from the named
// field; see Decoded. If a content cannot be decrypted, the error is returned after the last document.
func (r *Command) EachDocument(cmd *cobra.Command, path string, query url.Values, field string, each func(json.RawMessage) (more bool, err error)) error {
	var undecodable error
	for {
		text, err := r.Ask(cmd, path+"?"+query.Encode())
		if err != nil {
			return err
		}
		var page map[string]json.RawMessage
		var list []json.RawMessage
		var next string
		if err := json.Unmarshal(text, &page); err != nil {
			return Unreadable(err)
		}
		if err := json.Unmarshal(page[field], &list); err != nil {
			return Unreadable(err)
		}
		for _, one := range list {
			decoded, err := r.Decoded(one)
			if err != nil && !errors.Is(err, client.ErrUndecodable) {
				return err
			}
			undecodable = cmp.Or(undecodable, err)
			if more, err := each(decoded); err != nil {
				return err
			} else if !more {
				return undecodable
			}
		}
		if page["next"] != nil {
			if err := json.Unmarshal(page["next"], &next); err != nil {
				return Unreadable(err)
			}
		}
		if next == "" {
			return undecodable
		}
		query.Set("after", next)
	}
}

// Decoded returns a document of the server in which payloads, outputs and errors are decrypted by --encrypt-key-file. Those that
// cannot be decrypted are null, with their reasons in the member "undecodable", and the error is client.ErrUndecodable.
func (r *Command) Decoded(text []byte) ([]byte, error) {
	codec, err := r.Server.Codec()
	if err != nil || codec == nil {
		return text, err
	}
	return client.New(r.URL, client.Options{Codec: codec}).DecodeDocument(text)
}

// NoteUndecodable says on standard error which content of a document cannot be decrypted, if this is the error. The other
// fields were shown, so it is no failure of the command.
func NoteUndecodable(cmd *cobra.Command, err error) error {
	if !errors.Is(err, client.ErrUndecodable) {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "daybook: %v\n", err)
	return err
}

// Ask requests a JSON document from the server.
func (r *Command) Ask(cmd *cobra.Command, path string) ([]byte, error) {
	text, err := fetch(cmd.Context(), &r.Server, path)
	if err == nil && !json.Valid(text) {
		return nil, fmt.Errorf("%s: %w", &r.Server, client.ErrUnexpectedAnswer)
	}
	return text, err
}

// AskFor requests a JSON document from the server, and decodes it.
func AskFor[T any](r *Command, cmd *cobra.Command, path string) (doc T, err error) {
	text, err := r.Ask(cmd, path)
	if err == nil {
		if err = json.Unmarshal(text, &doc); err != nil {
			err = Unreadable(err)
		}
	}
	return doc, err
}
