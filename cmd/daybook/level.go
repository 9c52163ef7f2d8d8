package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
)

func newLevel() *cobra.Command {
	var server config.ServerAddress
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "level",
		Short: "Show the level of the rules that the data follows, or raise it",
		Long: `Show the level of the rules by which the server applies its journal.

A new version of the program may know a newer level. It keeps the level of the data until you raise it,
so that you can go back to the old version.`,
		Example: `  daybook level
  daybook level raise`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := reach(cmd, &server)
			if err != nil {
				return err
			}
			level, newest, err := client.New(address, client.Options{}).Level(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"level": level, "newest": newest})
			}
			if level == newest {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "level %d, the newest that the server knows\n", level)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "level %d; the server knows level %d: raise it with daybook level raise\n", level, newest)
			}
			return err
		},
	}
	config.ServerFlag(cmd, &server)
	jsonFlag(cmd, &asJSON)
	cmd.AddCommand(newLevelRaise())
	return cmd
}

func newLevelRaise() *cobra.Command {
	var server config.ServerAddress
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "raise",
		Short: "Raise the level to the newest one that the server knows",
		Long: `Raise the level to the newest one that the server knows.

Older versions of the program, which do not know this level, can then no longer start with the data. A
repeat has no effect.`,
		Example: `  daybook level raise`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := reach(cmd, &server)
			if err != nil {
				return err
			}
			level, err := client.New(address, client.Options{}).RaiseLevel(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"level": level})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "level %d\n", level)
			return err
		},
	}
	config.ServerFlag(cmd, &server)
	jsonFlag(cmd, &asJSON)
	return cmd
}
