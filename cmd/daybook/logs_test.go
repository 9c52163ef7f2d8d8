package main

import (
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
