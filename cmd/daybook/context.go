package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

func newContext() *cobra.Command {
	return terminal.Group(&cobra.Command{
		Use:   "context",
		Short: "Give servers names",
		Long: `Give servers names, and choose the one that commands use.

A command uses the server of --server, of --context, of the variable DAYBOOK_SERVER or DAYBOOK_CONTEXT, or
the context in use, in this order. Without any of these it uses ` + config.DefaultServer + `.

The contexts are in a file that only the user can read, since addresses may contain passwords.`,
		Example: `  daybook context add prod https://queue.example.com
  daybook context use prod
  daybook queues --context prod`,
	}, newContextAdd(), newContextUse(), newContextList(), newContextRemove())
}

func newContextAdd() *cobra.Command {
	var use, asJSON bool
	var secure config.ServerTLS
	var keyFile, encryptKeyFile string
	cmd := &cobra.Command{
		Use:   "add NAME SERVER",
		Short: "Store the address of a server under a name",
		Long: `Store the address of a server under a name, in place of what was stored under that name. The server need not
run. The first context is in use at once. The command prints the server that commands use then.

--tls-ca, --tls-cert, --tls-key, --key-file and --encrypt-key-file are stored, too. A command with one of these flags,
or with its variable, uses that instead. So it does with the key in DAYBOOK_KEY.`,
		Example: `  daybook context add prod https://queue.example.com
  daybook context add --use test 127.0.0.1:1718
  daybook context add trial https://localhost:1717 --tls-ca daybook-tls/ca.pem`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := config.CheckContextName(args[0]); err != nil {
				return err
			}
			if err := config.CheckServer(args[1]); err != nil {
				return err
			}
			if err := secure.Absolute(); err != nil {
				return err
			}
			for _, path := range []*string{&keyFile, &encryptKeyFile} {
				if *path == "" {
					continue
				}
				whole, err := filepath.Abs(*path)
				if err != nil {
					return err
				}
				*path = whole
			}
			return changeContext(cmd, asJSON, func(all *config.Contexts) error {
				if all.List == nil {
					all.List = map[string]config.Context{}
				}
				if all.List[args[0]] = (config.Context{Server: args[1], KeyFile: keyFile, EncryptKeyFile: encryptKeyFile, ServerTLS: secure}); use || len(all.List) == 1 {
					all.Use = args[0]
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&use, "use", false, "use this context from now on")
	cmd.Flags().StringVar(&keyFile, "key-file", "", "file with the key that the server requires")
	cmd.Flags().StringVar(&encryptKeyFile, "encrypt-key-file", "", "file with the keys that encrypt payloads, outputs and errors")
	secure.Flags(cmd.Flags())
	remote.JSONFlag(cmd, &asJSON)
	return cmd
}

func newContextUse() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "use [NAME]",
		Short: "Choose the server that commands use",
		Long: `Choose the context that commands use if no other server is given. Without a name, commands use
` + config.DefaultServer + ` again.`,
		Example:           "  daybook context use prod",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: config.Once(config.ContextNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeContext(cmd, asJSON, func(all *config.Contexts) error {
				all.Use = ""
				if len(args) == 0 {
					return nil
				}
				_, err := all.Address(args[0])
				all.Use = args[0]
				return err
			})
		},
	}
	remote.JSONFlag(cmd, &asJSON)
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
			all, err := config.ReadContexts()
			if err != nil {
				return err
			}
			var list []contextDocument
			for _, name := range all.Names() {
				list = append(list, contextDocument{name, config.Redacted(all.List[name].Server), name == all.Use, all.List[name].ServerTLS})
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
	remote.LinesFlag(cmd, &asJSON, "context")
	return cmd
}

// contextDocument is the JSON output for a context.
type contextDocument struct {
	Name   string `json:"name"`
	Server string `json:"server"`
	InUse  bool   `json:"in_use"`
	config.ServerTLS
}

func newContextRemove() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "remove NAME",
		Aliases:           []string{"rm"},
		Short:             "Remove a context",
		Long:              "Remove a context. If it is in use, commands use " + config.DefaultServer + " from now on.",
		Example:           "  daybook context remove test",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: config.Once(config.ContextNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeContext(cmd, asJSON, func(all *config.Contexts) error {
				if _, err := all.Address(args[0]); err != nil {
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
	remote.JSONFlag(cmd, &asJSON)
	return cmd
}

// changeContext changes the contexts, and prints the server that commands use from then on.
func changeContext(cmd *cobra.Command, asJSON bool, change func(*config.Contexts) error) error {
	all, err := config.ChangeContexts(change)
	if err != nil {
		return err
	}
	if asJSON { // without a context in use, there is no name
		used := contextDocument{all.Use, config.DefaultServer, all.Use != "", all.List[all.Use].ServerTLS}
		if all.Use != "" {
			used.Server = config.Redacted(all.List[all.Use].Server)
		}
		return printLines(cmd.OutOrStdout(), []contextDocument{used})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "commands use %s\n", all.InUse())
	return err
}
