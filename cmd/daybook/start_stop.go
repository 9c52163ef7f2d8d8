package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
)

func newStop() *cobra.Command {
	var wait bool
	cmd := switches(&cobra.Command{
		Use:   "stop",
		Short: "Hand out no jobs of any queue",
		Long: `Make the server hand out no jobs until "daybook start", also after a restart. Runners finish the jobs that they
have, and jobs can be created. This is how a server is drained before an upgrade. "daybook runners" shows who
still works. The process goes on.

With --wait, the command ends when no job is active. If it is interrupted, the server stays stopped.`,
		Example: `  daybook stop
  daybook stop --wait`,
		Args: cobra.NoArgs,
	}, func(c *client.Client, ctx context.Context) error {
		if err := c.Stop(ctx); err != nil || !wait {
			return err
		}
		return untilIdle(ctx, c)
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until no job is active")
	return cmd
}

// askIdle is how often the server is asked whether jobs are active.
const askIdle = 500 * time.Millisecond

// untilIdle returns when no job is active.
func untilIdle(ctx context.Context, c *client.Client) error {
	every := time.NewTicker(askIdle)
	defer every.Stop()
	for {
		s, err := c.Stats(ctx)
		if err != nil || s.Jobs["active"] == 0 {
			return err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
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
		_, err = fmt.Fprintf(r.out, "%s; active: %s\n", text, jobsText(s.Jobs["active"]))
		return err
	})
	jsonFlag(cmd, &r.asJSON)
	return cmd
}
