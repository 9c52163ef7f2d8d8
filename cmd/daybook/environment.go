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

// sharedFlags are the flags that every command takes from the environment: the server, by its address or its name, and the
// data directory. All other variables are settings of serve only. Otherwise DAYBOOK_MAX_ATTEMPTS, which is for the server,
// would also change what `daybook add` posts.
var sharedFlags = []string{"server", "context", "data"}

// variable returns the name of the environment variable of a flag.
func variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that are not on the command line to the values of their variables. An empty variable
// counts as not set, so that a script may pass on a variable that is empty.
func fromEnvironment(cmd *cobra.Command) (err error) {
	if os.Getenv(variable("server")) != "" && os.Getenv(variable("context")) != "" {
		return fmt.Errorf("the environment variables %s and %s are both set; each names a server", variable("server"), variable("context"))
	}
	given := map[string]bool{} // on the command line
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || !hasVariable(cmd, f.Name) || namesServer(f.Name) && (given["server"] || given["context"]) {
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

// namesServer reports whether a flag says which server a command uses: only one of them counts.
func namesServer(flag string) bool { return flag == "server" || flag == "context" }

func hasVariable(cmd *cobra.Command, flag string) bool {
	if cmd.Name() == "serve" {
		return flag != "help"
	}
	return slices.Contains(sharedFlags, flag)
}

// unknownVariables returns the names of the variables that begin with DAYBOOK_ and that nothing reads, sorted. Most are
// misspelt. Kubernetes sets some for a Service with the name daybook; they are left out.
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

// unknownVariable returns the warning about an unknown variable.
func unknownVariable(name string) string {
	return fmt.Sprintf("environment variable %s is ignored: no setting has this name; `daybook help environment` shows how variables are named", name)
}

func newEnvironmentHelp() *cobra.Command {
	// Without Run it is a help topic, not a command.
	return &cobra.Command{
		Use: "environment", Short: "List the environment variables that are read",
		Long: `Every flag of ` + "`daybook serve`" + ` has an environment variable: DAYBOOK_MAX_ATTEMPTS sets --max-attempts.
The other commands read only DAYBOOK_SERVER (--server), DAYBOOK_CONTEXT (--context) and DAYBOOK_DATA (--data). A flag has precedence
over its variable, and a variable over the configuration file.

` + "`daybook serve`" + ` also reads the variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT.

A warning names each variable that begins with DAYBOOK_ and that no command reads.`,
	}
}
