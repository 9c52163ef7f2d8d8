package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

func newDeleteQueue() *cobra.Command {
	var server serverAddress
	cmd := &cobra.Command{
		Use:   "delete CLIENT TYPE",
		Short: "Delete a queue that has no jobs",
		Long: `Delete a queue that has no jobs, paused or not. The server refuses to delete one that has jobs, also ended ones that it still keeps. The next job of that
client and type makes the queue again. Queues that have had no jobs for --queue-idle (see daybook serve) are deleted without this.`,
		Example: `  daybook queues delete acme resize`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, field := range []string{"CLIENT", "TYPE"} {
				if err := job.CheckName(field, args[i]); err != nil {
					return usageError{err}
				}
			}
			url, err := server.check(cmd.Context())
			if err != nil {
				return err
			}
			c := client.New(url, client.Options{})
			if err := c.DeleteQueue(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "deleted the queue %s/%s\n", args[0], args[1])
			return err
		},
	}
	serverFlag(cmd, &server)
	return cmd
}
