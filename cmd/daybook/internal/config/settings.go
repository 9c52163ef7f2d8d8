package config

import (
	"encoding/csv"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// SharedFlags are settings of every command that has the flag: the server, by its address or its name, and the
// certificates that sign the server's, the data directory, and who changes handlers and filesets. A file has them at its top level, and their variables do not name a
// command.
var SharedFlags = []string{"server", "context", "data", "by", "tls-ca", "key-file", "encrypt-key-file"}

// DefaultData is the data directory of commands if --data is not given.
const DefaultData = "./daybook-data"

// FileFlags select the files with settings. They are flags of every command, and variables, but not keys of a file.
var FileFlags = []string{"config", "config-dir"}

// OwnSettings are the flags of commands that are settings too. For serve and work these are all flags. For a command
// that sends a request they are the flags for usual values. All other flags belong to one call: it would surprise if a
// file chose the jobs that `daybook cancel` cancels, or answered --yes.
var OwnSettings = map[string][]string{
	"add":     {"client", "type", "priority", "lease", "max-attempts", "retention", "in-flight", "strip-cr"},
	"create":  {"client", "type", "priority", "lease", "max-attempts", "retention", "timeout"},
	"submit":  {"client", "type", "retention", "chunks", "on-failure"},
	"results": {"chunks"},
}

// VerbOf returns the name of a command without the name of the program, like "serve" or "queues delete".
func VerbOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), "daybook ")
}

// isSetting reports whether files and variables can set a flag of a command.
func isSetting(verb, flag string) bool {
	switch {
	case verb == "context add": // its flags are what it stores
		return false
	case flag == "data" && strings.HasPrefix(verb, "key "): // it chooses between a stopped and a running server
		return false
	case slices.Contains(SharedFlags, flag):
		return true
	case slices.Contains(FileFlags, flag):
		return false
	case verb == "serve" || verb == "work":
		return flag != "help"
	case slices.Contains(ClientPair, flag):
		return true
	}
	return slices.Contains(OwnSettings[verb], flag)
}

// hasSection reports whether a file may have a section with the name of a command.
func hasSection(verb string) bool { return verb == "work" || OwnSettings[verb] != nil }

// Sections returns the names of all sections.
func Sections() []string {
	list := []string{"work"}
	for verb := range OwnSettings {
		list = append(list, verb)
	}
	slices.Sort(list)
	return list
}

// SettingsOf returns the flags of a command that files and variables can set, in the order of their names.
func SettingsOf(cmd *cobra.Command) (list []*pflag.Flag) {
	verb := VerbOf(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if isSetting(verb, f.Name) {
			list = append(list, f)
		}
	})
	return list
}

// namesOf returns the names of the settings of a command.
func namesOf(cmd *cobra.Command) (names []string) {
	for _, f := range SettingsOf(cmd) {
		names = append(names, f.Name)
	}
	return names
}

// Commands returns the root of all commands of the program, with flags that nothing has set.
type Commands func() *cobra.Command

// VisitCommands calls visit with all commands below a command.
func VisitCommands(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, c := range cmd.Commands() {
		visit(c)
		VisitCommands(c, visit)
	}
}

// CommandNamed returns a command by its name, like "queues delete"; nil if there is none.
func CommandNamed(root *cobra.Command, verb string) *cobra.Command {
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
