package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/job"
)

func newGet() *cobra.Command {
	var server serverAddress
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a job or a batch",
		Long: `Show the document of a job. The id of a batch is that of its first job; with --batch the counts of the
whole batch are shown instead. Fields without a value are left out, unless with --json.`,
		Example: `  daybook get 0185a1b2-c3d4-7000-8000-00000c800000
  daybook get --batch 0185a1b2-c3d4-7000-8000-00000c800000`,
		Args: cobra.ExactArgs(1),
	}
	batch := cmd.Flags().Bool("batch", false, "show the batch of that id")
	serverFlag(cmd, &server)
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := job.ParseID(args[0])
		if err != nil {
			return usageError{fmt.Errorf("%q: %w", args[0], err)}
		}
		path := "/jobs/"
		if *batch {
			path = "/batches/"
		}
		text, err := ask(cmd, &server, path+id.String())
		if err != nil {
			return err
		}
		if asJSON {
			_, err := cmd.OutOrStdout().Write(text)
			return err
		}
		return printDocument(cmd.OutOrStdout(), text)
	}
	return cmd
}

// printDocument writes the fields of a JSON object that have a value, one a line, in their order.
func printDocument(w io.Writer, text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	var failed error
	err := table(w, func(row func(...any)) {
		for d.More() {
			name, err := d.Token()
			var value json.RawMessage
			if err == nil {
				err = d.Decode(&value)
			}
			if err != nil {
				failed = fmt.Errorf("read document: %w", err)
				return
			}
			if shown := shownValue(name.(string), value); shown != "" {
				row(name, shown)
			}
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// shownValue is a value as people read it: times as such, texts without quotes unless they hold what would disturb a
// terminal.
func shownValue(name string, value json.RawMessage) string {
	if string(value) == "null" || string(value) == "[]" {
		return ""
	}
	var ms int64
	if (strings.HasSuffix(name, "_at")) && json.Unmarshal(value, &ms) == nil {
		return fmt.Sprintf("%d (%s)", ms, moment(ms))
	}
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 {
		return text
	}
	return string(value)
}
