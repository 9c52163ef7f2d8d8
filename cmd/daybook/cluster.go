package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes of a cluster, and change them",
		Long: `Show the nodes of a cluster, let another one lead, or remove one. Any node answers.

A server becomes a node by daybook serve --node NAME --cluster-listen ADDRESS, with --cluster-init for the
first node and --join for each further one.`,
		Example: `  daybook cluster status
  daybook cluster transfer n2
  daybook cluster remove n3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newClusterStatus(), newClusterTransfer(), newClusterRemove())
	return cmd
}

func newClusterStatus() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the nodes",
		Long: `List the nodes of the cluster: their role, which one leads, and how many entries of the log each lacks.

A node that lacks entries is behind. It lacks none while it answers at once. "-" means that the leader did
not say.`,
		Example: `  daybook cluster status
  daybook cluster status --json`,
		Args: cobra.NoArgs,
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		s, err := r.Client.Cluster(cmd.Context())
		if err != nil {
			return err
		}
		return showCluster(&r, &s)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func showCluster(r *remote.Command, s *job.ClusterStatus) error {
	if r.AsJSON {
		return r.ShowValue(s, "")
	}
	leader := "no node leads"
	if s.Leader != "" {
		leader = fmt.Sprintf("%s leads in term %d", s.Leader, s.Term)
	}
	fmt.Fprintf(r.Out, "cluster %s: %s; node %s, a %s, answers\n", s.Cluster, leader, s.Node, s.Role)
	return terminal.Table(r.Out, func(row func(...any)) {
		row("NODE", "ADDRESS", "ROLE", "LAG")
		for i := range s.Nodes {
			n := &s.Nodes[i]
			role, lag := n.Role, "-"
			if n.Leads {
				role = "leader"
			}
			if n.Lag != nil {
				lag = fmt.Sprint(*n.Lag)
			}
			row(n.Node, n.Address, role, lag)
		}
	})
}

func newClusterTransfer() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "transfer [NODE]",
		Short: "Let another node lead",
		Long: `Let another node lead: the one that you name, or the one that lacks the least of the log.

Use it before work on the leader's machine. A node that stops cleanly does it by itself.`,
		Example: `  daybook cluster transfer
  daybook cluster transfer n2`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: config.Once(remote.NodeNames),
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, args []string) error {
		node := ""
		if len(args) > 0 {
			node = args[0]
			if err := job.CheckName("NODE", node); err != nil {
				return terminal.Usage(err)
			}
		}
		s, err := r.Client.TransferLeadership(cmd.Context(), node)
		if err != nil {
			return err
		}
		return showCluster(&r, &s)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

func newClusterRemove() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a node from the cluster",
		Long: `Remove a node from the cluster, because its machine or its data are lost, or are not needed any more.

The name of the node is never used again: let it join under another name, with an empty data directory. The
server refuses if the nodes that are left could store nothing. Remove one node at a time.`,
		Example:           `  daybook cluster remove n3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: config.Once(remote.NodeNames),
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, args []string) error {
		if err := job.CheckName("NODE", args[0]); err != nil {
			return terminal.Usage(err)
		}
		if err := r.Client.RemoveNode(cmd.Context(), args[0]); err != nil {
			return err
		}
		return r.ShowValue(map[string]any{"node": args[0], "role": "removed"}, "node %s is no member of the cluster any more\n", args[0])
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
