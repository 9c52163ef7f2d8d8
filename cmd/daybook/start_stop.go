package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

func newStop() *cobra.Command {
	var wait bool
	cmd := switches(&cobra.Command{
		Use:   "stop",
		Short: "Hand out no jobs of any queue",
		Long: `Make the server hand out no jobs until "daybook start", also after a restart. Runners finish the jobs that they
have, and jobs can be created. This is how a server is drained before an upgrade. "daybook runners" shows who
still works. The process goes on.

With --wait, the command ends when no job is active. On standard error it says how many are, and which runners hold
them. If it is interrupted, the server stays stopped until "daybook start".`,
		Example: `  daybook stop
  daybook stop --wait`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client) error {
		if err := c.Stop(cmd.Context()); err != nil || !wait {
			return err
		}
		ctx, end := terminal.UntilInterrupted(cmd.Context())
		defer end()
		err := untilIdle(ctx, c, cmd.ErrOrStderr())
		if ctx.Err() != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "interrupted; the server stays stopped, and hands out no jobs until `daybook start`")
			return terminal.SilentExit(terminal.ExitSignal + int(syscall.SIGINT))
		}
		return err
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until no job is active")
	return cmd
}

// askIdle is how often stop --wait reads whether jobs are active.
const askIdle = 500 * time.Millisecond

// sayActive is the shortest time after which stop --wait prints the number of active jobs again.
const sayActive = time.Second

// untilIdle returns when no job is active. It prints how many are, at the start and when the number has changed.
func untilIdle(ctx context.Context, c *client.Client, to io.Writer) error {
	every := time.NewTicker(askIdle)
	defer every.Stop()
	var said int64
	var at time.Time
	for {
		s, err := c.Stats(ctx)
		active := s.Jobs[job.Active.String()]
		if err != nil || active == 0 {
			return err
		}
		if active != said && time.Since(at) >= sayActive {
			fmt.Fprintf(to, "waiting for %s%s\n", terminal.NumberText(active, "active job", "active jobs"), heldBy(ctx, c))
			said, at = active, time.Now()
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// maxNamed is how many runners stop --wait names.
const maxNamed = 5

// heldBy returns the runners that hold jobs, as the end of a sentence; "" if they are not known.
func heldBy(ctx context.Context, c *client.Client) string {
	var named []string
	others := 0
	for r, err := range c.Runners(ctx) {
		switch {
		case err != nil:
			return ""
		case r.Held > 0 && len(named) == maxNamed:
			others++
		case r.Held > 0:
			named = append(named, fmt.Sprintf("runner %s holds %d", r.ID, r.Held))
		}
	}
	if len(named) == 0 {
		return ""
	}
	if others > 0 {
		named = append(named, terminal.NumberText(others, "other runner holds more", "other runners hold more"))
	}
	return ": " + strings.Join(named, ", ")
}

func newStart() *cobra.Command {
	return switches(&cobra.Command{
		Use:     "start",
		Short:   "Hand out jobs again after a stop",
		Long:    `Make the server hand out jobs again after "daybook stop". Paused queues stay paused. "daybook serve" starts a server.`,
		Example: "  daybook start",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client) error { return c.Start(cmd.Context()) })
}

func switches(cmd *cobra.Command, turn func(*cobra.Command, *client.Client) error) *cobra.Command {
	var r remote.Command
	remote.Connected(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		if err := turn(cmd, r.Client); err != nil {
			return err
		}
		s, err := r.Client.Stats(cmd.Context())
		if err != nil {
			return err
		}
		text := "the server hands out jobs"
		if s.Stopped {
			text = "the server hands out no jobs"
		}
		return r.Show(s.Text, "%s; active: %s\n", text, terminal.JobsText(s.Jobs["active"]))
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
