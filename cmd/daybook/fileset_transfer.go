package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// patternHelp describes patterns in the help of commands.
const patternHelp = `A pattern is matched with the whole path of a file: * is any text without a slash, ** any directories, {a,b}
alternatives. Several patterns select what any of them matches; one that begins with ! excludes files.`

// transferred is the JSON output of push and pull.
type transferred struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Files   int    `json:"files"`   // that were transferred
	Skipped int    `json:"skipped"` // that were there already
	Bytes   int64  `json:"bytes"`   // that were transferred
}

func newFilesetPush() *cobra.Command {
	var f remote.Owned
	var patterns []string
	var version int
	cmd := &cobra.Command{
		Use:   "push DIR NAME",
		Short: "Store a directory as a version of a fileset",
		Long: `Store the files of a directory as a new version of a fileset. Only files that the server does not have are sent.
If the newest version has the same files, no version is stored.

Symbolic links, devices and other special files are errors, unless a pattern excludes them.

` + patternHelp,
		Example: `  daybook fileset push ./results output
  daybook fileset push . sources --pattern '**/*.go' --pattern '!**/*_test.go'`,
		Args: cobra.ExactArgs(2),

		ValidArgsFunction: remote.FilesetArgs(1),
	}
	f.Check = func(_ *cobra.Command, args []string) error {
		if !isDirectory(args[0]) && isDirectory(args[1]) {
			return terminal.Usagef("%s is no directory, and %s is one: the directory is the first argument, the name of the fileset the second", args[0], args[1])
		}
		if err := job.CheckName("NAME", args[1]); err != nil {
			return terminal.Usage(err)
		}
		return nil
	}
	f.Over(cmd, ofFilesets, "", func(cmd *cobra.Command, args []string) error {
		stored, moved, err := f.Client.Filesets(f.Owner).Push(cmd.Context(), args[1], args[0], patterns, remote.OnlyIf(cmd, version)...)
		if err != nil {
			return wrongPatterns(err)
		}
		verb := "stored as version"
		if stored.Existed {
			verb = "unchanged, version"
		}
		return report(&f, transferred{args[1], stored.Version, moved.Files, moved.Skipped, moved.Bytes}, verb, "sent")
	})
	transferFlags(cmd, &f, &patterns)
	remote.StoreFlags(cmd, &version)
	return cmd
}

func newFilesetPull() *cobra.Command {
	var f remote.Owned
	var q files.FilesetQuery
	cmd := &cobra.Command{
		Use:   "pull NAME DIR",
		Short: "Write a fileset into a directory",
		Long: `Write the files of a fileset into a directory, which is created if there is none. Only files that are not there
with the same content are fetched. Other files in the directory stay. The command does not write through symbolic
links, and does not replace links and special files.

` + patternHelp,
		Example: `  daybook fileset pull input ./work
  daybook fileset pull output ./results --version 3 --pattern '**/*.dat'`,
		Args: cobra.ExactArgs(2),

		ValidArgsFunction: remote.FilesetArgs(0),
	}
	f.Check = func(*cobra.Command, []string) error {
		if q.Version < 0 {
			return terminal.Usagef("--version must be a number from 1 on, not %d", q.Version)
		}
		return nil
	}
	f.Over(cmd, ofFilesets, "NAME", func(cmd *cobra.Command, args []string) error {
		version, moved, err := f.Client.Filesets(f.Owner).Pull(cmd.Context(), args[0], args[1], q)
		if err != nil {
			return wrongPatterns(err)
		}
		return report(&f, transferred{args[0], version, moved.Files, moved.Skipped, moved.Bytes}, "version", "fetched")
	})
	transferFlags(cmd, &f, &q.Patterns)
	cmd.Flags().IntVar(&q.Version, "version", 0, "which version (default: the newest)")
	return cmd
}

func transferFlags(cmd *cobra.Command, f *remote.Owned, patterns *[]string) {
	cmd.Flags().StringArrayVar(patterns, "pattern", nil, "only files that match; may be given several times (default: all files)")
	remote.JSONFlag(cmd, &f.AsJSON)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// wrongPatterns turns the error of a pattern into an error of the command line.
func wrongPatterns(err error) error {
	if errors.Is(err, fileset.ErrPattern) {
		return terminal.Usage(err)
	}
	return err
}

// report prints what was transferred.
func report(f *remote.Owned, t transferred, verb, moved string) error {
	return f.ShowValue(t, "%s: %s %d; %s (%s) %s, %d were there\n", t.Name, verb, t.Version, terminal.NumberText(t.Files, "file", "files"), terminal.SizeText(t.Bytes), moved, t.Skipped)
}
