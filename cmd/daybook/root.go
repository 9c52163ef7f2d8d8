package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// run executes one command line and returns the exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	refuseUnknownShells(root.Command)
	cmd, err := root.ExecuteC()
	if err == nil {
		return terminal.ExitOK
	}
	if code, ok := errors.AsType[terminal.SilentExit](err); ok {
		return int(code)
	}
	if !root.started { // the flags, the arguments or the name of the command are wrong
		err = terminal.Usage(err)
	}
	fmt.Fprintf(errs, "daybook: %v\n", err)
	if hint := hintFor(cmd, err); hint != "" {
		fmt.Fprintf(errs, "%s\n", hint)
	}
	return exitCode(err)
}

// rootCommand is the command line.
type rootCommand struct {
	*cobra.Command
	started bool
}

// allCommands returns all commands, with flags that nothing has set.
func allCommands() *cobra.Command { return newRoot().Command }

func newRoot() *rootCommand {
	root := &rootCommand{Command: &cobra.Command{
		Use:   "daybook",
		Short: "Run and operate a durable job queue",
		Long: `Run and operate Daybook, a durable job queue. Producers post jobs in bulk. Runners claim jobs, tickle
them while they work, and complete them. The server answers a request when it is in the journal on disk,
so no acknowledged job is lost in a crash.

Environment variables and configuration files can set flags: see ` + "`daybook help environment`" + ` and
` + "`daybook help configuration`" + `.`,
		Example: `  daybook serve
  seq 1000 | daybook add --type square
  daybook queues`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmd.ValidateFlagGroups(); err != nil { // cobra does it only later
			return terminal.Usage(err)
		}
		if err := config.CheckVariables(cmd, os.Environ(), allCommands); err != nil {
			return err
		}
		if err := config.Configure(cmd, allCommands); err != nil {
			return err
		}
		root.started = true
		return checkSystem(cmd)
	}
	config.AddFlags(root.Command)
	for _, g := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "v", false, "show the version of this program")
	root.SetHelpCommandGroupID("program")
	root.SetCompletionCommandGroupID("program")
	root.AddCommand(newExitCodes())
	root.AddCommand(config.Topics()...)
	refuseUnknownTopics(root.Command)
	nameArguments(root.Command)
	return root
}

// refuseUnknownTopics makes `daybook help` return an error and its exit code for an unknown topic.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		show := help.Run
		help.RunE = func(cmd *cobra.Command, args []string) error {
			if found, rest, err := root.Find(args); found == nil || err != nil || len(rest) > 0 {
				return terminal.Usagef("there is no command or topic %q", strings.Join(args, " "))
			}
			show(cmd, args)
			return nil
		}
	}
}

// refuseUnknownShells makes `daybook completion` return an error for an unknown shell. Cobra's command prints to the
// output that the root had when the command was made.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			shells := cmd.Commands()
			cmd.RemoveCommand(shells...)
			terminal.Group(cmd, shells...)
		}
	}
}

// nameArguments makes a command with too few or too many arguments list its arguments, as its help does.
func nameArguments(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		nameArguments(c)
	}
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}
	_, wanted, _ := strings.Cut(cmd.Use, " ")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err, name := check(cmd, args), terminal.TypedName(cmd)
		switch {
		case err == nil:
			return nil
		case wanted == "":
			return fmt.Errorf("%s takes no arguments, and %q was given", name, args[0])
		case len(args) == 0:
			return fmt.Errorf("%s needs %s", name, wanted)
		}
		return fmt.Errorf("%s takes %s, and %s given", name, wanted, terminal.NumberText(len(args), "argument was", "arguments were"))
	}
}

// commandGroup is a part of the help.
type commandGroup struct {
	id, title string
	commands  []*cobra.Command
}

// commandGroups returns the commands in the order of the help.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"jobs", "Jobs:", []*cobra.Command{
			newAdd(), newCreate(), newGet(), newWatch(), newJobs(), newLogs(), newCancel(), newRedrive(), newRunNow(), newRemove(),
		}},
		{"batches", "Batches and queues:", []*cobra.Command{newSubmit(), newBatches(), newCloseBatch(), newResults(), newQueues(), newPause(), newResume(), newSweeps()}},
		{"runners", "Runners:", []*cobra.Command{newWork(), newHandler(), newRunners(), newClaim(), newTickle(), newComplete(), newRelease()}},
		{"files", "Blobs and filesets:", []*cobra.Command{newBlob(), newFileset()}},
		{"server", "Server:", []*cobra.Command{newServe(), newPing(), newTop(), newStats(), newDisk(), newStop(), newStart(), newBackup(), newClock(), newLevel(), newCluster(), newKey(), newAudit(), newDiscover(), newBench()}},
		{"data", "Data of a stopped server:", []*cobra.Command{newCheck(), newRestore(), newRebuild(), newJournal()}},
		{"program", "This program:", []*cobra.Command{newConfig(allCommands), newContext(), newTLS(), newMan(), newVersion(), newLicenses()}},
	}
}
