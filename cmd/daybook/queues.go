package main

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

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
	var server serverAddress
	var client string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "List the queues with their counts",
		Long: `List the queues by client and type, with the number of their jobs in each status. "oldest" is how long
the next pending job has been waiting. It grows if the runners are too slow.`,
		Example: `  daybook queues
  daybook queues --client acme --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if client != "" {
				if err := job.CheckName("--client", client); err != nil {
					return usageError{err}
				}
			}
			queues, err := allQueues(cmd, &server, client)
			if err != nil {
				return err
			}
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				for _, q := range queues {
					if err := out.Encode(q); err != nil {
						return err
					}
				}
				return nil
			}
			return printQueues(cmd, client, queues)
		},
	}
	cmd.AddCommand(newDeleteQueue())
	cmd.Flags().StringVar(&client, "client", "", "list only the queues of this client")
	serverFlag(cmd, &server)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one queue per line")
	return cmd
}

// allQueues reads all pages of the list of queues.
func allQueues(cmd *cobra.Command, server *serverAddress, client string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	query := url.Values{}
	if client != "" {
		query.Set("client", client)
	}
	for {
		text, err := ask(cmd, server, "/queues?"+query.Encode())
		if err != nil {
			return nil, err
		}
		var page struct {
			Queues []json.RawMessage `json:"queues"`
			Next   *string           `json:"next"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		all = append(all, page.Queues...)
		if page.Next == nil {
			return all, nil
		}
		query.Set("after", *page.Next)
	}
}

func printQueues(cmd *cobra.Command, client string, queues []json.RawMessage) error {
	if len(queues) == 0 && client != "" {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "client %s has no queues\n", client)
		return err
	}
	if len(queues) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "there are no queues yet; the first job of a client and type creates its queue")
		return err
	}
	var failed error
	err := table(cmd.OutOrStdout(), func(row func(...any)) {
		head := []any{"CLIENT", "TYPE"}
		for _, s := range job.Statuses {
			head = append(head, s)
		}
		row(append(head, "oldest", "")...)
		for _, text := range queues {
			var q queueDocument
			if err := json.Unmarshal(text, &q); err != nil {
				failed = fmt.Errorf("read answer: %w", err)
				return
			}
			cells := []any{q.Client, q.Type}
			for _, s := range job.Statuses {
				cells = append(cells, q.Counts[s.String()])
			}
			oldest, paused := "-", ""
			if q.Pending != nil {
				oldest = interval(*q.Pending)
			}
			if q.Paused {
				paused = "paused"
			}
			row(append(cells, oldest, paused)...)
		}
	})
	if failed != nil {
		return failed
	}
	return err
}
