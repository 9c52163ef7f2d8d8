package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestLogs: the command shows what a job prints until it ends, and the stored log afterwards.
func TestLogs(t *testing.T) {
	s := serving(t, t.TempDir())
	defer s.end(t, syscall.SIGTERM)
	c, ctx := client.New(s.url, client.Options{}), t.Context()
	j := testkit.Must(c.Create(ctx, client.NewJob{Type: "x"}))(t)
	if r := execute(t, "", "logs", "--server", s.url, j.ID); r.code != terminal.ExitNotFound || !strings.Contains(r.errs, "log_not_found") {
		t.Errorf("exit code %d: %s", r.code, r.errs)
	} else {
		testkit.Contains(t, r.errs, "; --follow waits for it", "what a script prints is in the log of its runner")
	}
	other, err := c.Create(ctx, client.NewJob{Type: "ended"})
	if err == nil {
		_, err = c.Cancel(ctx, other.ID)
	}
	testkit.NoError(t, err)
	execute(t, "", "logs", "--server", s.url, other.ID).ends(t, terminal.ExitNotFound, "log_bytes; what a script prints")
	execute(t, "", "logs", "--server", s.url, job.NewID(1, 1<<30, 0).String()).ends(t, terminal.ExitNotFound)
	execute(t, "", "logs", "--server", s.url, "nonsense").ends(t, terminal.ExitUsage)
	following := make(chan string, 1)
	go func() { following <- ok(t, "logs", "-f", "--server", s.url, j.ID) }()
	claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r", Max: 1}))(t)
	testkit.NoError(t, c.AppendLog(ctx, j.ID, claim.ID, 0, []byte("printed\n")))
	testkit.Equal(t, ok(t, "logs", "--server", s.url, j.ID), "printed\n")
	testkit.Must(c.Complete(ctx, j.ID, claim.ID, client.Outcome{}))(t)
	testkit.Equal(t, <-following, "printed\n")
}

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

// TestDisk: the queue with the most bytes is first, its ended jobs are counted separately, and blobs are counted.
func TestDisk(t *testing.T) {
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	read := func(args ...string) (use diskUse) {
		t.Helper()
		testkit.NoError(t, json.Unmarshal([]byte(ok(t, append([]string{"disk", "--json", "--server", s.url}, args...)...)), &use))
		return use
	}
	use := read()
	testkit.Holds(t, len(use.Queues) == 0 && use.FreeBytes != 0 && use.BlobBytes == 0, "of an empty server", use)
	const long = 5000
	execute(t, strings.Repeat("short\n", 100), "add", "--type", "short", "--server", s.url)
	execute(t, strings.Repeat(strings.Repeat("x", long)+"\n", 20), "add", "--type", "long", "--server", s.url)
	execute(t, strings.Repeat("b", 1000), "blob", "put", "-", "--server", s.url)
	ok(t, "claim", "--runner-id", "r", "--type", "long", "--server", s.url)
	job := uuids.FindString(ok(t, "jobs", "--status", "active", "--ids", "--server", s.url))
	ok(t, "complete", "--job", job, "--server", s.url)

	use = read()
	testkit.MustHold(t, use.BlobBytes == 1000 && use.JournalBytes != 0 && use.StoreBytes != 0 && len(use.Queues) == 2, use)
	q := use.Queues[0]
	testkit.Holds(t, q.Type == "long" && q.Jobs == 20 && q.Ended == 1 && q.Bytes >= 20*long/2 &&
		q.Bytes <= 20*(long+2000) && q.EndedBytes >= long/2 && q.EndedBytes <= long+2000, q)
	if all := q.Bytes + use.Queues[1].Bytes; all > use.JournalBytes+use.StoreBytes {
		t.Errorf("the queues have %d bytes, and the journal and the store %d and %d", all, use.JournalBytes, use.StoreBytes)
	}
	use = read("--limit", "1")
	testkit.Holds(t, len(use.Queues) == 1 && use.Queues[0].Type == "long", "with --limit 1", use.Queues)
	table := ok(t, "disk", "--limit", "1", "--server", s.url)
	testkit.Contains(t, table, "disk free", "blobs      1000B", "default  long", "queues with less: 1;")
	execute(t, "", "disk", "--limit", fmt.Sprint(-1), "--server", s.url).ends(t, terminal.ExitUsage)
}
