package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// remote holds the flags --server, --context and --json of a command about a server, and a client of the server.
type remote struct {
	server config.ServerAddress
	asJSON bool
	c      *client.Client
	out    io.Writer
}

// overServer makes a command that sends requests to a server. run calls connect when it has checked its arguments.
func overServer(r *remote, cmd *cobra.Command, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	config.ServerFlag(cmd, &r.server)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.out = cmd.OutOrStdout()
		return run(cmd, args)
	}
	return cmd
}

// connected makes a command that has no arguments to check: run begins with a client of the server.
func connected(r *remote, cmd *cobra.Command, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return overServer(r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := r.connect(cmd); err != nil {
			return err
		}
		return run(cmd, args)
	})
}

// connect sets the client.
func (r *remote) connect(cmd *cobra.Command) error {
	address, err := reach(cmd, &r.server)
	if err == nil {
		r.c = newClient(cmd, address)
	}
	return err
}

func jsonFlag(cmd *cobra.Command, to *bool) { cmd.Flags().BoolVar(to, "json", false, "print JSON") }

// linesFlag adds the flag --json of a command that prints a list.
func linesFlag(cmd *cobra.Command, to *bool, one string) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON, one "+one+" per line")
}

// printJob prints the job that a command has changed: its document, or a line with its id and status.
func (r *remote) printJob(j *client.Job) error {
	return r.show(j.Text, "%s %s\n", j.ID, j.Status)
}

// show prints a document that the server has sent, or without --json a line.
func (r *remote) show(document []byte, format string, args ...any) error {
	if r.asJSON {
		return writeDocument(r.out, document)
	}
	_, err := fmt.Fprintf(r.out, format, args...)
	return err
}

// showValue prints a value as JSON, or without --json a line.
func (r *remote) showValue(value any, format string, args ...any) error {
	if r.asJSON {
		return json.NewEncoder(r.out).Encode(value)
	}
	_, err := fmt.Fprintf(r.out, format, args...)
	return err
}

// printList prints a list: the documents as the server has sent them, or without --json a table. none is the line for an
// empty list.
func printList[T any](r *remote, list []T, document func(T) []byte, none string, table func(row func(...any))) error {
	if r.asJSON {
		for _, one := range list {
			if err := writeDocument(r.out, document(one)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(r.out, none)
		return err
	}
	return terminal.Table(r.out, table)
}

// listed reads a list to its end.
func listed[T any](all iter.Seq2[T, error]) (list []T, err error) {
	for one, err := range all {
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// writeDocument writes a document that a server has sent, and ends it with a newline.
func writeDocument(w io.Writer, text []byte) error {
	_, err := fmt.Fprintf(w, "%s\n", strings.TrimSpace(string(text)))
	return err
}

// eachJob changes jobs one by one. If one cannot be changed, it continues with the next. If the server does not answer,
// it stops. done is the status that the jobs get.
func (r *remote) eachJob(cmd *cobra.Command, ids []string, done string, change func(ctx context.Context, id string) error) error {
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

// checkIDs checks the ids of jobs on a command line.
func checkIDs(ids ...string) error {
	for _, id := range ids {
		if _, err := job.ParseID(id); err != nil {
			return terminal.Usagef("%q is not an id: ids have 36 characters, like 0185a1b2-c3d4-7000-8000-00000c800000", id)
		}
	}
	return nil
}

// eachDocument reads a list page by page. It calls each with the documents as the server sent them, from the named
// field.
func eachDocument(cmd *cobra.Command, server *config.ServerAddress, path string, query url.Values, field string, each func(json.RawMessage) (more bool, err error)) error {
	for {
		text, err := ask(cmd, server, path+"?"+query.Encode())
		if err != nil {
			return err
		}
		var page map[string]json.RawMessage
		var list []json.RawMessage
		var next string
		if err := json.Unmarshal(text, &page); err != nil {
			return unreadable(err)
		}
		if err := json.Unmarshal(page[field], &list); err != nil {
			return unreadable(err)
		}
		for _, one := range list {
			if more, err := each(one); err != nil || !more {
				return err
			}
		}
		if page["next"] != nil {
			if err := json.Unmarshal(page["next"], &next); err != nil {
				return unreadable(err)
			}
		}
		if next == "" {
			return nil
		}
		query.Set("after", next)
	}
}
