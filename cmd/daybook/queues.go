package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// queueDocument is the part of a queue's document that is printed.
type queueDocument struct {
	Client  string           `json:"client"`
	Type    string           `json:"type"`
	Paused  bool             `json:"paused"`
	Counts  map[string]int64 `json:"counts"`
	Pending *int64           `json:"oldest_pending_age_ms"`
}

func newQueues() *cobra.Command {
	var r remote.Command
	var client string
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "List the queues with their counts",
		Long: `List the queues by client and type, with the number of their jobs in each status. "oldest" is how long
the next pending job has been waiting. It grows if the runners are too slow. If the server is stopped, the command
says so on standard error.`,
		Example: `  daybook queues
  daybook queues --client acme --json`,
		Args: cobra.NoArgs,
	}
	remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if client != "" {
			if err := job.CheckName("--client", client); err != nil {
				return terminal.Usage(err)
			}
			query.Set("client", client)
		}
		queues, err := remote.List[queueDocument](&r, cmd, "/queues", query, "queues")
		if err != nil || r.AsJSON {
			return err
		}
		err = printQueues(cmd, client, queues)
		noteStopped(cmd, &r)
		return err
	})
	cmd.AddCommand(newDeleteQueue())
	cmd.Flags().StringVar(&client, "client", "", "list only the queues of this client")
	remote.LinesFlag(cmd, &r.AsJSON, "queue")
	config.CompleteFlag(cmd, "client", remote.ClientNames)
	return cmd
}

// noteStopped prints a note if the server is stopped: jobs do not run then, although no queue is paused. The list is
// complete without the note, so it is no error if a proxy blocks /stats.
func noteStopped(cmd *cobra.Command, r *remote.Command) {
	if s, err := remote.AskFor[api.Stats](r, cmd, "/stats"); err == nil && s.Stopped {
		fmt.Fprintf(cmd.ErrOrStderr(), "the server is %s\n", stoppedText)
	}
}

func printQueues(cmd *cobra.Command, client string, queues []queueDocument) error {
	if len(queues) == 0 && client != "" {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "client %s has no queues\n", client)
		return err
	}
	if len(queues) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "there are no queues yet; the first job of a client and type creates its queue")
		return err
	}
	return terminal.Table(cmd.OutOrStdout(), func(row func(...any)) {
		head := []any{"CLIENT", "TYPE"}
		for _, s := range job.Statuses {
			head = append(head, s)
		}
		row(append(head, "oldest", "")...)
		for _, q := range queues {
			cells := []any{q.Client, q.Type}
			for _, s := range job.Statuses {
				cells = append(cells, q.Counts[s.String()])
			}
			oldest, paused := "-", ""
			if q.Pending != nil {
				oldest = terminal.Interval(*q.Pending)
			}
			if q.Paused {
				paused = "paused"
			}
			row(append(cells, oldest, paused)...)
		}
	})
}
