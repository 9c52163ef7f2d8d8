package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/ingest"
)

// dataFlag adds the flag --data of a command that reads the data directory of a stopped server.
func dataFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "data", config.DefaultData, "data directory")
}

// mustExist refuses a data directory without a journal. The engine would create one.
func mustExist(data string) error {
	there, err := ingest.HasJournal(data)
	if err == nil && !there {
		err = ingest.ErrNoJournal
	}
	if err != nil {
		return fmt.Errorf("%s is not a data directory: %w", data, err)
	}
	return nil
}

// errProblems is returned if a check found problems, which are printed already.
var errProblems = errors.New("the check failed")

func newCheck() *cobra.Command {
	var data string
	var asJSON bool
	var most int
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the data of a stopped server",
		Long: `Check every invariant of the store: each job of a batch has exactly one state, indexes and counters agree
with the jobs, and claims hold the jobs that they list. The server must be stopped.

The store is first brought up to date with its journal, as at a start. On a file system that is read-only,
nothing is changed, and a store that lacks commands of its journal is an error. Problems are printed as they
are found.`,
		Example: "  daybook check --data /var/lib/daybook || echo broken",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := mustExist(data); err != nil {
				return err
			}
			var failed error
			shown := 0
			out := json.NewEncoder(cmd.OutOrStdout())
			problems, err := ingest.Check(cmd.Context(), data, func(problem string) bool {
				if shown++; asJSON {
					failed = out.Encode(map[string]string{"problem": problem})
				} else {
					_, failed = fmt.Fprintln(cmd.OutOrStdout(), problem)
				}
				return failed == nil && shown < most
			})
			if err != nil || failed != nil {
				return errors.Join(err, failed)
			}
			if problems == 0 {
				if asJSON {
					return out.Encode(map[string]int{"problems": 0})
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "ok: no problems")
				return err
			}
			if asJSON {
				if err := out.Encode(map[string]int{"problems": problems}); err != nil {
					return err
				}
			}
			return fmt.Errorf("%w: %d problems", errProblems, problems)
		},
	}
	dataFlag(cmd, &data)
	remote.JSONFlag(cmd, &asJSON)
	cmd.Flags().IntVar(&most, "most", 100, "stop after this many problems")
	return cmd
}
