package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// pingEvery is the time between two tries of a ping that waits.
const pingEvery = 100 * time.Millisecond

func newPing() *cobra.Command {
	var r remote.Command
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Check that the server is ready",
		Long: `Check that the server can be reached and accepts changes, as GET /readyz reports it. The command needs no key, so
containers can use it as their health check. With --wait it tries again until the server is ready.`,
		Example: `  daybook ping
  daybook ping --wait 30s && daybook stats`,
		Args: cobra.NoArgs,
	}
	remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		if wait < 0 {
			return terminal.Usagef("--wait must not be negative")
		}
		end := time.Now().Add(wait)
		text, err := r.Ask(cmd, "/readyz")
		for err != nil && remote.TLSHint(err) == "" && time.Now().Before(end) && cmd.Context().Err() == nil {
			select {
			case <-time.After(pingEvery):
			case <-cmd.Context().Done():
			}
			text, err = r.Ask(cmd, "/readyz")
		}
		if err != nil {
			return err
		}
		return r.Show(text, "ready\n")
	})
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait until the server is ready (default: not at all)")
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
