//go:build unix

package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// runIn is how long the script of a page may run. Pages take seconds, and more on a busy machine.
const runIn = 3 * time.Minute

// standsFor is the address that the server has on the pages.
const standsFor = "127.0.0.1:1717"

// otherAddress is an address of a further server on a page. Each is replaced by a free one.
var otherAddress = regexp.MustCompile(`127\.0\.0\.1:1[79]\d\d\b`)

// run runs the script of a page in dir, and returns its output.
func run(t *testing.T, root, dir string, p *page, s *script) string {
	t.Helper()
	binary := testkit.Must(daybooktest.Binary())(t)
	text := s.text()
	address := testkit.Must(daybooktest.FreeAddress())(t)
	if !strings.Contains(text, "daybook serve") {
		server := &daybooktest.Process{Binary: binary, Data: t.TempDir(), Args: []string{"--log-level", "warn"}, Log: os.Stderr}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		testkit.NoError(t, server.Start(ctx))
		defer func() { testkit.Check(t, server.Stop()) }()
		address = server.Listen
	}
	// The home of the page, the directory that is first in its PATH, and its files.
	home, bin, files := t.TempDir(), t.TempDir(), t.TempDir()
	testkit.NoError(t, os.Symlink(binary, filepath.Join(bin, "daybook")))
	write(t, filepath.Join(home, ".curlrc"), "silent\nshow-error\n") // a reader's curl shows no progress bar, since it writes to a terminal
	for i, f := range s.files {
		write(t, filepath.Join(files, fmt.Sprint(i)), strings.ReplaceAll(f.text, standsFor, address))
		if f.language == "go" {
			goModule(t, root, dir)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), runIn)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-u")
	shell.Dir = dir
	shell.Env = append(goEnvironment(t),
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+home, "FILES="+files, "REPOSITORY="+root,
		"DAYBOOK_SERVER=http://"+address, "DAYBOOK_LISTEN="+address, "TZ=UTC", "LC_ALL=C.UTF-8", "NO_COLOR=1")
	// A runner of a page waits longer for a job, since a busy machine may be late to hand one out.
	free, fromFree := []string{standsFor, address, "--until-idle 1s", "--until-idle 4s", "--until-idle 100ms", "--until-idle 4s"}, []string{address, standsFor}
	for _, other := range slices.Compact(slices.Sorted(slices.Values(otherAddress.FindAllString(text, -1)))) {
		if other != standsFor {
			to := testkit.Must(daybooktest.FreeAddress())(t)
			free, fromFree = append(free, other, to), append(fromFree, to, other)
		}
	}
	shell.Stdin = strings.NewReader(strings.NewReplacer(free...).Replace(text))
	shell.Cancel = func() error { return testkit.KillGroup(shell) }
	var out strings.Builder
	shell.Stdout, shell.Stderr = &out, &out
	shell.WaitDelay = time.Second
	testkit.StartGroup(t, shell)
	err := shell.Wait()
	_ = testkit.KillGroup(shell) // processes that the page left
	if ctx.Err() != nil {
		t.Errorf("%s: its commands did not end within %v", p.path, runIn)
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, path := range logs {
			text, err := os.ReadFile(path)
			t.Logf("%s: %s (%v)", filepath.Base(path), text, err)
		}
	} else if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("%s: %v", p.path, err)
	}
	return strings.NewReplacer(fromFree...).Replace(out.String())
}

// goEnvironment returns the environment without settings of Daybook, and with the paths of the go command's caches, which
// otherwise follow from HOME.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "DAYBOOK_") {
			env = append(env, v)
		}
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY"} {
		value := testkit.Must(exec.Command("go", "env", name).Output())(t)
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return append(env, "GOFLAGS=-mod=mod")
}

// goModule makes dir a module that uses this repository's modules, like a module that has fetched them.
func goModule(t *testing.T, root, dir string) {
	t.Helper()
	mod := "module page\n\ngo 1.26\n\nrequire github.com/daybookq/daybook/client v0.0.0\n"
	for _, name := range []string{"client", "job", "mdns"} {
		mod += fmt.Sprintf("\nreplace github.com/daybookq/daybook/%s => %s\n", name, filepath.Join(root, name))
	}
	sums := testkit.Must(os.ReadFile(filepath.Join(root, "client", "go.sum")))(t)
	write(t, filepath.Join(dir, "go.mod"), mod)
	write(t, filepath.Join(dir, "go.sum"), string(sums))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}
