package main

import (
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// filesetCommand has the flags that the commands for filesets share.
type filesetCommand struct {
	remote.Command
	client string
}

func newFileset() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fileset",
		Short: "Store directories under a name, and write them into directories",
		Long: `Store and read filesets. A fileset is a tree of files that has a name and versions. Its files are blobs, so
equal files are stored and transferred once. The server keeps the newest 20 versions of each fileset.

A fileset has regular files and empty directories, and knows which files are executable. It has no owners, times
and links.`,
		Example: `  daybook fileset push ./photos input
  daybook fileset pull input ./copy`,
	}
	return terminal.Group(cmd, newFilesetPush(), newFilesetPull(), newFilesetList(), newFilesetRemove())
}

func (f *filesetCommand) flags(cmd *cobra.Command) {
	config.ServerFlag(cmd, &f.Server)
	cmd.Flags().StringVar(&f.client, "client", "", "the client whose fileset is meant (default: filesets of no client)")
}

// dial checks the flags and the name of a fileset, and sets the client.
func (f *filesetCommand) dial(cmd *cobra.Command, name string) error {
	if f.client != "" {
		if err := job.CheckName("--client", f.client); err != nil {
			return terminal.Usage(err)
		}
	}
	if err := job.CheckName("NAME", name); err != nil {
		return terminal.Usage(err)
	}
	f.Out = cmd.OutOrStdout()
	return f.Connect(cmd)
}

func newFilesetList() *cobra.Command {
	var f filesetCommand
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List the filesets, or the versions of one",
		Long: `List the filesets of all clients, each in its newest version. With a name, list the versions of this fileset
that the server keeps, the newest first.`,
		Example: `  daybook fileset ls
  daybook fileset ls input --client acme`,
		Args: cobra.MaximumNArgs(1),

		ValidArgsFunction: config.Once(remote.FilesetNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "any"
			if len(args) == 1 {
				name = args[0]
			} else if f.client != "" {
				return terminal.Usagef("--client needs a NAME; without one, the filesets of all clients are listed")
			}
			err := f.dial(cmd, name)
			if err != nil {
				return err
			}
			var list []files.Fileset
			if len(args) == 1 {
				list, err = f.Client.Filesets(f.client).Versions(cmd.Context(), name)
			} else {
				list, err = remote.Collect(f.Client.Filesets("").All(cmd.Context()))
			}
			if err != nil {
				return err
			}
			return f.print(list)
		},
	}
	f.flags(cmd)
	remote.LinesFlag(cmd, &f.AsJSON, "fileset")
	return cmd
}

// print writes a list of filesets.
func (f *filesetCommand) print(list []files.Fileset) error {
	text := func(found files.Fileset) []byte { return found.Text }
	return remote.PrintList(&f.Command, list, text, "there are no filesets", func(row func(...any)) {
		row("CLIENT", "NAME", "VERSION", "FILES", "SIZE", "STORED")
		for _, found := range list {
			row(terminal.OrDash(found.Client), found.Name, found.Version, found.Files, terminal.SizeText(found.Bytes), terminal.Moment(found.CreatedAt))
		}
	})
}

func newFilesetRemove() *cobra.Command {
	var f filesetCommand
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a fileset with all its versions",
		Long: `Delete a fileset with all its versions. The server's next collection removes its blobs
that were stored more than a day ago, unless a job, a handler or
another fileset names them.`,
		Example: `  daybook fileset rm input --client acme`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(remote.FilesetNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := f.dial(cmd, args[0])
			if err != nil {
				return err
			}
			err = f.Client.Filesets(f.client).Delete(cmd.Context(), args[0])
			if err == nil && f.AsJSON {
				err = printLines(f.Out, []removal{{Operation: "remove", Client: f.client, Name: args[0]}})
			}
			return err
		},
	}
	f.flags(cmd)
	remote.JSONFlag(cmd, &f.AsJSON)
	return cmd
}
