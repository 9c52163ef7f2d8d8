package bench

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeTour runs the commands of the README's tour and compares what they print. `…` stands for anything.
func TestReadmeTour(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed: the README's tour cannot be run")
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t)
	dir := t.TempDir()

	// One shell runs all commands, since they pass variables on; a marker line divides their outputs.
	const marker = "-- next --"
	var script strings.Builder
	var commands []string
	var want []string
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				commands = append(commands, command)
				want = append(want, "")
				script.WriteString(strings.ReplaceAll(command, "127.0.0.1:1717", s.Listen) + "echo; echo '" + marker + "'\n")
			} else {
				want[len(want)-1] += line
			}
		}
	}
	if len(commands) < 8 {
		t.Fatalf("the tour has only %d commands", len(commands))
	}
	shell := exec.Command("sh", "-u")
	shell.Dir = dir
	shell.Stdin = strings.NewReader(script.String())
	shell.Stderr = os.Stderr
	out, err := shell.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Split(string(out), marker)
	for i, command := range commands {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want[i])), "…", `[^"]*`)
		if g := strings.TrimSpace(got[i]); !regexp.MustCompile("^" + pattern + "$").MatchString(g) {
			t.Errorf("%sprints\n%s\nand the README says\n%s", command, g, strings.TrimSpace(want[i]))
		}
	}
}
