package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/job"
)

func newRunNow() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "run ID...",
		Short: "Let deferred jobs run now",
		Long: `Make deferred jobs pending now: those that wait for their time, or for another attempt, and those that the server
has set aside because it could not read their payloads. A pending job stays pending.`,
		Example:           "  daybook run 0185a1b2-c3d4-7000-8000-00000c800000",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: each(jobIDs(job.Deferred)),
	}
	overServer(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := checkIDs(args...); err != nil {
			return err
		}
		if err := r.connect(cmd); err != nil {
			return err
		}
		return r.eachJob(cmd, args, "made pending", func(ctx context.Context, id string) error {
			j, err := r.c.RunNow(ctx, id)
			if err != nil {
				return err
			}
			return r.printJob(j)
		})
	})
	linesFlag(cmd, &r.asJSON, "job")
	return cmd
}
