package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
)

func newStop() *cobra.Command {
	return switches(&cobra.Command{
		Use:   "stop",
		Short: "Hand out no jobs of any queue",
		Long: `Make the server hand out no jobs until "daybook start", also after a restart. Runners finish the jobs that they
have, and jobs can be created. This is how a server is drained before an upgrade; "daybook runners" shows who
still works. The process goes on.`,
		Example: "  daybook stop",
		Args:    cobra.NoArgs,
	}, (*client.Client).Stop)
}

func newStart() *cobra.Command {
	return switches(&cobra.Command{
		Use:     "start",
		Short:   "Hand out jobs again after a stop",
		Long:    `Make the server hand out jobs again after "daybook stop". Paused queues stay paused. "daybook serve" starts a server.`,
		Example: "  daybook start",
		Args:    cobra.NoArgs,
	}, (*client.Client).Start)
}

func switches(cmd *cobra.Command, turn func(*client.Client, context.Context) error) *cobra.Command {
	var r remote
	overServer(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		if err := r.connect(cmd); err != nil {
			return err
		}
		if err := turn(r.c, cmd.Context()); err != nil {
			return err
		}
		s, err := r.c.Stats(cmd.Context())
		if err != nil {
			return err
		}
		if r.asJSON {
			return writeDocument(r.out, s.Text)
		}
		text := "the server hands out jobs"
		if s.Stopped {
			text = "the server hands out no jobs"
		}
		_, err = fmt.Fprintf(r.out, "%s; %d are active\n", text, s.Jobs["active"])
		return err
	})
	jsonFlag(cmd, &r.asJSON)
	return cmd
}
