package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

func newRedrive() *cobra.Command {
	b := bulk{verb: "redrive", done: "redriven", allowed: statusesEnded, standard: []job.Status{job.Failed}}
	b.one = func(ctx context.Context, id string) (*client.Job, error) {
		j, err := b.Client.Redrive(ctx, id)
		return j, ofEndedBatch(err)
	}
	b.ofBatch = func(ctx context.Context, id, status string) (client.Sweep, error) {
		w, err := b.Client.RedriveBatch(ctx, id, status)
		return w, ofEndedBatch(err)
	}
	b.dryOne = func(ctx context.Context, j *client.Job) error { return redrivable(ctx, b.Client, j.BatchID) }
	b.dryBatch = func(ctx context.Context, id string) error { return redrivable(ctx, b.Client, id) }
	b.leftOut = `a job of a batch of "daybook submit" that has ended cannot run again`
	b.ofQueue = func(ctx context.Context, c, typ, status string) (client.Sweep, error) {
		return b.Client.RedriveQueue(ctx, c, typ, status)
	}
	return b.command(&cobra.Command{
		Use:   "redrive",
		Short: "Run ended jobs again",
		Long: `Make ended jobs pending again, with all of their attempts. Of a batch or queue, the failed jobs are redriven,
unless --status says otherwise.

Jobs of a batch that "daybook submit" has posted cannot be redriven after the end of the batch, because its status is
final then. Submit their payloads again instead, as the last example does. Of a queue, the command skips these jobs,
and --dry-run counts them all the same.`,
		Example: `  daybook redrive 0185a1b2-c3d4-7000-8000-00000c800000
  daybook redrive --queue acme/resize
  daybook jobs --status failed --meta user=42 --ids | daybook redrive --job -
  daybook jobs --type resize --status failed --limit 0 --json | jq -rc .payload | daybook submit --type resize`,
	})
}

// redrivable returns the error with which the server would refuse to redrive jobs of a batch.
func redrivable(ctx context.Context, c *client.Client, batch string) error {
	if batch == "" {
		return nil
	}
	of, err := c.Batch(ctx, batch)
	if err == nil && of.OnFailure != "" && of.Ended() { // only a batch with attributes has on_failure
		err = &client.Error{Status: http.StatusConflict, Code: job.BatchEnded.Code(), Detail: job.BatchEnded.Error()}
	}
	return ofEndedBatch(err)
}

// ofEndedBatch adds the alternative to the refusal of a redrive.
func ofEndedBatch(err error) error {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == job.BatchEnded.Code() {
		return fmt.Errorf(`%w; "daybook submit" can post the payloads of its jobs again`, err)
	}
	return err
}
