package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const variablePrefix = "DAYBOOK_"

// sharedFlags are the flags that every verb takes from the environment: where the server is and where its data is. All
// other variables are settings of serve alone. Otherwise DAYBOOK_MAX_ATTEMPTS, meant for the server, would also change
// what `daybook add` posts.
var sharedFlags = []string{"server", "data"}

// variable is the environment variable of a flag.
func variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment gives flags that are not on the command line the values of their variables. An empty variable counts
// as not set, so that a wrapper may pass it on without looking at it.
func fromEnvironment(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || !hasVariable(cmd, f.Name) {
			return
		}
		name := variable(f.Name)
		if value := os.Getenv(name); value != "" {
			if setErr := cmd.Flags().Set(f.Name, value); setErr != nil {
				err = fmt.Errorf("environment variable %s: %w", name, plainly(setErr))
			}
			f.Annotations = map[string][]string{originKey: {name}}
		}
	})
	return err
}

func hasVariable(cmd *cobra.Command, flag string) bool {
	if cmd.Name() == "serve" {
		return flag != "help"
	}
	return slices.Contains(sharedFlags, flag)
}

// unknownVariables returns the names of variables that begin with DAYBOOK_ and that nothing reads, sorted: most are
// misspelt. Kubernetes sets some for a Service that is called daybook; they are left out.
func unknownVariables(environ []string) (unknown []string) {
	known := map[string]bool{}
	for _, flag := range sharedFlags {
		known[variable(flag)] = true
	}
	serve := newServe()
	serve.Flags().VisitAll(func(f *pflag.Flag) { known[variable(f.Name)] = true })
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, variablePrefix) || known[name] || value == "" || ofKubernetes(name, value) {
			continue
		}
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	return unknown
}

func ofKubernetes(name, value string) bool {
	return strings.HasPrefix(name, variablePrefix+"SERVICE_") || strings.HasPrefix(name, variablePrefix+"PORT_") ||
		name == variablePrefix+"PORT" && strings.Contains(value, "://")
}

// unknownVariable is the warning about one of them.
func unknownVariable(name string) string {
	return fmt.Sprintf("environment variable %s is ignored: no setting has this name; `daybook help environment` says how they are named", name)
}

func newEnvironmentHelp() *cobra.Command {
	// Without Run it is a help topic, not a verb.
	return &cobra.Command{
		Use: "environment", Short: "Which environment variables are read",
		Long: `Every flag of ` + "`daybook serve`" + ` can be given as an environment variable: --max-attempts is
DAYBOOK_MAX_ATTEMPTS. The other verbs read two variables only: DAYBOOK_SERVER (--server) and
DAYBOOK_DATA (--data). A flag has precedence over its variable, and a variable over a configuration
file.

A variable that begins with DAYBOOK_ and has no meaning is reported as a warning.`,
	}
}
