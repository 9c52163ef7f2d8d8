package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

func newPause() *cobra.Command {
	return ofQueues(&cobra.Command{
		Use:   "pause CLIENT/TYPE...",
		Short: "Hand out no jobs of a queue",
		Long: `Pause queues: their jobs are not claimed until "daybook resume". Active jobs go on, and jobs can be created. "daybook
stop" does this for the whole server.`,
		Example: "  daybook pause acme/resize",
		Args:    cobra.MinimumNArgs(1),
	}, nil, func(ctx context.Context, c *client.Client, q config.QueueName) (client.Queue, error) {
		return c.Pause(ctx, q.Client, q.Type)
	})
}

func newResume() *cobra.Command {
	var batch string
	cmd := &cobra.Command{
		Use:   "resume [CLIENT/TYPE...|BATCH]",
		Short: "Hand out the jobs of a paused queue or batch",
		Long:  `End the pause of queues, or let the jobs of a batch run that was created paused: name it by its id, or with --batch.`,
		Example: `  daybook resume acme/resize
  daybook resume --batch 0185a1b2-c3d4-7000-8000-00000c800000`,
	}
	ofQueues(cmd, &batch, func(ctx context.Context, c *client.Client, q config.QueueName) (client.Queue, error) {
		return c.Resume(ctx, q.Client, q.Type)
	})
	cmd.Flags().StringVar(&batch, "batch", "", "the batch that runs from now on")
	config.CompleteFlag(cmd, "batch", remote.BatchIDs)
	return cmd
}

// ofQueues makes a command that changes queues, or resumes a batch.
func ofQueues(cmd *cobra.Command, batch *string, change func(ctx context.Context, c *client.Client, q config.QueueName) (client.Queue, error)) *cobra.Command {
	var r remote.Command
	remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if batch != nil && *batch == "" && len(args) == 1 && !strings.Contains(args[0], "/") { // not a queue
			*batch, args = args[0], nil
		}
		if batch != nil && (*batch == "") == (len(args) == 0) {
			return terminal.Usage(errQueueOrBatch)
		}
		if batch != nil && *batch != "" {
			if _, err := job.ParseID(*batch); err != nil {
				return terminal.Usagef("%q is neither a queue, like acme/resize, nor the id of a batch", *batch)
			}
			if err := r.Connect(cmd); err != nil {
				return err
			}
			b, err := r.Client.ResumeBatch(cmd.Context(), *batch)
			if err != nil {
				return err
			}
			return r.Show(b.Text, "%s %s\n", b.ID, b.Status)
		}
		var names []config.QueueName
		for _, arg := range args {
			q, err := config.ParseQueue(arg)
			if err != nil {
				return err
			}
			names = append(names, q)
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		for _, name := range names {
			q, err := change(cmd.Context(), r.Client, name)
			if err != nil {
				return err
			}
			is := "is"
			if !q.Paused {
				is = "is not"
			}
			if err := r.Show(q.Text, "%s %s paused\n", name, is); err != nil {
				return err
			}
		}
		return nil
	})
	cmd.ValidArgsFunction = config.Each(remote.QueueNames)
	remote.LinesFlag(cmd, &r.AsJSON, "queue")
	return cmd
}
