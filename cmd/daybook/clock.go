package main

import (
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/ingest"
)

func newClock() *cobra.Command {
	var r remote.Command
	var accept bool
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show the server's time, or set it to its wall clock",
		Long: `Show how far the server's time is from its wall clock.

The server measures leases and run_at by a time of its own, which never jumps. After the wall clock was
set forward, the server's time runs at double speed until it has caught up; meanwhile jobs with a run_at
start late. Use --accept to set the server's time to the wall clock at once. All leases then get their
full length again.

A server's time that is ahead of the wall clock runs at half speed. It cannot be set back.`,
		Example: `  daybook clock
  daybook clock --accept`,
		Args: cobra.NoArgs,
	}
	remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		var s ingest.Stats
		var err error
		if accept {
			if err := r.Connect(cmd); err != nil {
				return err
			}
			offset, err := r.Client.AcceptTime(cmd.Context())
			if err != nil {
				return err
			}
			s.ClockOffsetMs = offset.Milliseconds()
		} else if s, err = remote.AskFor[ingest.Stats](&r, cmd, "/stats"); err != nil {
			return err
		}
		return r.ShowValue(map[string]any{"clock_offset_ms": s.ClockOffsetMs}, "the server's time is %+d ms from its wall clock\n", s.ClockOffsetMs)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	cmd.Flags().BoolVar(&accept, "accept", false, "set the server's time to its wall clock, if the wall clock is later")
	return cmd
}
