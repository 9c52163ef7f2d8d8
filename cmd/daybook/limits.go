package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newLimits() *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "limits",
		Short: "Give clients quotas, and show and remove them",
		Long: `Give clients quotas, and show and remove them. A quota bounds what a client may have: unfinished jobs, queues, bytes of
payloads, sessions, idempotency keys and sweeps. The server refuses requests beyond it.`,
		Example: `  daybook limits set acme --unfinished 100000 --queues 50`,
	}, newLimitsSet(), newLimitsList(), newLimitsGet(), newLimitsRemove())
}

func newLimitsSet() *cobra.Command {
	var r remote.Command
	var limits client.QuotaLimits
	cmd := &cobra.Command{
		Use: "set CLIENT", ValidArgsFunction: config.Once(remote.QuotaNames),
		Short:   "Give a client a quota",
		Long:    `Give a client a quota, which replaces the one that it has. What the client already has stays. The key needs the role admin.`,
		Example: `  daybook limits set acme --unfinished 100000 --queues 50 --bytes 20G`,
		Args:    cobra.ExactArgs(1),
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if least := min(limits.Unfinished, limits.Queues, limits.Bytes, limits.Sessions, limits.IdempotencyKeys, limits.Sweeps); least < 0 || limits == (client.QuotaLimits{}) {
			return terminal.Usagef("give --unfinished, --queues, --bytes, --sessions, --idempotency-keys or --sweeps, with numbers from 1; `daybook limits rm` removes a quota")
		}
		q, err := r.Client.SetQuota(cmd.Context(), args[0], limits)
		if err != nil {
			return err
		}
		return showQuota(&r, q)
	})
	cmd.Flags().Int64Var(&limits.Unfinished, "unfinished", 0, "how many jobs that have not ended the client may have (default: any number)")
	cmd.Flags().Int64Var(&limits.Queues, "queues", 0, "how many queues the client may have (default: any number)")
	cmd.Flags().Var((*config.BytesFlag)(&limits.Bytes), "bytes", "how many bytes of payloads the client's jobs may have (default: any number)")
	cmd.Flags().Int64Var(&limits.Sessions, "sessions", 0, "how many sessions may be open for the client (default: any number)")
	cmd.Flags().Int64Var(&limits.IdempotencyKeys, "idempotency-keys", 0, "how many idempotency keys the server remembers for the client (default: any number)")
	cmd.Flags().Int64Var(&limits.Sweeps, "sweeps", 0, "how many sweeps may be in progress for the client (default: any number)")
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newLimitsList() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the quotas",
		Long:    `List the quotas by client, with what the clients use of them.`,
		Example: `  daybook limits list`,
		Args:    cobra.NoArgs,
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		for q, err := range r.Client.Quotas(cmd.Context()) {
			if err == nil {
				err = showQuota(&r, q)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newLimitsGet() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use: "get CLIENT", ValidArgsFunction: config.Once(remote.QuotaNames),
		Short: "Show the quota of a client", Long: `Show the quota of a client, with what the client uses of it.`, Example: `  daybook limits get acme`, Args: cobra.ExactArgs(1),
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, args []string) error {
		q, err := r.Client.Quota(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return showQuota(&r, q)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newLimitsRemove() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use: "rm CLIENT", ValidArgsFunction: config.Once(remote.QuotaNames),
		Short: "Remove the quota of a client", Long: `Remove the quota of a client. The key needs the role admin.`, Example: `  daybook limits rm acme`, Args: cobra.ExactArgs(1),
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := r.Client.DeleteQuota(cmd.Context(), args[0]); err != nil {
			return err
		}
		return r.ShowValue(map[string]any{"client": args[0], "removed": true}, "removed the quota of %s\n", args[0])
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

// showQuota prints a quota in one line.
func showQuota(r *remote.Command, q client.Quota) error {
	var parts []string
	for _, of := range []struct {
		what       string
		use, limit int64
	}{
		{"unfinished jobs", q.Use.Unfinished, q.Unfinished}, {"queues", q.Use.Queues, q.Queues}, {"bytes", q.Use.Bytes, q.Bytes},
		{"sessions", q.Use.Sessions, q.Sessions}, {"idempotency keys", q.Use.IdempotencyKeys, q.IdempotencyKeys}, {"sweeps", q.Use.Sweeps, q.Sweeps},
	} {
		if of.limit > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d %s", of.use, of.limit, of.what))
		}
	}
	return r.ShowValue(q, "%s: %s\n", q.Client, strings.Join(parts, ", "))
}
