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
	err := root.Execute()
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
	if hint := hintFor(err); hint != "" {
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

Environment variables can set the flags of ` + "`daybook serve`" + `, and --server and --data of the other
commands: see ` + "`daybook help environment`" + `.`,
		Example: `  daybook serve
  seq 1000 | daybook add --type square
  daybook queues`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := fromEnvironment(cmd); err != nil {
			return err
		}
		if cmd.Name() != "serve" { // serve writes warnings to its log
			for _, name := range unknownVariables(os.Environ()) {
				fmt.Fprintf(cmd.ErrOrStderr(), "daybook: warning: %s\n", unknownVariable(name))
			}
		}
		root.started = true
		return checkSystem(cmd)
	}
	root.AddCommand(
		newServe(), newOpsqueueServe(), newWork(), newAdd(), newBlob(), newFileset(), newGet(), newLogs(), newSubmit(), newBatches(), newResults(), newQueues(), newStats(), newClock(), newDiscover(), newBench(),
		newCheck(), newRebuild(), newJournal(), newVersion(), newLicenses(), newExitCodes(), newEnvironmentHelp(),
	)
	return root
}
