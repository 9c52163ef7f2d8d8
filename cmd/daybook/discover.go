package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newDiscover() *cobra.Command {
	timeout := config.DurationFlag(2 * time.Second)
	var interfaces []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "Find servers on the local network",
		Long: `Find servers that announce themselves on the local network by multicast DNS, and list them in order of
their ids. The command asks again until --timeout, because networks and servers drop some questions.

A server announces itself if it listens on an address that other machines can connect to (see
` + "`daybook serve --help`" + `, --mdns). Multicast stays within a network segment, and often does not pass Wi-Fi access
points, VPNs or clouds. A server that was stopped may still be listed for two minutes. Announcements are
not authenticated: any machine in the network can announce any address.

Other commands can find the server themselves. --server mdns: uses the only server that answers, and
--server mdns:ID the one with this id.`,
		Example: `  daybook discover
  daybook discover --json | jq -r .url
  daybook queues --server mdns:`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := client.Discover(cmd.Context(), client.DiscoverOptions{Timeout: time.Duration(timeout), Interfaces: interfaces})
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return config.ErrNoServer
			}
			if asJSON {
				return printLines(cmd.OutOrStdout(), found)
			}
			return terminal.Table(cmd.OutOrStdout(), func(row func(cells ...any)) {
				row("ID", "URL", "VERSION")
				for _, f := range found {
					row(f.ID, f.URL, f.Version)
				}
			})
		},
	}
	cmd.Flags().Var(&timeout, "timeout", "how long to wait for answers")
	cmd.Flags().StringSliceVar(&interfaces, "interface", nil, "network interfaces to use (default: all)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one server per line")
	return cmd
}
