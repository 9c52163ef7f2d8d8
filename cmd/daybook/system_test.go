package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestOtherSystems: on a system without a server, the commands that need it or its data report this, and create
// nothing. All other commands run.
func TestOtherSystems(t *testing.T) {
	was := system
	t.Cleanup(func() { system = was })
	system = "windows"
	t.Chdir(t.TempDir())
	for _, line := range []string{
		"serve", "serve --data d --init", "check --data d", "rebuild --data d", "journal verify --data d", "journal dump --data d",
		"journal give-up --data d", "bench",
	} {
		args := strings.Fields(line)
		r := execute(t, "", args...)
		testkit.Holds(t, r.code == terminal.ExitSystem && strings.Contains(r.errs, "daybook "+args[0]) &&
			strings.Contains(r.errs, "does not run on windows") && strings.Contains(r.errs, "--server"), line, "exit code", r.code, r.errs)
	}
	made := testkit.Must(os.ReadDir("."))(t)
	testkit.Holds(t, len(made) == 0, made, "were made")
	ok(t, "version")
	execute(t, "", "stats", "--server", "http://127.0.0.1:1").ends(t, terminal.ExitNoAnswer)
}

// TestUnitDoesNotRepeat: systemd does not restart the server after exit codes that the next start would return too.
func TestUnitDoesNotRepeat(t *testing.T) {
	unit := testkit.Must(os.ReadFile("../../deploy/systemd/daybook.service"))(t)
	want := fmt.Sprintf("\nRestartPreventExitStatus=%d %d %d %d %d\n", terminal.ExitUsage, terminal.ExitCorrupt, terminal.ExitFormat, terminal.ExitNoData, terminal.ExitSystem)
	testkit.Contains(t, string(unit), want)
}
