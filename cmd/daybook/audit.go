package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newAudit() *cobra.Command {
	var r remote.Command
	var q client.AuditQuery
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List who changed what: the commands of operators and admins",
		Long: `List the commands of operators and admins, oldest first: changes of jobs, queues, batches, handlers, filesets, keys, the level
and the nodes, with the key that sent them, and those that were refused. The server keeps them for a year, or 64 MiB,
half of them for keys of some clients.
Creates, claims and completions are not among them: a job has the key that created it. Refused keys are in the
server's log, with audit=true.`,
		Example: `  daybook audit --since 24h
  daybook audit --by acme-operator --json`,
		Args: cobra.NoArgs,
	}
	r.Check = func(*cobra.Command, []string) error {
		if since < 0 {
			return terminal.Usagef("--since must not be negative")
		}
		return nil
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		if since > 0 {
			q.Since = time.Now().Add(-since)
		}
		for a, err := range r.Client.Audit(cmd.Context(), q) {
			if err == nil {
				err = r.ShowValue(a, "%s  %s  %s%s%s\n", time.UnixMilli(a.At).UTC().Format(time.RFC3339), cmp.Or(a.By, "-"), a.Command, fieldsText(a.Fields), refusalText(a.Refusal))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	cmd.Flags().DurationVar(&since, "since", 0, "list only commands of the last time, such as 24h (default: all)")
	cmd.Flags().StringVar(&q.By, "by", "", "list only commands of this key")
	cmd.Flags().StringVar(&q.Command, "command", "", "list only commands with this name, such as pause")
	remote.LinesFlag(cmd, &r.AsJSON, "command")
	return cmd
}

func fieldsText(fields map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		b.WriteString(" " + key + "=" + terminal.PlainCell(fields[key]))
	}
	return b.String()
}

func refusalText(code string) string {
	if code == "" {
		return ""
	}
	return " refused: " + code
}
