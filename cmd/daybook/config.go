package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newConfig(all config.Commands) *cobra.Command {
	var asJSON, asTOML bool
	cmd := &cobra.Command{
		Use:   "config [VERB] [-- FLAGS]",
		Short: "Print settings and where they come from",
		Long: `Print each setting of a command (serve, if none is given), its value, and where the value comes from: default, a line
of a file, a variable, the command line, or a context, for the server and the files that belong to it. The text of a
key is not printed. Flags of the command are given after --.

With --toml it prints a configuration file that has the same settings. Defaults are comments in it. So are values that
contain a password, which is never printed, --on-lost, whose arguments may be secrets, and the server if the setting
context names it. The handlers of work and its other tables are not printed, because they may contain secrets.`,
		Example: `  daybook config
  daybook config work --config work.toml
  daybook config serve --config-dir config --toml -- --listen 127.0.0.1:0`,
		ValidArgsFunction: config.Once(func(*cobra.Command, string) []string { return append(config.Sections(), "serve") }),
		RunE: func(cmd *cobra.Command, args []string) error {
			words, flags := args, []string(nil)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				words, flags = args[:dash], args[dash:]
			}
			target, err := config.Configured(cmd, all, strings.Join(words, " "), flags)
			if err != nil {
				return err
			}
			if asTOML {
				return config.PrintTOML(cmd.OutOrStdout(), target)
			}
			settings, err := config.Shown(target)
			if err != nil {
				return err
			}
			if asJSON {
				return printLines(cmd.OutOrStdout(), settings)
			}
			return terminal.Table(cmd.OutOrStdout(), func(row func(...any)) {
				row("SETTING", "VALUE", "FROM")
				for _, s := range settings {
					row(s.Name, s.Text, s.Origin)
				}
			})
		},
	}
	remote.LinesFlag(cmd, &asJSON, "setting")
	cmd.Flags().BoolVar(&asTOML, "toml", false, "print a configuration file")
	cmd.MarkFlagsMutuallyExclusive("json", "toml")
	return cmd
}
