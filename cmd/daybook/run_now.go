package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

func newRunNow() *cobra.Command {
	b := bulk{verb: "run", done: "made pending", allowed: []job.Status{job.Deferred}}
	b.one = func(ctx context.Context, id string) (*client.Job, error) { return b.Client.RunNow(ctx, id) }
	return b.command(&cobra.Command{
		Use:   "run",
		Short: "Let deferred jobs run now",
		Long: `Make deferred jobs pending now: those that wait for their time, or for another attempt, and those that the server
has set aside because it could not read their payloads. A pending job stays pending.`,
		Example: `  daybook run 0185a1b2-c3d4-7000-8000-00000c800000
  daybook jobs --type resize --status deferred --ids | daybook run --job -`,
	})
}
