package main

import (
	"encoding/csv"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sharedFlags are settings of every command that has the flag: the server, by its address or its name, and the data
// directory. A file has them at its top level, and their variables do not name a command.
var sharedFlags = []string{"server", "context", "data"}

// fileFlags select the files with settings. They are flags of every command, and variables, but not keys of a file.
var fileFlags = []string{"config", "config-dir"}

// ownSettings are the flags of commands that are settings too. For serve and work these are all flags. For a command
// that sends a request they are the flags for usual values. All other flags belong to one call: it would surprise if a
// file chose the jobs that `daybook cancel` cancels, or answered --yes.
var ownSettings = map[string][]string{
	"add":     {"client", "type", "priority", "lease", "max-attempts", "retention", "in-flight", "strip-cr"},
	"create":  {"client", "type", "priority", "lease", "max-attempts", "retention", "timeout"},
	"submit":  {"client", "type", "retention", "chunks", "on-failure"},
	"results": {"chunks"},
}

// verbOf returns the name of a command without the name of the program, like "serve" or "queues delete".
func verbOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), "daybook ")
}

// isSetting reports whether files and variables can set a flag of a command.
func isSetting(verb, flag string) bool {
	switch {
	case slices.Contains(sharedFlags, flag):
		return true
	case slices.Contains(fileFlags, flag):
		return false
	case verb == "serve" || verb == "work":
		return flag != "help"
	}
	return slices.Contains(ownSettings[verb], flag)
}

// hasSection reports whether a file may have a section with the name of a command.
func hasSection(verb string) bool { return verb == "work" || ownSettings[verb] != nil }

// sections returns the names of all sections.
func sections() []string {
	list := []string{"work"}
	for verb := range ownSettings {
		list = append(list, verb)
	}
	slices.Sort(list)
	return list
}

// settingsOf returns the flags of a command that files and variables can set, in the order of their names.
func settingsOf(cmd *cobra.Command) (list []*pflag.Flag) {
	verb := verbOf(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if isSetting(verb, f.Name) {
			list = append(list, f)
		}
	})
	return list
}

// namesOf returns the names of the settings of a command.
func namesOf(cmd *cobra.Command) (names []string) {
	for _, f := range settingsOf(cmd) {
		names = append(names, f.Name)
	}
	return names
}

// allCommands returns all commands, with flags that nothing has set. init sets it, because newRoot needs the
// completions of names, and these need the settings.
var allCommands func() *cobra.Command

func init() { allCommands = func() *cobra.Command { return newRoot().Command } }

// visitCommands calls visit with all commands below a command.
func visitCommands(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, c := range cmd.Commands() {
		visit(c)
		visitCommands(c, visit)
	}
}

// commandNamed returns a command by its name, like "queues delete"; nil if there is none.
func commandNamed(root *cobra.Command, verb string) *cobra.Command {
	cmd, rest, err := root.Find(strings.Fields(verb))
	if err != nil || len(rest) > 0 || cmd == root {
		return nil
	}
	return cmd
}

// didYouMean returns a question with the name that is nearest to a misspelt one, or "".
func didYouMean(wrong string, names []string) string {
	if name := nearest(wrong, names); name != "" {
		return " (did you mean " + name + "?)"
	}
	return ""
}

// nearest returns the name that is nearest to a misspelt one, or "" if none is near.
func nearest(wrong string, names []string) (best string) {
	least := max(2, len(wrong)/5) + 1
	wrong = plainName(wrong)
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(wrong, plainName(name)); d < least {
			least, best = d, name
		}
	}
	return best
}

func plainName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

// distance returns how many letters must be changed, added, removed or swapped with the next to turn a into b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// pairs returns the value of a flag that is a list of name=value.
func pairs(f *pflag.Flag) []string {
	text := strings.TrimSuffix(strings.TrimPrefix(f.Value.String(), "["), "]")
	list, err := csv.NewReader(strings.NewReader(text)).Read() // the form in which the flag writes it
	if err != nil {                                            // it is empty
		return []string{}
	}
	return list
}

// checksVariables reports whether a command refuses unknown variables. The help must work, since it lists the
// variables. A shell that completes a command line shows no errors.
func checksVariables(cmd *cobra.Command) bool {
	return !slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd, "help"}, verbOf(cmd))
}
