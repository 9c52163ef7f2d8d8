package main

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newLogs() *cobra.Command {
	var r remote.Command
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show what a job has printed",
		Long: `Show what a job has printed. While the job runs, this is the end of its log, up to 256 KiB. With --follow,
the command goes on until the job ends; it also waits for a job that has not begun. Afterwards it is the
whole log, if the runner has stored one.

Only containers have logs, and programs whose handler has log_bytes. What a script prints is in the log of its runner.`,
		Example: `  daybook logs -f 0185a1b2-c3d4-7000-8000-00000c800000`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(remote.JobIDs(remote.StatusesStarted...)),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job ends")
	var isJob bool
	remote.JobFlag(cmd.Flags(), &isJob, "the id is that of a job, also if it is a batch's")
	return remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := remote.CheckIDs(args[0]); err != nil {
			return err
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		c, err := r.Server.Client(r.URL, client.Options{RetryFor: 5 * time.Second})
		if err != nil {
			return err
		}
		log, err := c.JobLog(cmd.Context(), args[0], follow)
		if err != nil {
			return ofNoLog(err)
		}
		if !isJob {
			if err := r.NoteBatch(cmd, args[0], "`daybook results` shows the outputs of the batch"); err != nil {
				return errors.Join(err, log.Close())
			}
		}
		_, err = io.Copy(terminal.Plain(r.Out), log)
		return errors.Join(err, log.Close())
	})
}

// ofNoLog replaces the parameter of the request in an error by the flag of this command.
func ofNoLog(err error) error {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == "log_not_found" {
		said := *refused
		said.Detail = strings.ReplaceAll(said.Detail, "?follow=true", "--follow")
		return &said
	}
	return err
}
