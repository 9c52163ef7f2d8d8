package main

import (
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// filesetCommand has the flags that the commands for filesets share.
type filesetCommand struct {
	remote
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
	return group(cmd, newFilesetPush(), newFilesetPull(), newFilesetList(), newFilesetHistory(), newFilesetRemove())
}

func (f *filesetCommand) flags(cmd *cobra.Command) {
	config.ServerFlag(cmd, &f.server)
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
	f.out = cmd.OutOrStdout()
	return f.connect(cmd)
}

func newFilesetList() *cobra.Command {
	var f filesetCommand
	cmd := connected(&f.remote, &cobra.Command{
		Use:     "ls",
		Short:   "List the filesets",
		Long:    "List the filesets of all clients, each in its newest version.",
		Example: `  daybook fileset ls`,
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, _ []string) error {
		list, err := listed(f.c.Filesets("").All(cmd.Context()))
		if err != nil {
			return err
		}
		return f.print(list)
	})
	linesFlag(cmd, &f.asJSON, "fileset")
	return cmd
}

func newFilesetHistory() *cobra.Command {
	var f filesetCommand
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the last 20 changes of a fileset",
		Long: `Show the last 20 changes of a fileset, the newest first, also if it was removed. "daybook fileset pull --version"
writes the files of a version, unless the fileset was removed later: such a version is gone.`,
		Example: `  daybook fileset history input --client acme`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(filesetNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := f.dial(cmd, args[0])
			if err != nil {
				return err
			}
			all, err := f.c.Filesets(f.client).History(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			list := make([]change, len(all))
			for i, v := range all {
				list[i] = change{v.Version, v.Deleted, v.Gone, v.Bytes, v.By, v.CreatedAt, v.Text}
			}
			return history(&f.remote, list)
		},
	}
	f.flags(cmd)
	linesFlag(cmd, &f.asJSON, "version")
	return cmd
}

// print writes a list of filesets.
func (f *filesetCommand) print(list []files.Fileset) error {
	text := func(found files.Fileset) []byte { return found.Text }
	return printList(&f.remote, list, text, "there are no filesets", func(row func(...any)) {
		row("CLIENT", "NAME", "VERSION", "FILES", "SIZE", "STORED")
		for _, found := range list {
			row(terminal.OrDash(found.Client), found.Name, found.Version, found.Files, terminal.SizeText(found.Bytes), terminal.Moment(found.CreatedAt))
		}
	})
}

func newFilesetRemove() *cobra.Command {
	var f filesetCommand
	var version int
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a fileset",
		Long: `Delete a fileset with the files of all versions. Its history stays. The server's next collection removes its
blobs that were stored more than a day ago, unless a job, a handler or another fileset names them.`,
		Example: `  daybook fileset rm input --client acme`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(filesetNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := f.dial(cmd, args[0])
			if err != nil {
				return err
			}
			err = f.c.Filesets(f.client).Delete(cmd.Context(), args[0], onlyIf(cmd, version)...)
			if err == nil && f.asJSON {
				err = printLines(f.out, []removal{{Operation: "remove", Client: f.client, Name: args[0]}})
			}
			return err
		},
	}
	f.flags(cmd)
	changeFlags(cmd, &version)
	jsonFlag(cmd, &f.asJSON)
	return cmd
}
