package main

import (
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
)

func newLevel() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "level",
		Short: "Show the level of the rules that the data follows, or raise it",
		Long: `Show the level of the rules by which the server applies its journal.

A new version of the program may know a newer level. It keeps the level of the data until you raise it,
so that you can go back to the old version.`,
		Example: `  daybook level
  daybook level raise`,
		Args: cobra.NoArgs,
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		level, newest, err := r.Client.Level(cmd.Context())
		if err != nil {
			return err
		}
		doc := map[string]any{"level": level, "newest": newest}
		if level == newest {
			return r.ShowValue(doc, "level %d, the newest that the server knows\n", level)
		}
		return r.ShowValue(doc, "level %d; the server knows level %d: raise it with daybook level raise\n", level, newest)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	cmd.AddCommand(newLevelRaise())
	return cmd
}

func newLevelRaise() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "raise",
		Short: "Raise the level to the newest one that the server knows",
		Long: `Raise the level to the newest one that the server knows.

Older versions of the program, which do not know this level, can then no longer start with the data. A
repeat has no effect.`,
		Example: `  daybook level raise`,
		Args:    cobra.NoArgs,
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		level, err := r.Client.RaiseLevel(cmd.Context())
		if err != nil {
			return err
		}
		return r.ShowValue(map[string]any{"level": level}, "level %d\n", level)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}
