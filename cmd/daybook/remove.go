package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

func newRemove() *cobra.Command {
	b := bulk{verb: "remove", done: "removed", allowed: job.Statuses, standard: job.Statuses, anyStatus: "all"}
	b.one = func(ctx context.Context, id string) (*client.Job, error) {
		j, err := b.Client.Job(ctx, id)
		if err == nil {
			err = b.Client.Delete(ctx, id)
		}
		if err == nil {
			j.Status = b.done
		}
		return j, err
	}
	b.ofBatch = func(ctx context.Context, id, status string) (client.Sweep, error) {
		return b.Client.DeleteBatch(ctx, id, status)
	}
	b.ofQueue = func(ctx context.Context, c, typ, status string) (client.Sweep, error) {
		return b.Client.DeleteQueueJobs(ctx, c, typ, status)
	}
	return b.command(&cobra.Command{
		Use:     "rm",
		Aliases: []string{"remove"},
		Short:   "Remove jobs and all that is known of them",
		Long: `Remove jobs in any status, and all that is known of them. If a runner works on one of them, the server refuses
its next tickle or completion. With --json, the last document of each job is printed. A queue that has no jobs can
be removed with "daybook queues delete".`,
		Example: `  daybook rm 0185a1b2-c3d4-7000-8000-00000c800000
  daybook rm --queue acme/resize --status completed`,
	})
}
