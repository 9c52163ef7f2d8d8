package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestTopOnce: --once prints a table, and --json a document. Without a terminal, one of them is required.
func TestTopOnce(t *testing.T) {
	s := serving(t, t.TempDir())
	for _, typ := range []string{"a", "b", "b"} {
		ok(t, "create", "--server", s.url, "--type", typ, "x")
	}
	ok(t, "pause", "--server", s.url, "default/a")
	text := ok(t, "top", "--once", "--sort", "pending", "--server", s.url)
	if !regexp.MustCompile(`(?ms)^daybook dev  http://127.*^jobs: deferred 0, pending 3.*^watermarks: .*^queue +pending .*^default/b +2 .*^default/a +paused +1 `).MatchString(text) {
		t.Error(text)
	}
	var doc struct {
		Queues []client.Queue
		Stats  client.Stats
	}
	err := json.Unmarshal([]byte(ok(t, "top", "--json", "--server", s.url)), &doc)
	testkit.Holds(t, err == nil && len(doc.Queues) == 2 && doc.Stats.Jobs["pending"] == 3, doc, err)
	for args, code := range map[string]int{"": terminal.ExitUsage, "--interval 1h --once": terminal.ExitUsage, "--interval 1ms --once": terminal.ExitUsage, "--sort x --once": terminal.ExitUsage} {
		execute(t, "", append([]string{"top", "--server", s.url}, strings.Fields(args)...)...).ends(t, code)
	}
	execute(t, "", "top", "--once", "--server", "http://127.0.0.1:1").ends(t, terminal.ExitNoAnswer)
}
