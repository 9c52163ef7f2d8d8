package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeProgram builds the README's program outside of this module, as its readers do, and runs it until it has
// done its jobs.
func TestReadmeProgram(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("the README has no program")
	}
	s := serve(t)
	dir := t.TempDir()
	sums, err := os.ReadFile("../client/go.sum")
	if err != nil {
		t.Fatal(err)
	}
	mod := "module readme\n\ngo 1.26\n\nrequire github.com/daybookq/daybook/client v0.0.0\n"
	for _, dir := range []string{"client", "fileset", "job", "mdns"} {
		mod += fmt.Sprintf("\nreplace github.com/daybookq/daybook/%s => %s\n", dir, filepath.Join(root, dir))
	}
	for name, text := range map[string]string{
		"main.go": strings.ReplaceAll(block[1], "127.0.0.1:1717", s.Listen), "go.sum": string(sums),
		"go.mod": mod,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "readme", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the README's program: %v\n%s", err, out)
	}
	program := exec.Command(filepath.Join(dir, "readme"))
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		program.Process.Kill()
		program.Wait()
	}()
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			t.Fatalf("it ended before it had done its jobs: %v", lines.Err())
		}
		if regexp.MustCompile(`^job [0-9a-f-]{36}: second$`).MatchString(lines.Text()) {
			return
		}
	}
}

// TestReadmeTour runs the commands of the README's tour and compares what they print. `…` matches anything.
func TestReadmeTour(t *testing.T) {
	for _, program := range []string{"curl", "jq", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: the README's tour needs %s, which is not installed", program)
		}
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t)
	dir := t.TempDir()

	// One shell runs all commands, since they share variables. A line with the marker separates their outputs.
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
	path := t.TempDir()
	if err := os.Symlink(s.Binary, filepath.Join(path, "daybook")); err != nil {
		t.Fatal(err)
	}
	shell.Env = append(os.Environ(), "PATH="+path+string(filepath.ListSeparator)+os.Getenv("PATH"), "DAYBOOK_SERVER=http://"+s.Listen)
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
