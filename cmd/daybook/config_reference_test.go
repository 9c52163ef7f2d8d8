package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/internal/testkit"
)

var rewriteReference = flag.Bool("rewrite", false, "write the page of all settings again")

type cobraCommand = cobra.Command

// TestReferenceOfSettings: the page of all settings agrees with the flags.
func TestReferenceOfSettings(t *testing.T) {
	const path = "../../docs/reference/configuration.md"
	want := reference()
	if *rewriteReference {
		testkit.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got := testkit.Must(os.ReadFile(path))(t)
	testkit.Holds(t, string(got) == want, path, "is stale; write it again with go test ./cmd/daybook -run TestReferenceOfSettings -rewrite")
}

func reference() string {
	var b strings.Builder
	b.WriteString("# All settings\n\nA test writes this page from the flags. [How settings are combined](configuration-files.md) says which one counts. In a file, a setting has\n" +
		"the name of its flag without the hyphens in front, at the top level or in the section that is named here.\n\n" +
		"| type | in TOML | on the command line and in a variable |\n|---|---|---|\n" +
		"| text, address | `\"text\"` | `text` |\n| number | `5` | `5` |\n| true or false | `true` | `--flag`, `--flag=false`; `true` in a variable |\n" +
		"| duration | `\"1h30m\"`, `\"14d\"` | `1h30m`, `14d` |\n| bytes | `\"512M\"`, `1048576` | `512M`, `1048576` |\n" +
		"| list | `[\"a\", \"b\"]` | `a,b`, or the flag twice |\n| list of name=value | `[\"a=b\", \"c=d\"]` | `a=b,c=d`, or the flag twice |\n")
	all := allCommands()
	for _, verb := range append([]string{"serve", "work"}, slices.DeleteFunc(config.Sections(), func(v string) bool { return v == "work" })...) {
		cmd := config.CommandNamed(all, verb)
		where := "in the section `[" + verb + "]`"
		switch verb {
		case "serve":
			where = "at the top level"
		case "work":
			where += ", or at the top level of a file that `daybook work --config` names"
		}
		fmt.Fprintf(&b, "\n## daybook %s\n\nIn a file, these settings are %s.\n\n| flag | variable | type | default | meaning |\n|---|---|---|---|---|\n", verb, where)
		for _, f := range config.SettingsOf(cmd) {
			if slices.Contains(config.SharedFlags, f.Name) && verb != "serve" || slices.Contains(config.ClientPair, f.Name) && verb != "serve" && verb != "work" {
				continue
			}
			value := f.DefValue
			if value == "[]" || value == "" {
				value = ""
			} else {
				value = "`" + value + "`"
			}
			fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s | %s |\n", f.Name, config.Variable(verb, f.Name), typeOf(f), value, strings.ReplaceAll(strings.ReplaceAll(f.Usage, "|", `\|`), "*", `\*`))
		}
	}
	b.WriteString("\n## All commands\n\nIn a file, these settings are at the top level, or in a section for one command. Commands that have no such flag ignore them.\n\n" +
		"| flag | variable | type | meaning |\n|---|---|---|---|\n")
	for _, name := range config.SharedFlags {
		cmd := config.CommandNamed(all, cmp.Or(map[string]string{"data": "check", "by": "handler rm", "encrypt-key-file": "get"}[name], "queues"))
		f := cmd.Flags().Lookup(name)
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", name, config.Variable("", name), typeOf(f), f.Usage)
	}
	for _, name := range config.ClientPair {
		f := config.CommandNamed(all, "queues").Flags().Lookup(name)
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s; in a file, only in the section of a command; at the top level, it is the server's |\n", name, config.Variable("queues", name), typeOf(f), f.Usage)
	}
	for _, name := range config.FileFlags {
		f := all.PersistentFlags().Lookup(name)
		more := ""
		if name == "config" {
			more = "; of `daybook work` it is `DAYBOOK_WORK_CONFIG`"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s`%s | text | %s; not in a file |\n", name, config.Variable("", name), more, f.Usage)
	}
	return b.String()
}
