package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/ingest"
)

func newClock() *cobra.Command {
	var server serverAddress
	var accept bool
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show the server's time, or set it to its wall clock",
		Long: `Show how far the server's time is from its wall clock. The server measures leases and run_at by a time
of its own, which never jumps: after the wall clock was set forward it follows at double speed, and jobs
with a run_at are late meanwhile. With --accept it is set to the wall clock at once, and all leases get
their full length again. A time that is ahead of the wall clock goes at half speed; it cannot be set
back.`,
		Example: `  daybook clock
  daybook clock --accept`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var offset time.Duration
			if accept {
				address, err := server.check(cmd.Context())
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
					return fmt.Errorf("read answer: %w", err)
				}
				offset = time.Duration(s.ClockOffsetMs) * time.Millisecond
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the server's time is %+d ms from its wall clock\n", offset.Milliseconds())
			return err
		},
	}
	serverFlag(cmd, &server)
	cmd.Flags().BoolVar(&accept, "accept", false, "set the server's time to its wall clock, if it is earlier")
	return cmd
}
