package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// A batch that one request has created has the same id as its first job. A command that changes jobs refuses such an
// id, unless a flag selects one of the two: cancelling a batch is not cancelling its first job.

// JobFlag adds the flag that makes the ids of a command ids of jobs.
func JobFlag(flags *pflag.FlagSet, to *bool, what string) {
	flags.BoolVar(to, "job", false, what)
}

const JobFlagText = "the ids are those of jobs, also one that is a batch's and that of its first job"

// batchOf returns the batch with an id, if the id may not be meant for a job: the batch has more than one job, or no
// job has the id.
func batchOf(ctx context.Context, c *client.Client, id string) (b client.Batch, ambiguous bool, err error) {
	if parsed, err := job.ParseID(id); err != nil || parsed.Line() != 0 {
		return b, false, err // ids of batches have the line 0
	}
	b, err = c.Batch(ctx, id)
	if errors.Is(err, client.ErrNotFound) {
		return b, false, nil
	}
	return b, err == nil && (b.Count != 1 || b.OnFailure != ""), err
}

// RefuseBatches returns an error if one of the ids belongs to a batch and may not be meant for a job. ofBatch is the
// flag that names a batch, or empty if the command changes jobs only.
func RefuseBatches(cmd *cobra.Command, c *client.Client, ids []string, ofBatch string) error {
	for _, id := range ids {
		b, ambiguous, err := batchOf(cmd.Context(), c, id)
		if err != nil {
			return err
		}
		if !ambiguous {
			continue
		}
		what, job := fmt.Sprintf("%s is the id of a batch of %s and of its first job", id, terminal.JobsText(b.Count)), "--job means the first job only"
		if _, err := c.Job(cmd.Context(), id); errors.Is(err, client.ErrNotFound) {
			what, job = fmt.Sprintf("%s is the id of a batch of %s, and of no job", id, terminal.JobsText(b.Count)), ""
		} else if err != nil {
			return err
		} else if b.Count == 1 {
			continue
		}
		how := job
		if ofBatch != "" {
			how = fmt.Sprintf("%s %s means the batch", ofBatch, id)
			if job != "" {
				how += ", and " + job
			}
		} else if job == "" {
			how = fmt.Sprintf("`daybook jobs --batch %s` lists its jobs", id)
		}
		return terminal.Usagef("nothing was changed: %s; %s", what, how)
	}
	return nil
}

// ConnectToChange connects, and checks the ids of jobs as RefuseBatches does. A claim holds only jobs, so with a claim an id is clear.
func (r *Command) ConnectToChange(cmd *cobra.Command, ids []string, claim string, isJob bool) error {
	err := r.Connect(cmd)
	if err == nil && claim == "" && !isJob {
		err = RefuseBatches(cmd, r.Client, ids, "")
	}
	return err
}

// NoteBatch notes on standard error that a document belongs to one job of a batch, if the batch has more jobs.
func (r *Command) NoteBatch(cmd *cobra.Command, id, hint string) error {
	c := r.Client
	if c == nil {
		url, err := r.Server.URL(cmd.Context())
		if err != nil {
			return err
		}
		if c, err = newClient(cmd, &r.Server, url, 0); err != nil {
			return err
		}
	}
	b, ambiguous, err := batchOf(cmd.Context(), c, id)
	if err == nil && ambiguous && b.Count > 1 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is job 1 of %d of the batch with this id; %s\n", id, b.Count, hint)
	}
	return err
}
