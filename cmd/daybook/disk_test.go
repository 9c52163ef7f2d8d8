package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestDisk: the queue with the most bytes is first, its ended jobs are counted separately, and blobs are counted.
func TestDisk(t *testing.T) {
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	read := func(args ...string) (use diskUse) {
		t.Helper()
		testkit.NoError(t, json.Unmarshal([]byte(ok(t, append([]string{"disk", "--json", "--server", s.url}, args...)...)), &use))
		return use
	}
	if use := read(); len(use.Queues) != 0 || use.FreeBytes == 0 || use.BlobBytes != 0 {
		t.Errorf("of an empty server: %+v", use)
	}
	const long = 5000
	execute(t, strings.Repeat("short\n", 100), "add", "--type", "short", "--server", s.url)
	execute(t, strings.Repeat(strings.Repeat("x", long)+"\n", 20), "add", "--type", "long", "--server", s.url)
	execute(t, strings.Repeat("b", 1000), "blob", "put", "-", "--server", s.url)
	ok(t, "claim", "--runner-id", "r", "--type", "long", "--server", s.url)
	job := uuids.FindString(ok(t, "jobs", "--status", "active", "--ids", "--server", s.url))
	ok(t, "complete", "--job", job, "--server", s.url)

	use := read()
	testkit.MustHold(t, use.BlobBytes == 1000 && use.JournalBytes != 0 && use.StoreBytes != 0 && len(use.Queues) == 2, use)
	q := use.Queues[0]
	testkit.Holds(t, q.Type == "long" && q.Jobs == 20 && q.Ended == 1 && q.Bytes >= 20*long/2 &&
		q.Bytes <= 20*(long+2000) && q.EndedBytes >= long/2 && q.EndedBytes <= long+2000, q)
	if all := q.Bytes + use.Queues[1].Bytes; all > use.JournalBytes+use.StoreBytes {
		t.Errorf("the queues have %d bytes, and the journal and the store %d and %d", all, use.JournalBytes, use.StoreBytes)
	}
	if use := read("--limit", "1"); len(use.Queues) != 1 || use.Queues[0].Type != "long" {
		t.Errorf("with --limit 1: %+v", use.Queues)
	}
	table := ok(t, "disk", "--limit", "1", "--server", s.url)
	testkit.Contains(t, table, "disk free", "blobs      1000B", "default  long", "queues with less: 1;")
	execute(t, "", "disk", "--limit", fmt.Sprint(-1), "--server", s.url).ends(t, terminal.ExitUsage)
}
