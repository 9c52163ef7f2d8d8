package main

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

func newRunners() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "runners [ID]",
		Short: "List the runners, or show one",
		Long: `List the runners that hold jobs or send heartbeats, with how many jobs each holds. With an id, show the document of
that runner, with the claims that it has. The state is one of these:

  ALIVE   its heartbeats arrive
  ENDED   it has said that it ends
  LOST    its heartbeats stopped without that
  -       it sends no heartbeats`,
		Example: `  daybook runners
  daybook runners mixer-1`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: config.Once(remote.RunnerIDs),
	}
	remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if err := job.CheckName("ID", args[0]); err != nil {
				return terminal.Usage(err)
			}
			return showDocument(cmd, &r, "/runners/"+args[0])
		}
		list, err := remote.List[client.Runner](&r, cmd, "/runners", url.Values{}, "runners")
		if err != nil || r.AsJSON {
			return err
		}
		if len(list) == 0 {
			_, err := fmt.Fprintln(r.Out, "there are no runners")
			return err
		}
		return terminal.Table(r.Out, func(row func(...any)) {
			row("ID", "STATE", "HELD", "CLAIMS", "LAST SEEN", "NAME")
			for i := range list {
				one := &list[i]
				row(one.ID, runnerState(one), one.Held, one.ClaimCount, momentOrDash(one.LastSeenAt), terminal.OrDash(one.Name))
			}
		})
	})
	remote.LinesFlag(cmd, &r.AsJSON, "runner")
	return cmd
}

// runnerState returns the state of a runner in one word: a dead runner has ended in order, or is lost.
func runnerState(r *client.Runner) string {
	switch {
	case r.State == client.RunnerDead && r.End == client.RunnerLeft:
		return "ENDED"
	case r.State == client.RunnerDead && r.End == client.RunnerLost:
		return "LOST"
	}
	return terminal.OrDash(r.State)
}

// momentOrDash returns a time, or - if there is none.
func momentOrDash(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return terminal.Moment(ms)
}

// showDocument prints a document of the server.
func showDocument(cmd *cobra.Command, r *remote.Command, path string) error {
	text, err := r.Ask(cmd, path)
	if err != nil {
		return err
	}
	if r.AsJSON {
		return remote.WriteDocument(r.Out, text)
	}
	return printDocument(r.Out, text)
}

func newSweeps() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "sweeps [ID]",
		Short: "List the operations on many jobs",
		Long: `List the operations on all jobs of a batch or queue that are under way or ended within the last day: cancel,
redrive and remove. With an id, show one.

An operation that the server has done at once, as it does for few jobs, is no sweep and is not listed. The same holds
for the cancel or remove, without a status, of a batch that was submitted: "daybook get --batch ID" shows how many of its
jobs are left.`,
		Example: "  daybook sweeps",
		Args:    cobra.MaximumNArgs(1),

		ValidArgsFunction: config.Once(remote.SweepIDs),
	}
	remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if err := remote.CheckIDs(args...); err != nil {
				return err
			}
			return showDocument(cmd, &r, "/sweeps/"+args[0])
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		list, err := r.Client.Sweeps(cmd.Context())
		if err != nil {
			return err
		}
		if r.AsJSON {
			return printLines(r.Out, list)
		}
		if len(list) == 0 {
			_, err := fmt.Fprintln(r.Out, "there are no sweeps")
			return err
		}
		return terminal.Table(r.Out, func(row func(...any)) {
			row("ID", "OPERATION", "OF", "STATUS", "MOVED", "STATE", "BEGUN")
			for _, w := range list {
				of, state := "batch "+w.BatchID, "under way"
				if w.BatchID == "" {
					of = "queue " + w.Client + "/" + w.Type
				}
				if w.Done {
					state = "done"
				}
				row(w.ID, w.Operation, of, terminal.OrDash(w.Status), w.Moved, state, terminal.Moment(w.CreatedAt))
			}
		})
	})
	remote.LinesFlag(cmd, &r.AsJSON, "sweep")
	return cmd
}

// errQueueOrBatch means that a command needs a queue or a batch.
var errQueueOrBatch = errors.New("name a queue as CLIENT/TYPE, or a batch with --batch")
