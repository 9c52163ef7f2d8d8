package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/job"
)

func versionText() string {
	return fmt.Sprintf("daybook %s (commit %s, %s, level %d)", version, commit, runtime.Version(), job.Level)
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Long: `Show the version, the commit and the level of this program. The level is the version of the rules by
which commands are applied. Only a command in the journal raises the level of the data, so that a newer
program applies an older journal with the same result.`,
		Example: "  daybook version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
					"version": version, "commit": commit, "go": runtime.Version(), "level": job.Level,
				})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
	remote.JSONFlag(cmd, &asJSON)
	return cmd
}
