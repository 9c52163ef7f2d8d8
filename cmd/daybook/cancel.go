package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

func newCancel() *cobra.Command {
	b := bulk{verb: "cancel", done: "cancelled", allowed: statusesUnfinished, standard: statusesUnfinished}
	b.one = func(ctx context.Context, id string) (*client.Job, error) { return b.Client.Cancel(ctx, id) }
	b.ofBatch = func(ctx context.Context, id, status string) (client.Sweep, error) {
		return b.Client.CancelBatch(ctx, id, status)
	}
	b.ofQueue = func(ctx context.Context, c, typ, status string) (client.Sweep, error) {
		return b.Client.CancelQueue(ctx, c, typ, status)
	}
	return b.command(&cobra.Command{
		Use:   "cancel",
		Short: "Cancel jobs that have not ended",
		Long: `Cancel jobs that have not ended. If a runner works on one of them, the server refuses its next tickle or
completion. To cancel the batch of a submission ends the batch: no more jobs can be added.`,
		Example: `  daybook cancel 0185a1b2-c3d4-7000-8000-00000c800000
  daybook cancel --batch 0185a1b2-c3d4-7000-8000-00000c800000
  daybook cancel --queue acme/resize --status deferred --dry-run
  daybook jobs --meta user=42 --status pending --ids | daybook cancel --job -`,
	})
}

// statusesUnfinished are the statuses of jobs that have not ended, and statusesEnded the statuses of ended jobs.
var (
	statusesUnfinished = []job.Status{job.Deferred, job.Pending, job.Active}
	statusesEnded      = []job.Status{job.Completed, job.Failed, job.Cancelled}
)
