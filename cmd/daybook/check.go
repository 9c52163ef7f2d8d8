package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/datadir"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
)

// dataFlag adds the flag --data of a command that reads the data directory of a stopped server.
func dataFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "data", config.DefaultData, "data directory")
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
are found.

For a node of a cluster, the whole log is checked first, and whether the store belongs to it. The store is
brought up to date up to the commit index that the node last wrote down. Entries after it are counted: only a
start finds out whether the cluster has committed them.`,
		Example: "  daybook check --data /var/lib/daybook || echo broken",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := datadir.Find(data)
			if err != nil {
				return err
			}
			var failed error
			shown := 0
			out := json.NewEncoder(cmd.OutOrStdout())
			found, err := d.Check(cmd.Context(), func(problem string) bool {
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
			if asJSON {
				summary := map[string]any{"problems": found.Problems}
				if d.Node != nil {
					summary["index"], summary["waiting"] = found.Index, found.Waiting
				}
				err = out.Encode(summary)
			} else {
				err = printChecked(cmd.OutOrStdout(), &found)
			}
			if err == nil && found.Problems > 0 {
				err = fmt.Errorf("%w: %d problems", errProblems, found.Problems)
			}
			return err
		},
	}
	dataFlag(cmd, &data)
	remote.JSONFlag(cmd, &asJSON)
	cmd.Flags().IntVar(&most, "most", 100, "stop after this many problems")
	return cmd
}

// printChecked prints the result of a check, apart from the problems.
func printChecked(w io.Writer, c *datadir.Checked) (err error) {
	if c.Waiting > 0 {
		_, err = fmt.Fprintf(w, "the store was checked up to entry %d; entries after it, which are not known to be committed: %d\n", c.Index, c.Waiting)
	}
	if c.Problems == 0 && err == nil {
		_, err = fmt.Fprintln(w, "ok: no problems")
	}
	return err
}
