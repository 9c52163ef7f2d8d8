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
	return terminal.Group(cmd, newFilesetPush(), newFilesetPull(), newFilesetList(), newFilesetRemove())
}

func newFilesetList() *cobra.Command {
	var f remote.Owned
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List the filesets, or the versions of one",
		Long: `List the filesets of all clients, each in its newest version. With a name, list the versions of this fileset
that the server keeps, the newest first.`,
		Example: `  daybook fileset ls
  daybook fileset ls input --client acme`,
		Args: cobra.MaximumNArgs(1),

		ValidArgsFunction: config.Once(remote.FilesetNames),
	}
	f.Check = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 && f.Owner != "" {
			return terminal.Usagef("--client needs a NAME; without one, the filesets of all clients are listed")
		}
		return nil
	}
	f.Over(cmd, ofFilesets, "NAME", func(cmd *cobra.Command, args []string) error {
		var list []files.Fileset
		var err error
		if len(args) == 1 {
			list, err = f.Client.Filesets(f.Owner).Versions(cmd.Context(), args[0])
		} else {
			list, err = remote.Collect(f.Client.Filesets("").All(cmd.Context()))
		}
		if err != nil {
			return err
		}
		text := func(found files.Fileset) []byte { return found.Text }
		return remote.PrintList(&f.Command, list, text, "there are no filesets", func(row func(...any)) {
			row("CLIENT", "NAME", "VERSION", "FILES", "SIZE", "STORED")
			for _, found := range list {
				row(terminal.OrDash(found.Client), found.Name, found.Version, found.Files, terminal.SizeText(found.Bytes), terminal.Moment(found.CreatedAt))
			}
		})
	})
	remote.LinesFlag(cmd, &f.AsJSON, "fileset")
	return cmd
}

func newFilesetRemove() *cobra.Command {
	var f remote.Owned
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a fileset with all its versions",
		Long: `Delete a fileset with all its versions. The server's next collection removes its blobs
that were stored more than a day ago, unless a job, a handler or
another fileset names them.`,
		Example: `  daybook fileset rm input --client acme`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: config.Once(remote.FilesetNames),
	}
	f.Over(cmd, ofFilesets, "NAME", func(cmd *cobra.Command, args []string) error {
		err := f.Client.Filesets(f.Owner).Delete(cmd.Context(), args[0])
		if err == nil && f.AsJSON {
			err = json.NewEncoder(f.Out).Encode(removal{Operation: "remove", Client: f.Owner, Name: args[0]})
		}
		return err
	})
	remote.JSONFlag(cmd, &f.AsJSON)
	return cmd
}
