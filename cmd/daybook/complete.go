package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/input"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

func newComplete() *cobra.Command {
	var r remote.Command
	var o client.Outcome
	var claim, output, file string
	var asValue, isJob bool
	var delay config.DurationFlag
	cmd := &cobra.Command{
		Use:   "complete ID",
		Short: "End the run of a job with an outcome",
		Long: `End the run of an active job. The code says how: ok completes the job; failed fails it; retry and error run it
again while it has attempts. With --claim, only that claim may complete the job, and the command may be
repeated. Without it, anybody completes the job.`,
		Example: `  daybook complete 0185a1b2-c3d4-7000-8000-00000c800000 --output 42
  daybook complete 0185a1b2-c3d4-7000-8000-00000c800000 --code failed --error 'no such file'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: config.Once(remote.JobIDs(statusesActive...)),
	}
	config.EncryptionFlag(cmd, &r.Server)
	remote.Over(&r, cmd, func(cmd *cobra.Command, args []string) (err error) {
		if err := remote.CheckIDs(args...); err != nil {
			return err
		}
		if output != "" && file != "" {
			return terminal.Usage(errors.New("the output is either --output or --output-file"))
		}
		if o.Output = []byte(output); file != "" {
			if o.Output, err = input.ReadAll(cmd, file, job.MaxOutputBytes); err != nil {
				return err
			}
		}
		if asValue {
			o.OutputKind = client.JSON
		}
		o.DelayMs = delay.MsIfGiven(cmd, "delay")
		if err := r.ConnectToChange(cmd, args, claim, isJob); err != nil {
			return err
		}
		j, err := r.Client.Complete(cmd.Context(), args[0], claim, o)
		if err != nil {
			return err
		}
		return r.PrintJob(j)
	})
	flags := cmd.Flags()
	flags.StringVar(&claim, "claim", "", "id of the claim that holds the job")
	flags.StringVar(&o.Code, "code", "", "ok, failed, retry or error (default: that of --exit-code, or ok)")
	flags.IntVar(&o.ExitCode, "exit-code", 0, "2xx for ok, 4xx for failed, 1xx for retry, 5xx for error")
	flags.StringVar(&output, "output", "", "the output of the job, as text")
	flags.StringVar(&file, "output-file", "", "file with the output; - is standard input")
	flags.BoolVar(&asValue, "value", false, "the output is a JSON value")
	flags.StringVar(&o.OutputAddr, "output-addr", "", "address of the output, in place of the output itself")
	flags.StringVar((*string)(&o.OutputAddrKind), "output-addr-kind", "", "kind of what --output-addr names: text, json or bytes")
	flags.StringVar(&o.Error, "error", "", "why the run did not succeed")
	config.OptionalDuration(flags, &delay, "delay", "how long the job waits after retry or error (default: its backoff)")
	remote.JobFlag(flags, &isJob, remote.JobFlagText)
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
