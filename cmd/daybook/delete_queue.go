package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
)

func newDeleteQueue() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "delete CLIENT/TYPE",
		Short: "Delete a queue that has no jobs",
		Long: `Delete a queue that has no jobs, paused or not. The server refuses to delete a queue with jobs, including
ended jobs that it still keeps. The next job of that client and type creates the queue again.

The server itself deletes a queue that has had no jobs for --queue-idle (see ` + "`daybook serve --help`" + `).`,
		Example: `  daybook queues delete acme/resize`,
		Args:    cobra.RangeArgs(1, 2), // client and type can also be two arguments

		ValidArgsFunction: config.Once(remote.QueueNames),
	}
	remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		q, err := config.ParseQueue(strings.Join(args, "/"))
		if err != nil {
			return err
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		if err := r.Client.DeleteQueue(cmd.Context(), q.Client, q.Type); err != nil {
			return err
		}
		return r.ShowValue(map[string]any{"client": q.Client, "type": q.Type, "deleted": true}, "deleted the queue %s\n", q)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
