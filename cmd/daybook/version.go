package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/job"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which build this is",
		Long: `Show which build this is. The level is the version of what the state machine decides; it only grows, and
only by a command in the journal, so that an older journal leads to the same state under a newer build.`,
		Example: "  daybook version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
					"version": version, "commit": commit, "go": runtime.Version(), "level": job.Level,
				})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "daybook %s (commit %s, %s, level %d)\n", version, commit, runtime.Version(), job.Level)
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func jsonFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON")
}
