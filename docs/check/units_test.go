//go:build unix

package check

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client/daybooktest"
)

// TestUnits: systemd accepts the units of docs/how-to/backups.md.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("skipped: systemd-analyze is not installed")
	}
	binary, err := daybooktest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	page, err := readPage("../..", "docs/how-to/backups.md")
	if err != nil {
		t.Fatal(err)
	}
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
			if out, err := exec.Command(binary, append(strings.Fields(command), "--help")...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		}
	}
	if len(args) != 4 {
		t.Fatalf("the page has %d units", len(args)-2)
	}
	if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
