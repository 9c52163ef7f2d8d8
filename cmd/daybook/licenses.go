package main

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
)

// notices are the licences of the modules that this program contains. A test compares them with the modules of the
// build, and can write the file.
//
//go:embed licenses.txt
var notices string

func newLicenses() *cobra.Command {
	return &cobra.Command{
		Use:     "licenses",
		Short:   "Show the licences of what this program contains",
		Long:    "Show the licence of Daybook, and the licences and notices of the libraries and web pages that this program contains.",
		Example: "  daybook licenses | less",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), notices)
			return err
		},
	}
}
