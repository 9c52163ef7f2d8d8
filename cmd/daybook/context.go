package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newContext() *cobra.Command {
	return group(&cobra.Command{
		Use:   "context",
		Short: "Give servers names",
		Long: `Give servers names, and choose the one that commands use.

A command uses the server of --server, of --context, of the variable DAYBOOK_SERVER or DAYBOOK_CONTEXT, or
the context in use, in this order. Without any of these it uses ` + defaultServer + `.

The contexts are in a file that only the user can read, since addresses may contain passwords.`,
		Example: `  daybook context add prod https://queue.example.com
  daybook context use prod
  daybook queues --context prod`,
	}, newContextAdd(), newContextUse(), newContextList(), newContextRemove())
}

func newContextAdd() *cobra.Command {
	var use, asJSON bool
	cmd := &cobra.Command{
		Use:   "add NAME SERVER",
		Short: "Store the address of a server under a name",
		Long: `Store the address of a server under a name, in place of what was stored under that name. The server need not
run. The first context is in use at once. The command prints the server that commands use then.`,
		Example: `  daybook context add prod https://queue.example.com
  daybook context add --use test 127.0.0.1:1718`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkContextName(args[0]); err != nil {
				return err
			}
			address := serverAddress{text: args[1]}
			if args[1] == "" {
				return terminal.Usagef("the address is empty")
			}
			if !address.isDiscovered() {
				if _, err := address.check(cmd.Context()); err != nil {
					return err
				}
			}
			return changeContexts(cmd, asJSON, func(all *contexts) error {
				if all.List == nil {
					all.List = map[string]oneContext{}
				}
				if all.List[args[0]] = (oneContext{Server: args[1]}); use || len(all.List) == 1 {
					all.Use = args[0]
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&use, "use", false, "use this context from now on")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newContextUse() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "use [NAME]",
		Short: "Choose the server that commands use",
		Long: `Choose the context that commands use if no other server is given. Without a name, commands use
` + defaultServer + ` again.`,
		Example:           "  daybook context use prod",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: once(contextNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeContexts(cmd, asJSON, func(all *contexts) error {
				all.Use = ""
				if len(args) == 0 {
					return nil
				}
				_, err := all.address(args[0])
				all.Use = args[0]
				return err
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newContextList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the contexts",
		Long:    "List the contexts, without the passwords in their addresses. The one in use has a *.",
		Example: "  daybook context list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			var list []contextDocument
			for _, name := range all.names() {
				list = append(list, contextDocument{name, redacted(all.List[name].Server), name == all.Use})
			}
			if asJSON {
				return printLines(cmd.OutOrStdout(), list)
			}
			if len(list) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "there are no contexts; `daybook context add NAME SERVER` adds one")
				return err
			}
			return terminal.Table(cmd.OutOrStdout(), func(row func(...any)) {
				row("", "NAME", "SERVER")
				for _, c := range list {
					mark := ""
					if c.InUse {
						mark = "*"
					}
					row(mark, c.Name, c.Server)
				}
			})
		},
	}
	linesFlag(cmd, &asJSON, "context")
	return cmd
}

// contextDocument is the JSON output for a context.
type contextDocument struct {
	Name   string `json:"name"`
	Server string `json:"server"`
	InUse  bool   `json:"in_use"`
}

func newContextRemove() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "remove NAME",
		Aliases:           []string{"rm"},
		Short:             "Remove a context",
		Long:              "Remove a context. If it is in use, commands use " + defaultServer + " from now on.",
		Example:           "  daybook context remove test",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: once(contextNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeContexts(cmd, asJSON, func(all *contexts) error {
				if _, err := all.address(args[0]); err != nil {
					return err
				}
				delete(all.List, args[0])
				if all.Use == args[0] {
					all.Use = ""
				}
				return nil
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// changeContexts reads the contexts, changes them, and writes them. Other processes wait until it is done. It prints
// the server that commands use from then on.
func changeContexts(cmd *cobra.Command, asJSON bool, change func(*contexts) error) error {
	unlock, err := lockContexts()
	if err != nil {
		return err
	}
	defer unlock()
	all, err := readContexts()
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	if err := all.write(); err != nil {
		return err
	}
	if asJSON { // without a context in use, there is no name
		used := contextDocument{all.Use, defaultServer, all.Use != ""}
		if all.Use != "" {
			used.Server = redacted(all.List[all.Use].Server)
		}
		return printLines(cmd.OutOrStdout(), []contextDocument{used})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "commands use %s\n", all.inUse())
	return err
}
