package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestExitCodesOfErrors: the table of exit codes of docs/reference/errors.md agrees with the code.
func TestExitCodesOfErrors(t *testing.T) {
	const path = "../../docs/reference/errors.md"
	text := testkit.Must(os.ReadFile(path))(t)
	refusals := map[int][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `([a-z_]+)` \\|.*\\| ([a-z_`, ]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		status, _ := strconv.Atoi(m[1])
		for _, outcome := range strings.Split(m[3], ", ") {
			code, name := exitCode(&client.Error{Status: status, Code: m[2], Outcome: strings.Trim(outcome, "`")}), "`"+m[2]+"`"
			if code == terminal.ExitUnknown {
				name += " with `outcome` `unknown`"
			}
			if !slices.Contains(refusals[code], name) {
				refusals[code] = append(refusals[code], name)
			}
		}
	}
	testkit.MustHold(t, len(refusals[terminal.ExitRefused]) >= 40 &&
		len(refusals[terminal.ExitNotFound]) >= 10, "only these refusals were found", refusals)
	var b strings.Builder
	b.WriteString("| exit code | meaning | refusals |\n|---|---|---|\n")
	for _, e := range terminal.ExitCodes {
		which := strings.Join(refusals[e.Code], ", ")
		if e.Code == terminal.ExitRefused {
			which = "all others"
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", e.Code, e.Meaning, which)
	}
	begin, end := "<!-- exit codes: written by go test ./cmd/daybook -run TestExitCodesOfErrors -rewrite -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	testkit.MustHold(t, found && ended, path, "has no place for the exit codes")
	want := before + begin + "\n" + b.String() + "\n" + end + after
	if *rewriteReference && want != string(text) {
		testkit.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	testkit.Holds(t, want == string(text), path, "is stale; write it again with go test ./cmd/daybook -run TestExitCodesOfErrors -rewrite")
}
