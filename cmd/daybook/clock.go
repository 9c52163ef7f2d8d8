package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/ingest"
)

func newClock() *cobra.Command {
	var server config.ServerAddress
	var accept, asJSON bool
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			var offset time.Duration
			if accept {
				address, err := reach(cmd, &server)
				if err != nil {
					return err
				}
				if offset, err = client.New(address, client.Options{}).AcceptTime(cmd.Context()); err != nil {
					return err
				}
			} else {
				text, err := ask(cmd, &server, "/stats")
				if err != nil {
					return err
				}
				var s ingest.Stats
				if err := json.Unmarshal(text, &s); err != nil {
					return unreadable(err)
				}
				offset = time.Duration(s.ClockOffsetMs) * time.Millisecond
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"clock_offset_ms": offset.Milliseconds()})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the server's time is %+d ms from its wall clock\n", offset.Milliseconds())
			return err
		},
	}
	config.ServerFlag(cmd, &server)
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&accept, "accept", false, "set the server's time to its wall clock, if the wall clock is later")
	return cmd
}
