package main

import (
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
)

func newCloseBatch() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "close BATCH",
		Short: "Say that an open batch gets no more jobs",
		Long: `Say that an open batch gets no more jobs. The batch completes when its jobs have ended. "daybook submit" closes the
batches that it makes; a batch stays open if its producer creates it with "open" and ends before it has closed it.`,
		Example:           "  daybook close 0185a1b2-c3d4-7000-8000-00000c800000",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: config.Once(remote.BatchIDs),
	}
	remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := remote.CheckIDs(args...); err != nil {
			return err
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		b, err := r.Client.CloseBatch(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return r.Show(b.Text, "%s %s\n", b.ID, b.Status)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
