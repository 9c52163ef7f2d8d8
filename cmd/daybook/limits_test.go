package main

import (
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestLimitsCommands: quotas are set, listed with their use, and removed.
func TestLimitsCommands(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	s := serving(t, t.TempDir())
	at := func(args ...string) []string { return append(args, "--server", s.url) }
	execute(t, "", at("limits", "set", "acme")...).ends(t, terminal.ExitUsage, "--unfinished")
	execute(t, "", at("limits", "set", "acme", "--queues", "-1")...).ends(t, terminal.ExitUsage, "from 1")
	testkit.Equal(t, ok(t, at("limits", "set", "acme", "--unfinished", "1", "--queues", "5")...), "acme: 0 of 1 unfinished jobs, 0 of 5 queues\n")
	ok(t, at("create", "x", "--client", "acme")...)
	refused := execute(t, "", at("create", "x", "--client", "acme")...)
	testkit.Contains(t, refused.errs, "429 quota_exceeded: client acme may have 1 unfinished jobs, and has 1; the request would add 1")
	ok(t, at("limits", "set", "b", "--queues", "7")...)
	testkit.Equal(t, ok(t, at("limits", "ls")...), "acme: 1 of 1 unfinished jobs, 1 of 5 queues\nb: 0 of 7 queues\n")
	got := parsed[client.Quota](t, ok(t, at("limits", "get", "acme", "--json")...))
	testkit.Holds(t, got.Use.Unfinished == 1 && got.Unfinished == 1 && got.Queues == 5, got)
	testkit.Equal(t, ok(t, at("limits", "rm", "acme")...), "removed the quota of acme\n")
	ok(t, at("create", "x", "--client", "acme")...)
	execute(t, "", at("limits", "get", "acme")...).ends(t, terminal.ExitNotFound, "quota_not_found")
}
