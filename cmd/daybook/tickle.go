package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newTickle() *cobra.Command {
	var r remote.Command
	var o client.TickleOptions
	var claim string
	var lease config.DurationFlag
	var progress float64
	var isJob bool
	cmd := &cobra.Command{
		Use:   "tickle [ID]",
		Short: "Renew the lease of a job or claim",
		Long: `Renew the lease of a job, or with --claim that of all jobs of a claim, and report how far they are. It is an
error if the jobs are no longer held.`,
		Example: `  daybook tickle 0185a1b2-c3d4-7000-8000-00000c800000 --step resizing --progress 0.5
  daybook tickle --claim 0185a1b2-c3d4-7000-8000-00000c800001`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: config.Once(remote.JobIDs(statusesActive...)),
	}
	config.EncryptionFlag(cmd, &r.Server)
	remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && claim == "" {
			return terminal.Usage(errors.New("daybook tickle requires the id of a job, or --claim"))
		}
		if o.LeaseMs = lease.Ms(); cmd.Flags().Changed("progress") {
			o.Progress = &progress
		}
		if len(args) == 0 {
			if err := remote.CheckIDs(claim); err != nil {
				return err
			}
			if err := r.Connect(cmd); err != nil {
				return err
			}
			held, err := r.Client.TickleClaim(cmd.Context(), claim, o)
			if err != nil {
				return err
			}
			return r.ShowValue(&held, "held: %s, lost: %d\n", terminal.JobsText(held.Held), len(held.Lost))
		}
		if err := remote.CheckIDs(args...); err != nil {
			return err
		}
		if claim != "" {
			if err := remote.CheckIDs(claim); err != nil {
				return err
			}
		}
		if err := r.ConnectToChange(cmd, args, claim, isJob); err != nil {
			return err
		}
		o.ClaimID = claim
		j, err := r.Client.Tickle(cmd.Context(), args[0], o)
		if err != nil {
			return err
		}
		return r.PrintJob(j)
	})
	flags := cmd.Flags()
	flags.StringVar(&claim, "claim", "", "id of the claim that holds the job, or of all jobs that are tickled")
	config.OptionalDuration(flags, &lease, "lease", "a new length of the lease")
	flags.StringVar(&o.Step, "step", "", "what is done now")
	flags.Float64Var(&progress, "progress", 0, "how much is done, 0 to 1")
	remote.JobFlag(flags, &isJob, remote.JobFlagText)
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
