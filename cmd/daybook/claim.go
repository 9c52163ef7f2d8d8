package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newClaim() *cobra.Command {
	var r remote.Command
	var q client.ClaimRequest
	var wait, lease config.DurationFlag
	cmd := &cobra.Command{
		Use:   "claim",
		Short: "Claim jobs, as a runner does",
		Long: `Claim jobs, and print them: a line with the id of the claim and its lease, then a line for each job with its id,
its queue and its payload. With --json, each job is a JSON document with its claim_id.
The jobs are active until "daybook complete" or "daybook release" ends their runs, or until their lease ends,
which "daybook tickle" renews. If there are no jobs, nothing is printed, and the exit code is 10.

This is for scripts, which use --json, and for trying things out. "daybook work" runs a program for each job.`,
		Example: `  daybook claim --type resize --max 10 --wait 30s
  daybook claim --strategy newest --json
  daybook claim --max 10 --strategy prefer_distinct:user/random`,
		Args: cobra.NoArgs,
	}
	config.EncryptionFlag(cmd, &r.Server)
	remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		q.Wait, q.LeaseMs = time.Duration(wait), lease.Ms()
		q.Key = client.NewKey()
		if err := r.Connect(cmd); err != nil {
			return err
		}
		var claim *client.Claim
		err := r.ForKey(cmd, func() (err error) {
			claim, err = r.Client.Claim(cmd.Context(), q)
			return err
		}, func(k client.Key) bool {
			if cmd.Flags().Changed("runner-id") || strings.HasPrefix(q.RunnerID, k.RunnerPrefix) {
				return false
			}
			q.RunnerID = k.RunnerPrefix + q.RunnerID
			return true
		})
		if err != nil {
			return err
		}
		if claim == nil || len(claim.Jobs) == 0 {
			return terminal.SilentExit(terminal.ExitNotFound)
		}
		failed := releaseUndecodable(cmd, &r, claim)
		if len(claim.Jobs) == 0 {
			return failed
		}
		return cmp.Or(printClaim(cmd, &r, claim), failed)
	})
	flags := cmd.Flags()
	flags.StringVar(&q.RunnerID, "runner-id", defaultRunnerID(), "name of the runner; without this flag, it begins with the prefix that the key requires")
	flags.IntVar(&q.Max, "max", 1, "how many jobs at most, 1 to 1000")
	flags.StringSliceVar(&q.Clients, "client", nil, "claim only jobs of these clients")
	flags.StringSliceVar(&q.Types, "type", nil, "claim only jobs of these types")
	config.OptionalDuration(flags, &wait, "wait", "how long the server waits for a first job, up to 1m")
	config.OptionalDuration(flags, &lease, "lease", "how long the jobs are held without a tickle (default: that of the jobs)")
	flags.Var((*config.StrategyFlag)(&q.Strategy), "strategy", config.StrategyHelp)
	remote.LinesFlag(cmd, &r.AsJSON, "job")
	config.CompleteFlag(cmd, "client", remote.ClientNames)
	config.CompleteFlag(cmd, "type", remote.TypeNames)
	return cmd
}

// releaseUndecodable returns the jobs of a claim that cannot be decrypted to their queues, at no cost. It returns the first
// reason.
func releaseUndecodable(cmd *cobra.Command, r *remote.Command, claim *client.Claim) (first error) {
	claim.Jobs = slices.DeleteFunc(claim.Jobs, func(j *client.Job) bool {
		if j.Undecodable == nil {
			return false
		}
		first = cmp.Or(first, j.Undecodable)
		if _, err := r.Client.Release(cmd.Context(), j.ID, claim.ID, client.Unget, nil); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s was not returned to its queue: %v\n", j.ID, err)
		}
		return true
	})
	return first
}

// defaultRunnerID names this machine and user.
func defaultRunnerID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "daybook"
	}
	return "daybook-" + host
}

func printClaim(cmd *cobra.Command, r *remote.Command, claim *client.Claim) error {
	if r.AsJSON {
		doc, err := remote.AskFor[struct {
			Jobs []json.RawMessage `json:"jobs"`
		}](r, cmd, "/claims/"+claim.ID)
		if err != nil {
			return err
		}
		for i, text := range doc.Jobs {
			// The payloads can be decrypted; the error of an earlier run need not be.
			if doc.Jobs[i], err = r.Decoded(text); err != nil && !errors.Is(err, client.ErrUndecodable) {
				return err
			}
		}
		return printLines(r.Out, doc.Jobs)
	}
	if _, err := fmt.Fprintf(r.Out, "claim %s, lease %s\n", claim.ID, terminal.Interval(claim.LeaseMs)); err != nil {
		return err
	}
	return terminal.Table(r.Out, func(row func(...any)) {
		for _, j := range claim.Jobs {
			row(j.ID, j.Client+"/"+j.Type, payloadText(j))
		}
	})
}

// payloadText returns a payload for people.
func payloadText(j *client.Job) string {
	switch j.Kind {
	case client.Bytes:
		return fmt.Sprintf("%d bytes", len(j.Payload))
	case client.WASI:
		return j.BinaryAddr
	}
	return string(j.Payload)
}
