package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// VariablePrefix begins the names of all variables of Daybook.
const VariablePrefix = "DAYBOOK_"

// layerVariable names the second of the files in --config-dir.
const layerVariable = VariablePrefix + "ENV"

const ofTests = "for tests of Daybook"

// otherVariables begin with DAYBOOK_ and are not settings. A process of daybook may have them, because the program that
// started it uses them.
var otherVariables = map[string]string{
	keyVariable:   "the key of commands without --key-file",
	"DAYBOOK_ENV": "the second layer of --config-dir",

	"DAYBOOK_RUNNER_ID": "for the command of --on-lost: the runner",

	"DAYBOOK_JOB_ID":        "for the programs of handlers: the job",
	"DAYBOOK_CLIENT":        "for the programs of handlers: the client of the job",
	"DAYBOOK_TYPE":          "for the programs of handlers: the type of the job",
	"DAYBOOK_KIND":          "for scripts: the kind of the payload",
	"DAYBOOK_META":          "for scripts: the meta of the job",
	"DAYBOOK_ATTEMPT":       "for the programs of handlers: the number of the run",
	"DAYBOOK_BATCH":         "for the programs of handlers: the number of jobs",
	"DAYBOOK_IMAGE":         "for the compose file: the image",
	"DAYBOOK_BINARY":        "for tests of Go programs: the binary that they start",
	"DAYBOOK_SCALE":         ofTests,
	"DAYBOOK_SWEEPS":        ofTests,
	"DAYBOOK_REPORT":        ofTests,
	"DAYBOOK_HOLDER_URL":    ofTests,
	"DAYBOOK_TEST_SECRET":   ofTests,
	"DAYBOOK_TEST_NESTED":   ofTests,
	"DAYBOOK_TEST_ROLE":     ofTests,
	"DAYBOOK_CHECK_BATCHES": ofTests,
}

// Variable returns the name of the environment variable of a flag. Most variables name the command: --max-attempts of
// add is DAYBOOK_ADD_MAX_ATTEMPTS. Variables of serve, and variables that many commands share, do not: --max-attempts
// of serve is DAYBOOK_MAX_ATTEMPTS. The file of work has a different form from all other files, so its variable differs
// too. The certificate that a client has differs from the server's, so its variables, which all commands share, do too.
func Variable(verb, flag string) string {
	words := flag
	if verb != "serve" && slices.Contains(ClientPair, flag) {
		words = "client-" + flag
	} else if verb != "serve" && !slices.Contains(SharedFlags, flag) && flag != "config-dir" && (flag != "config" || verb == "work") {
		words = verb + "-" + flag
	}
	return VariablePrefix + strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(words))
}

// hasVariable reports whether a variable can set a flag of a command.
func hasVariable(cmd *cobra.Command, flag string) bool {
	if slices.Contains(FileFlags, flag) {
		return len(SettingsOf(cmd)) > 0
	}
	return isSetting(VerbOf(cmd), flag)
}

// either are pairs of flags of which only one counts: --server or --context, --config or --config-dir.
var either = [][2]string{{"server", "context"}, {"config", "config-dir"}}

// fromEnvironment sets the flags that are not on the command line to the values of their variables. An empty variable
// counts as not set, so that a script may pass on a variable that is empty.
func fromEnvironment(cmd *cobra.Command) (err error) {
	verb := VerbOf(cmd)
	skip := map[string]bool{} // the other flag of the pair is on the command line
	for _, pair := range either {
		skip[pair[0]], skip[pair[1]] = cmd.Flags().Changed(pair[1]), cmd.Flags().Changed(pair[0])
		a, b := Variable(verb, pair[0]), Variable(verb, pair[1])
		given := skip[pair[0]] || skip[pair[1]]
		if os.Getenv(a) != "" && os.Getenv(b) != "" && hasVariable(cmd, pair[0]) && !given {
			return fmt.Errorf("the environment variables %s and %s are both set; %s", a, b, map[string]string{
				"server": "each names a server", "config": "each names configuration files",
			}[pair[0]])
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || !hasVariable(cmd, f.Name) || skip[f.Name] {
			return
		}
		name := Variable(verb, f.Name)
		if value := os.Getenv(name); value != "" {
			if setErr := cmd.Flags().Set(f.Name, value); setErr != nil {
				err = fmt.Errorf("environment variable %s: %w", name, plainly(setErr))
			}
			setOrigin(f, name)
		}
	})
	return err
}

// namesServer reports whether a flag selects the server of a command: only one of these flags counts.
func namesServer(flag string) bool { return flag == "server" || flag == "context" }

// settingVariables returns the names of the variables of all settings of all commands, sorted.
func settingVariables(all Commands) (names []string) {
	VisitCommands(all(), func(cmd *cobra.Command) {
		for _, f := range SettingsOf(cmd) {
			names = append(names, Variable(VerbOf(cmd), f.Name))
		}
	})
	for _, flag := range FileFlags {
		names = append(names, Variable("serve", flag), Variable("work", flag))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unknownVariables returns the names of the variables that begin with DAYBOOK_ and that nothing reads, sorted. Most are
// misspelt. An empty variable counts as not set.
func unknownVariables(environ []string, all Commands) (unknown []string) {
	known := map[string]bool{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, VariablePrefix) || value == "" || otherVariables[name] != "" || ofKubernetes(name, value) {
			continue
		}
		if len(known) == 0 { // most processes have none
			for _, setting := range settingVariables(all) {
				known[setting] = true
			}
		}
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// kubernetesNames are the names of the variables that Kubernetes sets in all containers for each Service whose name is
// daybook or begins with daybook-.
var kubernetesNames = regexp.MustCompile(`^DAYBOOK_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

func ofKubernetes(name, value string) bool {
	return kubernetesNames.MatchString(name) && (!strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_SERVICE_") ||
		strings.Contains(value, "://") || strings.Contains(name, "_TCP_") || strings.Contains(name, "_UDP_") || strings.Contains(name, "_SCTP_"))
}

// unknownVariable returns the error text for an unknown variable.
func unknownVariable(name string, all Commands) string {
	return fmt.Sprintf("environment variable %s: there is no such setting%s", name, variableMeant(name, all))
}

// variableMeant returns a question that suggests a variable for an unknown one: one with nearly the same name, or one
// that also names the command.
func variableMeant(name string, commands Commands) string {
	all := settingVariables(commands)
	if near := didYouMean(name, all); near != "" {
		return near
	}
	end := "_" + strings.TrimPrefix(name, VariablePrefix)
	for _, other := range all {
		if len(end) > 1 && strings.HasSuffix(other, end) {
			return " (did you mean " + other + "?)"
		}
	}
	return ""
}

// CheckVariables refuses unknown variables. Two commands allow them: the help, since it lists the variables, and
// the completion of a command line, since a shell shows no errors.
func CheckVariables(cmd *cobra.Command, environ []string, all Commands) error {
	if slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd, "help"}, VerbOf(cmd)) {
		return nil
	}
	var errs []string
	for _, name := range unknownVariables(environ, all) {
		errs = append(errs, unknownVariable(name, all))
	}
	if len(errs) == 0 {
		return nil
	}
	return terminal.Usage(errors.New(strings.Join(errs, "; ") + "; `daybook help environment` says which variables there are"))
}
