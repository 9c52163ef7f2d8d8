package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

func newRedrive() *cobra.Command {
	b := bulk{verb: "redrive", done: "redriven", allowed: statusesEnded, standard: []job.Status{job.Failed}}
	b.one = func(ctx context.Context, id string) (*client.Job, error) { return b.c.Redrive(ctx, id) }
	b.ofBatch = func(ctx context.Context, id, status string) (client.Sweep, error) {
		return b.c.RedriveBatch(ctx, id, status)
	}
	b.ofQueue = func(ctx context.Context, c, typ, status string) (client.Sweep, error) {
		return b.c.RedriveQueue(ctx, c, typ, status)
	}
	return b.command(&cobra.Command{
		Use:   "redrive",
		Short: "Run ended jobs again",
		Long: `Make ended jobs pending again, with all of their attempts. Of a batch or queue, the failed jobs are redriven,
unless --status says otherwise.

Jobs of a batch that "daybook submit" has posted can be redriven only until the batch has ended, because its status is
final then. Of a queue, the command skips them, and --dry-run counts them all the same.`,
		Example: `  daybook redrive 0185a1b2-c3d4-7000-8000-00000c800000
  daybook redrive --queue acme/resize
  daybook jobs --status failed --meta user=42 --ids | daybook redrive -`,
	})
}
