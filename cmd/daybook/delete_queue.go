package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

func newDeleteQueue() *cobra.Command {
	var server serverAddress
	cmd := &cobra.Command{
		Use:   "delete CLIENT/TYPE",
		Short: "Delete a queue that has no jobs",
		Long: `Delete a queue that has no jobs, paused or not. The server refuses to delete a queue with jobs, including
ended jobs that it still keeps. The next job of that client and type creates the queue again.

The server itself deletes a queue that has had no jobs for --queue-idle (see ` + "`daybook serve --help`" + `).`,
		Example: `  daybook queues delete acme/resize`,
		Args:    cobra.RangeArgs(1, 2), // client and type can also be two arguments
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				client, typ, ok := strings.Cut(args[0], "/")
				if !ok {
					return usageError{fmt.Errorf("%q is not a queue; name it as CLIENT/TYPE, like acme/resize", args[0])}
				}
				args = []string{client, typ}
			}
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
