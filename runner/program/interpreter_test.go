package program

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
)

// TestInterpretersBelowHome: New refuses an interpreter that needs files which the sandbox does not read. The error
// names the interpreter and the remedy. New accepts interpreters that run.
func TestInterpretersBelowHome(t *testing.T) {
	s := testkit.Must(shared())(t)
	root := testkit.Must(os.MkdirTemp(outside(t, s), "pyenv"))(t)
	t.Cleanup(func() { os.RemoveAll(root) })
	program := func(path, text string) {
		path = filepath.Join(root, path)
		testkit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	program("shims/python3", `exec "`+root+`/libexec/python" "$@"`)
	program("libexec/python", "printf ran")
	program("bin/node", "printf ran")
	program("venv/bin/python3.12", "printf ran")
	testkit.NoError(t, os.WriteFile(filepath.Join(root, "venv/pyvenv.cfg"), nil, 0o644))
	env := map[string]string{"PATH": filepath.Join(root, "shims") + ":" + filepath.Join(root, "bin") + ":" + sandbox.Path()}
	reads := sandbox.Access{ReadOnly: []string{root}}
	for _, c := range []struct {
		set   Settings
		wrong string // the wrong key
	}{
		{Settings{Argv: []string{"python3", "a.py"}}, "argv"},
		{Settings{Argv: []string{"/usr/bin/env", "python3", "a.py"}}, "argv"},
		{Settings{Shell: "cd / && python3 a.py"}, "shell"},
		{Settings{Shell: "if true; then python3; fi"}, "shell"},
		{Settings{Shell: "echo $(exec python3)"}, "shell"},
		{Settings{Argv: []string{root + "/venv/bin/python3.12"}}, "argv"},
		{Settings{Argv: []string{"node"}}, ""},
		{Settings{Shell: "echo python3"}, ""},
		{Settings{Argv: []string{"python3"}, Grants: sandbox.Grants{Access: reads}}, ""},
		{Settings{Argv: []string{root + "/venv/bin/python3.12"}, Grants: sandbox.Grants{Access: reads}}, ""},
	} {
		c.set.Env = env
		e, err := New(s, c.set, handler.Options{})
		var of *handler.FieldError
		if c.wrong == "" {
			if err != nil {
				t.Errorf("%q %q: %v", c.set.Argv, c.set.Shell, err)
			} else if end := newBatch(t.Context(), "a").run(t, e)[0]; end.Code != "ok" {
				t.Errorf("%q %q: %+v", c.set.Argv, c.set.Shell, end)
			}
		} else if !errors.As(err, &of) || of.Field != c.wrong || !strings.Contains(of.Text, root) || !strings.Contains(of.Text, "read_only = [") {
			t.Errorf("%q %q: %v", c.set.Argv, c.set.Shell, err)
		}
	}
}

// outside returns a directory in which the sandbox reads nothing.
func outside(t *testing.T, s *sandbox.Sandbox) string {
	t.Helper()
	home := testkit.Must(os.UserHomeDir())(t)
	for _, dir := range []string{home, "."} {
		if !s.Reads(&sandbox.Command{}, dir) {
			return testkit.Must(filepath.Abs(dir))(t)
		}
	}
	t.Skip("the sandbox of this machine reads both the home directory and that of the test")
	return ""
}
