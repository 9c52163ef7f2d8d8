package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newGet() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a job or a batch",
		Long: `Show the document of a job, or of a batch if no job has the id. The id of a batch that was created by one request is also
that of its first job: the command shows the job, and says on standard error which of how many it is; --batch shows the
counts of the whole batch, and --job says that the job is meant. Fields without a value are left out, except
with --json.

The line of an attempt has its end, its runner, its code and exit code, why it ended, and the line of its error that
names the error. --json has the whole errors of all attempts.`,
		Example: `  daybook get 0185a1b2-c3d4-7000-8000-00000c800000
  daybook get --batch 0185a1b2-c3d4-7000-8000-00000c800000`,
		Args: cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(remote.GetIDs),
	}
	batch := cmd.Flags().Bool("batch", false, "show the batch with this id")
	var isJob bool
	remote.JobFlag(cmd.Flags(), &isJob, "show the job with this id, and no batch")
	cmd.MarkFlagsMutuallyExclusive("batch", "job")
	remote.JSONFlag(cmd, &r.AsJSON)
	config.EncryptionFlag(cmd, &r.Server)
	return remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := remote.CheckIDs(args[0]); err != nil {
			return err
		}
		path := "/jobs/"
		if *batch {
			path = "/batches/"
		}
		text, err := r.Ask(cmd, path+args[0])
		if err == nil && !*batch && !isJob {
			err = r.NoteBatch(cmd, args[0], "--batch shows the batch")
		}
		if isNotFound(err) && !*batch && !isJob {
			var failed error
			if text, failed = r.Ask(cmd, "/batches/"+args[0]); failed == nil {
				err = nil
			} else if !isNotFound(failed) {
				err = failed
			}
		}
		if err != nil {
			return err
		}
		text, undecodable := r.Decoded(text)
		switch {
		case text == nil:
			return undecodable
		case r.AsJSON:
			_, err = r.Out.Write(text)
		default:
			err = printDocument(r.Out, text)
		}
		return cmp.Or(err, remote.NoteUndecodable(cmd, undecodable))
	})
}

// isNotFound reports whether the server has answered that the requested object does not exist.
func isNotFound(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Status == http.StatusNotFound
}

// printDocument writes the fields of a JSON object in their order, most of them in one line. It skips fields without a
// value, except contents that cannot be decrypted, which have the reason.
func printDocument(w io.Writer, text []byte) error {
	var unread terminal.Undecodable
	if err := json.Unmarshal(text, &unread); err != nil {
		return remote.Unreadable(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return remote.Unreadable(err)
	}
	var failed error
	err := terminal.Table(w, func(row func(...any)) {
		for d.More() {
			name, err := d.Token()
			var value json.RawMessage
			if err == nil {
				err = d.Decode(&value)
			}
			if err != nil {
				failed = remote.Unreadable(err)
				return
			}
			if name == "undecodable" {
				continue
			}
			lines, err := shownLines(name.(string), value)
			if reason := unread.Of(name.(string)); reason != "" {
				lines = []string{reason}
			}
			if err != nil {
				failed = remote.Unreadable(err)
				return
			}
			for i, line := range lines {
				if i > 0 {
					name = ""
				}
				row(name, line)
			}
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// shownLines returns a value in lines for people: each line of an error, each attempt, or one line for any other value.
func shownLines(name string, value json.RawMessage) ([]string, error) {
	var text string
	var attempts []terminal.AttemptRow
	switch {
	case name == "error" && json.Unmarshal(value, &text) == nil && text != "":
		return terminal.ErrorLines(text), nil
	case name == "attempts" && json.Unmarshal(value, &attempts) == nil && len(attempts) > 0:
		return terminal.AttemptLines(attempts)
	}
	if shown := shownValue(name, value); shown != "" {
		return []string{shown}, nil
	}
	return nil, nil
}

// shownValue returns a value in a form for people: a time also as a date, and a text without quotes. A text with
// control characters stays in quotes, since it could change the terminal.
func shownValue(name string, value json.RawMessage) string {
	if string(value) == "null" || string(value) == "[]" {
		return ""
	}
	var ms int64
	if (strings.HasSuffix(name, "_at")) && json.Unmarshal(value, &ms) == nil {
		return fmt.Sprintf("%d (%s)", ms, terminal.Moment(ms))
	}
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 {
		return text
	}
	return string(value)
}
