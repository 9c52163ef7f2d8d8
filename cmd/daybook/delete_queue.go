package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
)

func newDeleteQueue() *cobra.Command {
	var server config.ServerAddress
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "delete CLIENT/TYPE",
		Short: "Delete a queue that has no jobs",
		Long: `Delete a queue that has no jobs, paused or not. The server refuses to delete a queue with jobs, including
ended jobs that it still keeps. The next job of that client and type creates the queue again.

The server itself deletes a queue that has had no jobs for --queue-idle (see ` + "`daybook serve --help`" + `).`,
		Example: `  daybook queues delete acme/resize`,
		Args:    cobra.RangeArgs(1, 2), // client and type can also be two arguments

		ValidArgsFunction: config.Once(queueNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := config.ParseQueue(strings.Join(args, "/"))
			if err != nil {
				return err
			}
			url, err := reach(cmd, &server)
			if err != nil {
				return err
			}
			c := client.New(url, client.Options{})
			if err := c.DeleteQueue(cmd.Context(), q.Client, q.Type); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"client": q.Client, "type": q.Type, "deleted": true})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "deleted the queue %s\n", q)
			return err
		},
	}
	config.ServerFlag(cmd, &server)
	jsonFlag(cmd, &asJSON)
	return cmd
}
