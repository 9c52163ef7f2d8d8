//go:build unix

package check

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestUnits: systemd accepts the units of docs/how-to/backups.md.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		skip(t, "systemd-analyze is not installed; `scripts/tools` installs it")
	}
	binary := testkit.Must(daybooktest.Binary())(t)
	page := testkit.Must(readPage("../..", "docs/how-to/backups.md"))(t)
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, b := range page.blocks {
		if b.language != "ini" {
			continue
		}
		file := filepath.Join(dir, b.title)
		write(t, file, strings.ReplaceAll(b.text, "/usr/bin/daybook", binary))
		args = append(args, file)
		if _, command, found := strings.Cut(b.text, "ExecStart=/usr/bin/daybook "); found {
			command, _, _ = strings.Cut(command, "\n")
			out, err := exec.Command(binary, append(strings.Fields(command), "--help")...).CombinedOutput()
			testkit.Check(t, err, command, out)
		}
	}
	testkit.MustEqual(t, len(args), 4, "the page has", len(args)-2, "units")
	out, err := exec.Command(analyze, args...).CombinedOutput()
	testkit.Check(t, err, out)
}

// TestUsersOfBackups: the units and the line for cron of docs/how-to/backups.md run an existing command, as a user that
// every system has. The packages create no users.
func TestUsersOfBackups(t *testing.T) {
	binary := testkit.Must(daybooktest.Binary())(t)
	page := testkit.Must(readPage("../..", "docs/how-to/backups.md"))(t)
	lines := 0
	for _, b := range page.blocks {
		testkit.Holds(t, b.language != "ini" || !strings.Contains(b.text, "User=") && !strings.Contains(b.text, "Group="),
			b.title, "has a user or a group, which must exist", b.text)
		if b.language != "crontab" {
			continue
		}
		for line := range strings.Lines(b.text) {
			lines++
			fields := strings.Fields(line) // five fields for the time, the user, and the command
			testkit.MustHold(t, len(fields) >= 8 && fields[5] == "root" && fields[6] == "/usr/bin/daybook", "the line for cron is", line)
			out, err := exec.Command(binary, append(fields[7:], "--help")...).CombinedOutput()
			testkit.Check(t, err, line, out)
		}
	}
	testkit.Equal(t, lines, 1, "the page, lines for cron")
}
