package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/daybookq/daybook/runner/sandbox"
)

// An interpreter below a home directory, as pyenv, nvm, rbenv and asdf install them, needs files next to it that the
// sandbox does not let it read. Every job would fail with an error that does not mention the sandbox, so New checks for
// this.

// nothing has arguments with which an interpreter does nothing, by the beginning of its name.
var nothing = []struct {
	names string
	argv  []string
}{
	{"python|pypy", []string{"-c", ""}},
	{"node|nodejs|ruby|perl|lua|luajit|Rscript", []string{"-e", ""}},
	{"php", []string{"-r", ""}},
	{"deno|bun|julia|java", []string{"--version"}},
}

var interpreterName = func() *regexp.Regexp {
	names := make([]string, len(nothing))
	for i, n := range nothing {
		names[i] = "(" + n.names + ")"
	}
	return regexp.MustCompile("^(?:" + strings.Join(names, "|") + ")[0-9.]*$")
}()

// Separators of commands in a shell command, and words that precede the name of a program.
var (
	between = regexp.MustCompile("[;|&(){}`\n]")
	before  = regexp.MustCompile(`^(exec|env|if|then|else|elif|while|until|do|time|!|[A-Za-z_][A-Za-z0-9_]*=.*)$`)
)

// commands returns the names of the programs in a shell command, as far as they can be read from its text.
func commands(shell string) (names []string) {
	for _, part := range between.Split(shell, -1) {
		words := strings.Fields(part)
		for len(words) > 0 && before.MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 0 {
			names = append(names, strings.Trim(words[0], `"'`))
		}
	}
	return names
}

// interpreters returns the interpreters that a handler starts, as far as they can be read from its settings.
func interpreters(set *Settings) (names []string) {
	words := set.Argv[:min(len(set.Argv), 1)]
	if len(set.Argv) > 1 && filepath.Base(set.Argv[0]) == "env" {
		words = set.Argv[1:2]
	}
	for _, word := range slices.Concat(words, commands(set.Shell)) {
		if interpreterName.MatchString(filepath.Base(word)) {
			names = append(names, word)
		}
	}
	return names
}

// field returns the key that names the program.
func field(set *Settings) string {
	if set.Shell != "" {
		return "shell"
	}
	return "argv"
}

// probeTime bounds an interpreter that does nothing. New accepts one that takes longer.
const probeTime = 10 * time.Second

// unreadable returns why an interpreter does not run in the sandbox, or "".
func (e *Executor) unreadable(name string) string {
	c := sandbox.Command{Argv: []string{name}, Env: e.env, Dir: e.dir, Access: e.access}
	path, err := sandbox.Lookup(&c)
	if err != nil {
		return "" // it is in a shell command, which may run without it
	}
	dir := filepath.Dir(path)
	real, err := filepath.EvalSymlinks(path)
	if err != nil || e.sandbox.Reads(&c, dir) && e.sandbox.Reads(&c, filepath.Dir(real)) {
		return ""
	}
	says := fmt.Sprintf("starts %s, which is %s: the sandbox does not read what it needs there", filepath.Base(name), path)
	advice := fmt.Sprintf("; add its directory to read_only, such as read_only = [%q], or name another %[2]s by its path", home(dir), filepath.Base(name))
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "pyvenv.cfg")); err == nil && !e.sandbox.Reads(&c, dir) {
		return says + advice // it would run, but without its packages
	}
	match := interpreterName.FindStringSubmatch(filepath.Base(name))
	for i, n := range nothing {
		if match[i+1] != "" {
			c.Argv = append(c.Argv, n.argv...)
		}
	}
	var stderr tail
	c.Stderr = &stderr
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	running, err := e.sandbox.Start(c)
	if err != nil {
		return says + ": " + err.Error() + advice
	}
	stop := context.AfterFunc(ctx, running.Kill)
	exit, err := running.Wait()
	if !stop() || err != nil || exit.OK() {
		return ""
	}
	return says + ": " + withTail(exit.String(), strings.TrimSpace(stderr.String())) + advice
}

// home returns the directory in which an interpreter was installed. Its bin or shims directory is not enough.
func home(dir string) string {
	if base := filepath.Base(dir); base == "bin" || base == "shims" {
		return filepath.Dir(dir)
	}
	return dir
}
