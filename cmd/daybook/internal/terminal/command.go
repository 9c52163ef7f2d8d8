package terminal

import (
	"strings"

	"github.com/spf13/cobra"
)

// Group makes a command with subcommands. It is an error to call it without one.
func Group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	cmd.AddCommand(commands...)
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(*cobra.Command, []string) error {
		last := len(names) - 1
		return Usagef("%s requires a command: %s or %s", cmd.CommandPath(), strings.Join(names[:last], ", "), names[last])
	}
	return cmd
}

// TypedName returns the name of a command as it was typed, with "daybook".
func TypedName(cmd *cobra.Command) string {
	name := cmd.CalledAs()
	if name == "" {
		name = cmd.Name()
	}
	if parent := cmd.Parent(); parent != nil {
		name = parent.CommandPath() + " " + name
	}
	return name
}
