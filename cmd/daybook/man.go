package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `Write a manual page for each command into a directory: daybook.1, daybook-add.1, and so on. The time in the pages
is that of the variable SOURCE_DATE_EPOCH, if it is set.`,
		Example: "  daybook man /usr/local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := doc.GenManHeader{Section: "1", Source: "daybook " + version, Manual: "Daybook"}
			if os.Getenv("SOURCE_DATE_EPOCH") == "" {
				today := time.Now()
				header.Date = &today
			}
			if err := doc.GenManTree(root, &header, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}
