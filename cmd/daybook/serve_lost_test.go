package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestLostRunner: if a runner sends no more heartbeats to a real server, it loses its jobs after about three missed
// heartbeats, although its lease is an hour, and the command of --on-lost runs. A runner that continues its heartbeats
// keeps its jobs.
func TestLostRunner(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OUT", dir)
	s := serving(t, filepath.Join(dir, "data"), "--runner-heartbeat", "2s", "--abandoned-age", "1h", "--on-lost", `cat > "$OUT/part" && mv "$OUT/part" "$OUT/$DAYBOOK_RUNNER_ID"`)
	c, ctx := client.New(s.url, client.Options{}), t.Context()
	testkit.Must(c.AddLines(ctx, []byte("one\ntwo\n"), client.AddOptions{}))(t)
	held := map[string]*client.Job{}
	beat := func(id string) {
		testkit.Equal(t, testkit.Must(c.Heartbeat(ctx, client.RunnerInfo{ID: id, Instance: "of " + id}))(t), 2*time.Second, "heartbeat", id)
	}
	silent := time.Now()
	for _, id := range []string{"silent", "busy"} {
		beat(id)
		claim := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: id, Max: 1}))(t)
		testkit.MustEqual(t, len(claim.Jobs), 1, "claim", id, claim)
		held[id] = claim.Jobs[0]
	}
	over, beats := make(chan struct{}), sync.WaitGroup{}
	defer beats.Wait()
	defer close(over)
	beats.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(200 * time.Millisecond):
				beat("busy")
			}
		}
	})
	testkit.Eventually(t, "the job of the silent runner is returned", func() bool {
		j := testkit.Must(c.Job(ctx, held["silent"].ID))(t)
		return j.Status == "pending"
	})
	took := time.Since(silent)
	t.Logf("returned after %v", took)
	if took < 6*time.Second { // three heartbeats
		t.Errorf("returned after %v", took)
	}
	testkit.Equal(t, testkit.Must(c.Job(ctx, held["busy"].ID))(t).Status, "active", "the job of the other runner")
	r := testkit.Must(c.Runner(ctx, "silent"))(t)
	testkit.Holds(t, r.State == client.RunnerDead && r.End == client.RunnerLost && r.Held == 0, "the lost runner", r)
	path := filepath.Join(dir, "silent")
	testkit.Eventually(t, "--on-lost gets the runner", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), `"runner_id":"silent","state":"DEAD","end":"lost"`)
	})
	testkit.Contains(t, get(t, s.url+"/metrics"), "daybook_runners_lost_total 1\n", `daybook_runners{state="alive"} 1`, `daybook_runners{state="dead"} 1`, "daybook_on_lost_failures_total 0\n")
}
