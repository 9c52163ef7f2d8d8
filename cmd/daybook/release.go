package main

import (
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/job"
)

func newRelease() *cobra.Command {
	var r remote.Command
	var claim string
	var retry, isJob bool
	var delay config.DurationFlag
	cmd := &cobra.Command{
		Use:   "release ID",
		Short: "Give a claimed job back",
		Long: `Give an active job back, so that it is claimed again. The run does not count as an attempt, unless --retry is
given.`,
		Example: `  daybook release 0185a1b2-c3d4-7000-8000-00000c800000 --claim 0185a1b2-c3d4-7000-8000-00000c800001
  daybook release 0185a1b2-c3d4-7000-8000-00000c800000 --retry --delay 5m`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: config.Once(remote.JobIDs(statusesActive...)),
	}
	config.EncryptionFlag(cmd, &r.Server)
	remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := remote.CheckIDs(args...); err != nil {
			return err
		}
		how := client.Unget
		if retry {
			how = client.Retry
		}
		if err := r.ConnectToChange(cmd, args, claim, isJob); err != nil {
			return err
		}
		j, err := r.Client.Release(cmd.Context(), args[0], claim, how, delay.MsIfGiven(cmd, "delay"))
		if err != nil {
			return err
		}
		return r.PrintJob(j)
	})
	flags := cmd.Flags()
	flags.StringVar(&claim, "claim", "", "id of the claim that holds the job")
	flags.BoolVar(&retry, "retry", false, "the run counts as an attempt")
	config.OptionalDuration(flags, &delay, "delay", "how long the job waits before it may be claimed again")
	remote.JobFlag(flags, &isJob, remote.JobFlagText)
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

// statusesActive are the statuses of jobs that a runner holds.
var statusesActive = []job.Status{job.Active}
