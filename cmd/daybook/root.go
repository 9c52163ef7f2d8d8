package main

import (
	"fmt"
	"io"
	"os"

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
	if !root.started { // it failed before a verb began: flags, arguments, the verb itself
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

func newRoot() *rootCommand {
	root := &rootCommand{Command: &cobra.Command{
		Use:   "daybook",
		Short: "A durable job queue server, and the tools around it",
		Long: `Daybook is a durable job queue: producers post jobs in bulk, runners claim them, tickle them while they
work, and complete them. Whatever was acknowledged survives a crash: it is in the journal, and on disk,
before the answer goes out.

The flags of ` + "`daybook serve`" + ` can be given as environment variables as well, and --server and --data of
the other verbs: see ` + "`daybook help environment`" + `.`,
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
		if cmd.Name() != "serve" { // which has a log for warnings
			for _, name := range unknownVariables(os.Environ()) {
				fmt.Fprintf(cmd.ErrOrStderr(), "daybook: warning: %s\n", unknownVariable(name))
			}
		}
		root.started = true
		return nil
	}
	root.AddCommand(
		newServe(), newAdd(), newGet(), newQueues(), newStats(), newClock(), newDiscover(),
		newCheck(), newRebuild(), newJournal(), newVersion(), newLicenses(), newExitCodes(), newEnvironmentHelp(),
	)
	return root
}
