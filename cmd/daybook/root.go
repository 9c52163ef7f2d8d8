package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// run executes one command line and returns the exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[silentExit](err); ok {
		return int(code)
	}
	if !root.started { // the flags, the arguments or the name of the command are wrong
		err = usageError{err}
	}
	fmt.Fprintf(errs, "daybook: %v\n", err)
	if exitCode(err) == exitUsage && cmd.HasParent() {
		fmt.Fprintf(errs, "Usage: %s\n`%s --help` describes the flags.\n", cmd.UseLine(), cmd.CommandPath())
	} else if hint := hintFor(err); hint != "" {
		fmt.Fprintf(errs, "%s\n", hint)
	}
	return exitCode(err)
}

// rootCommand is the command line.
type rootCommand struct {
	*cobra.Command
	started bool
}

// group makes a command of commands. Without one of them it is an error.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	cmd.AddCommand(commands...)
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(*cobra.Command, []string) error {
		last := len(names) - 1
		return usageError{fmt.Errorf("%s requires a command: %s or %s", cmd.Name(), strings.Join(names[:last], ", "), names[last])}
	}
	return cmd
}

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
		if err := cmd.ValidateFlagGroups(); err != nil { // cobra does it after this
			return usageError{err}
		}
		if checksVariables(cmd) {
			if err := checkVariables(os.Environ()); err != nil {
				return err
			}
		}
		if err := configure(cmd); err != nil {
			return err
		}
		root.started = true
		return checkSystem(cmd)
	}
	configFlags(root.Command)
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range g.commands() {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("program")
	root.SetCompletionCommandGroupID("program")
	root.AddCommand(newExitCodes(), newEnvironmentHelp(), newConfigurationHelp())
	return root
}

// commandGroups are the commands in the order of the help.
var commandGroups = []struct {
	id, title string
	commands  func() []*cobra.Command
}{
	{"jobs", "Jobs:", func() []*cobra.Command {
		return []*cobra.Command{
			newAdd(), newCreate(), newGet(), newWatch(), newJobs(), newLogs(), newCancel(), newRedrive(), newRunNow(), newRemove(),
		}
	}},
	{"batches", "Batches and queues:", func() []*cobra.Command {
		return []*cobra.Command{newSubmit(), newBatches(), newCloseBatch(), newResults(), newQueues(), newPause(), newResume(), newSweeps()}
	}},
	{"runners", "Runners:", func() []*cobra.Command {
		return []*cobra.Command{newWork(), newHandler(), newRunners(), newClaim(), newTickle(), newComplete(), newRelease()}
	}},
	{"files", "Blobs and filesets:", func() []*cobra.Command { return []*cobra.Command{newBlob(), newFileset()} }},
	{"server", "Server:", func() []*cobra.Command {
		return []*cobra.Command{newServe(), newOpsqueueServe(), newTop(), newStats(), newDisk(), newStop(), newStart(), newBackup(), newClock(), newDiscover(), newBench()}
	}},
	{"data", "Data of a stopped server:", func() []*cobra.Command { return []*cobra.Command{newCheck(), newRestore(), newRebuild(), newJournal()} }},
	{"program", "This program:", func() []*cobra.Command {
		return []*cobra.Command{newConfig(), newContext(), newMan(), newVersion(), newLicenses()}
	}},
}
