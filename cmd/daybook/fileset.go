package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// ofFilesets is the help of --client.
const ofFilesets = "the client whose fileset is meant (default: filesets of no client)"

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
	return terminal.Group(cmd, newFilesetPush(), newFilesetPull(), newFilesetList(), newFilesetHistory(), newFilesetRemove())
}

func newFilesetList() *cobra.Command {
	var f remote.Command
	cmd := remote.Connected(&f, &cobra.Command{
		Use:     "ls",
		Short:   "List the filesets",
		Long:    "List the filesets of all clients, each in its newest version.",
		Example: `  daybook fileset ls`,
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, _ []string) error {
		list, err := remote.Collect(f.Client.Filesets("").All(cmd.Context()))
		if err != nil {
			return err
		}
		text := func(found files.Fileset) []byte { return found.Text }
		return remote.PrintList(&f, list, text, "there are no filesets", func(row func(...any)) {
			row("CLIENT", "NAME", "VERSION", "FILES", "SIZE", "STORED")
			for _, found := range list {
				row(terminal.OrDash(found.Client), found.Name, found.Version, found.Files, terminal.SizeText(found.Bytes), terminal.Moment(found.CreatedAt))
			}
		})
	})
	remote.LinesFlag(cmd, &f.AsJSON, "fileset")
	return cmd
}

func newFilesetHistory() *cobra.Command {
	var f remote.Owned
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the last 20 changes of a fileset",
		Long: `Show the last 20 changes of a fileset, the newest first, also if it was removed. "daybook fileset pull --version"
writes the files of a version, unless the fileset was removed later: such a version is gone.`,
		Example: `  daybook fileset history input --client acme`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(remote.FilesetNames),
	}
	f.Over(cmd, ofFilesets, "NAME", func(cmd *cobra.Command, args []string) error {
		all, err := f.Client.Filesets(f.Owner).History(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		list := make([]remote.Change, len(all))
		for i, v := range all {
			list[i] = remote.Change{v.Version, v.Deleted, v.Gone, v.Bytes, v.By, v.CreatedAt, v.Text}
		}
		return f.PrintHistory(list)
	})
	remote.LinesFlag(cmd, &f.AsJSON, "version")
	return cmd
}

func newFilesetRemove() *cobra.Command {
	var f remote.Owned
	var version int
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a fileset",
		Long: `Delete a fileset with the files of all versions. Its history stays. The server's next collection removes its
blobs that were stored more than a day ago, unless a job, a handler or another fileset names them.`,
		Example: `  daybook fileset rm input --client acme`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(remote.FilesetNames),
	}
	f.Over(cmd, ofFilesets, "NAME", func(cmd *cobra.Command, args []string) error {
		err := f.Client.Filesets(f.Owner).Delete(cmd.Context(), args[0], remote.OnlyIf(cmd, version)...)
		if err == nil && f.AsJSON {
			err = json.NewEncoder(f.Out).Encode(removal{Operation: "remove", Client: f.Owner, Name: args[0]})
		}
		return err
	})
	remote.RemoveFlags(cmd, &version)
	remote.JSONFlag(cmd, &f.AsJSON)
	return cmd
}
