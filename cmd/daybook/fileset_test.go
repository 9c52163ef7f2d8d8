package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

func TestFilesetCommands(t *testing.T) {
	s := serving(t, t.TempDir())
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	for path, content := range map[string]string{"a.dat": "A", "out/b.dat": "B", "out/c.txt": "C"} {
		testkit.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(from, path)), 0o755))
		testkit.NoError(t, os.WriteFile(filepath.Join(from, path), []byte(content), 0o600))
	}
	server := []string{"--server", s.url}
	do := func(args ...string) string {
		t.Helper()
		return ok(t, append(append([]string{"fileset"}, args...), server...)...)
	}
	testkit.Equal(t, do("ls"), "there are no filesets\n")
	testkit.Equal(t, do("push", from, "input"), "input: stored as version 1; 3 files (3B) sent, 0 were there\n")
	testkit.Equal(t, do("push", from, "input"), "input: unchanged, version 1; 0 files (0B) sent, 3 were there\n", "push again")
	testkit.Equal(t, do("push", from, "input", "--pattern", "**/*.dat", "--pattern", "!a.dat", "--client", "acme", "--json"),
		`{"name":"input","version":1,"files":0,"skipped":1,"bytes":0}`+"\n", "push with patterns")
	testkit.Equal(t, do("pull", "input", to, "--pattern", "out/*", "--version", "1"), "input: version 1; 2 files (2B) fetched, 0 were there\n")
	testkit.Equal(t, do("pull", "input", to, "--json"), `{"name":"input","version":1,"files":1,"skipped":2,"bytes":1}`+"\n", "pull of the rest")
	testkit.Equal(t, string(testkit.Must(os.ReadFile(filepath.Join(to, "out", "b.dat")))(t)), "B")
	got := do("ls")
	testkit.Holds(t, strings.Contains(got, "acme") && strings.Count(got, "\n") == 3, "ls", got)
	got = do("history", "input", "--json")
	testkit.Holds(t, strings.Contains(got, `"version":1`) && strings.Count(got, "\n") == 1, "history", got)
	testkit.NoError(t, os.Symlink("a.dat", filepath.Join(from, "link")))
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"push", from, "input"}, terminal.ExitError}, // because of the link
		{[]string{"push", filepath.Join(from, "none"), "input"}, terminal.ExitFile},
		{[]string{"push", from, "a/b"}, terminal.ExitUsage},
		{[]string{"push", "input", from}, terminal.ExitUsage},
		{[]string{"push", from, "input", "--pattern", "["}, terminal.ExitUsage},
		{[]string{"push", from, "input", "--client", "a/b"}, terminal.ExitUsage},
		{[]string{"pull", "none", to}, terminal.ExitNotFound},
		{[]string{"pull", "input", to, "--version", "9"}, terminal.ExitNotFound},
		{[]string{"pull", "input", to, "--version", "-1"}, terminal.ExitUsage},
		{[]string{"pull", "input", filepath.Join(to, "a.dat")}, terminal.ExitFile},
		{[]string{"ls", "input"}, terminal.ExitUsage},
		{[]string{"history", "none"}, terminal.ExitNotFound},
		{[]string{"push", from, "input", "--pattern", "a.dat", "--if-version", "0"}, terminal.ExitRefused},
		{[]string{"push", from, "input", "--pattern", "a.dat", "--if-version", "2"}, terminal.ExitRefused},
		{[]string{"rm", "input", "--if-version", "2"}, terminal.ExitRefused},
		{[]string{"rm", "none"}, terminal.ExitNotFound},
		{[]string{"push", from}, terminal.ExitUsage},
	} {
		execute(t, "", append(append([]string{"fileset"}, c.args...), server...)...).ends(t, c.code)
	}
	do("rm", "input", "--if-version", "1", "--by", "anna")
	if got := do("history", "input"); strings.Count(got, "\n") != 3 || !strings.Contains(got, "2        deleted       -     anna") || !strings.Contains(got, "1        stored, gone  3B") {
		t.Errorf("history: %q", got)
	}
	got = do("ls")
	testkit.Equal(t, strings.Count(got, "\n"), 2, "ls after rm:", got)
}
