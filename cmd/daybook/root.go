package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
		Long: `Daybook is a durable job queue: producers post jobs in bulk, runners claim them, tickle them while they work, and complete them.
Whatever was acknowledged survives a crash: it is in the journal, and on disk, before the answer goes out.

Every flag can be given as an environment variable as well: --max-attempts is DAYBOOK_MAX_ATTEMPTS. A flag goes before its variable.`,
		Example: `  daybook serve
  seq 1000 | daybook add --type square
  daybook queues`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := fromEnvironment(cmd.Flags()); err != nil {
			return err
		}
		root.started = true
		return nil
	}
	root.AddCommand(
		newServe(), newAdd(), newGet(), newQueues(), newStats(),
		newCheck(), newRebuild(), newJournal(), newVersion(), newExitCodes(),
	)
	return root
}

// fromEnvironment gives flags that are not on the command line the values of their variables. A variable that is empty counts as
// not set, so that a wrapper may pass it on unseen.
func fromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || err != nil {
			return
		}
		name := "DAYBOOK_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := os.Getenv(name); value != "" {
			if setErr := flags.Set(f.Name, value); setErr != nil {
				err = fmt.Errorf("environment variable %s: %w", name, setErr)
			}
			f.Annotations = map[string][]string{originKey: {name}}
		}
	})
	return err
}
