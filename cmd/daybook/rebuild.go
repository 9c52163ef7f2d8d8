package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/datadir"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
)

func newRebuild() *cobra.Command {
	var data, base string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild the store of a stopped server from its journal",
		Long: `Rebuild a store that is damaged or lost, by applying its journal. The server must be stopped.

If the journal still begins at seq 1, the whole journal is applied. Otherwise name a base with --base: a
store directory, such as that of a backup. Then the journal after the base is applied.

The new store is checked before it replaces the old one. The old store is kept under the name that is
printed. Remove it when it is no longer needed.`,
		Example: `  daybook rebuild --data /var/lib/daybook
  daybook rebuild --data /var/lib/daybook --base /backup/daybook/store`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := datadir.Find(data)
			if err == nil {
				err = d.SingleOnly("start it: it applies its log by itself. If its store is damaged, remove the node from the cluster, empty the directory, and let it join under another name")
			}
			if err != nil {
				return err
			}
			watched := terminal.IsTerminal(cmd.ErrOrStderr())
			result, err := ingest.Rebuild(cmd.Context(), data, base, func(seq, last uint64) {
				if watched {
					fmt.Fprintf(cmd.ErrOrStderr(), "\rapplied %d of %d", seq, last)
				}
			})
			if watched {
				fmt.Fprintln(cmd.ErrOrStderr())
			}
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
					"commands": result.Commands, "cursor": result.Cursor, "kept": result.Kept,
				})
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "applied %d commands, up to seq %d\n", result.Commands, result.Cursor); err != nil {
				return err
			}
			if result.Kept != "" {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the old store is kept in %s\n", result.Kept)
			}
			return err
		},
	}
	dataFlag(cmd, &data)
	cmd.Flags().StringVar(&base, "base", "", "store directory to start from (default: none)")
	remote.JSONFlag(cmd, &asJSON)
	return cmd
}
