package main

import (
	"os"
	"strings"
	"testing"
)

// TestOtherSystems: where the server does not run, the commands that need it or its data say so, and create nothing. The
// other commands run.
func TestOtherSystems(t *testing.T) {
	was := system
	t.Cleanup(func() { system = was })
	system = "windows"
	t.Chdir(t.TempDir())
	for _, line := range []string{
		"serve", "serve --data d --init", "serve --print-config", "opsqueue-serve --port 0", "check --data d", "rebuild --data d", "journal verify --data d", "journal dump --data d",
		"journal give-up --data d", "bench",
	} {
		args := strings.Fields(line)
		r := execute(t, "", args...)
		if r.code != exitSystem || !strings.Contains(r.errs, "daybook "+args[0]) || !strings.Contains(r.errs, "does not run on windows") || !strings.Contains(r.errs, "--server") {
			t.Errorf("%s: exit code %d: %s", line, r.code, r.errs)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("%v were made: %v", made, err)
	}
	ok(t, "version")
	if r := execute(t, "", "stats", "--server", "http://127.0.0.1:1"); r.code != exitNoAnswer {
		t.Errorf("stats: exit code %d: %s", r.code, r.errs)
	}
}
