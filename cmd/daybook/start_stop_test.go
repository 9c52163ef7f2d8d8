package main

import (
	"path/filepath"
	"testing"
	"time"
)

// TestStopWaits: with --wait, stop ends when the last active job has ended, and no other job is handed out.
func TestStopWaits(t *testing.T) {
	s := serving(t, filepath.Join(t.TempDir(), "data"))
	execute(t, "a\nb\n", "add", "--type", "slow", "--server", s.url)
	ok(t, "claim", "--runner-id", "r", "--type", "slow", "--server", s.url)
	job := uuids.FindString(ok(t, "jobs", "--status", "active", "--ids", "--server", s.url))
	ended := make(chan result)
	go func() { ended <- execute(t, "", "stop", "--wait", "--server", s.url) }()
	select {
	case r := <-ended:
		t.Fatalf("it did not wait: %+v", r)
	case <-time.After(2 * askIdle):
	}
	ok(t, "complete", job, "--server", s.url)
	if r := <-ended; r.code != exitOK || r.out != "the server hands out no jobs; active: 0 jobs\n" {
		t.Errorf("%+v", r)
	}
}
