package bench

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
)

// The bounds for a node that joins a cluster of one with ten million pending jobs (docs/explanation/performance.md):
const (
	maxJoin         = time.Minute
	maxJoinP99Ratio = 1.5
)

// TestJoin adds a second node to a node that has millions of jobs, and measures the claims at the first node meanwhile.
// Then a third node joins, and is killed when it has fetched half of the state. After that it must fetch only the rest. It takes
// minutes and gigabytes, so it runs only with `make bench SET=join`.
func TestJoin(t *testing.T) {
	jobs, err := strconv.Atoi(os.Getenv("DAYBOOK_JOIN"))
	if err != nil {
		t.Skip("ten million jobs take some minutes: make bench SET=join")
	}
	c := &rig.Nodes{Ctx: t.Context(), Dir: t.TempDir(), HTTP: http.DefaultClient, Place: rig.OnLoopback(testkit.Must(daybooktest.Binary())(t))}
	t.Cleanup(func() { testkit.Check(t, c.End()) })
	testkit.NoError(t, c.Found(1))
	first := c.List[0]
	l := NewLoad(first.Process.URL(), 16)
	defer l.Close()
	start := time.Now()
	fill(t, l, jobs/1000)
	t.Logf("posted %d jobs in %v", jobs, time.Since(start).Round(time.Millisecond))
	before := claimTimes(t, l)[0]
	logTimes(t, "no other node", before)

	n := testkit.Must(c.New(testkit.Must(c.Place(1))(t)))(t)
	took := time.Duration(0)
	during := claimsWhile(t, l, func() {
		start := time.Now()
		testkit.NoError(t, c.Start(n))
		took = time.Since(start)
	})
	logTimes(t, "a node that joins", during)
	fetched, kept := fetches(t, n)
	t.Logf("node %s is ready after %v, and has fetched %d bytes", n.Name, took.Round(time.Millisecond), fetched)
	testkit.Equal(t, kept, 0, "bytes that it had before")
	testkit.Holds(t, took <= maxJoin, "a join takes", took, "more than", maxJoin)
	ratio := float64(during.Quantile(0.99)) / float64(before.Quantile(0.99))
	testkit.Holds(t, ratio <= maxJoinP99Ratio, "claim p99 grew by a factor of", ratio, "more than", maxJoinP99Ratio)
	testkit.NoError(t, c.Healthy())

	n = testkit.Must(c.New(testkit.Must(c.Place(2))(t)))(t)
	testkit.NoError(t, c.Launch(n))
	base := filepath.Join(n.Process.Data, "cluster", "base")
	testkit.Eventually(t, "half of the state is fetched", func() bool {
		_, err := os.Stat(base)
		return err == nil && testkit.Must(folderBytes(base))(t) >= int64(fetched/2)
	})
	testkit.NoError(t, c.Kill(n))
	had := testkit.Must(folderBytes(base))(t)
	start = time.Now()
	testkit.NoError(t, c.Start(n))
	fetched, kept = fetches(t, n)
	t.Logf("node %s was killed with %d bytes, kept %d, fetched %d, and is ready %v after its start", n.Name, had, kept, fetched, time.Since(start).Round(time.Millisecond))
	testkit.Holds(t, 5*kept >= 2*(kept+fetched), "after a kill half-way, a node kept", kept, "bytes, and fetched", fetched)
	testkit.NoError(t, c.Quiet())
}

// claimsWhile claims and completes one job at a time, and returns the latencies of the claims.
func claimsWhile(t *testing.T, l *Load, f func()) *load.Latencies {
	t.Helper()
	var ended atomic.Bool
	times, failed := load.NewLatencies(), make(chan error, 1)
	go func() {
		for !ended.Load() {
			var claim string
			err := times.Time(func() (err error) { claim, err = l.Claim(context.Background(), 1); return err })
			if err == nil {
				err = l.Complete(context.Background(), claim)
			}
			if err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	f()
	ended.Store(true)
	testkit.NoError(t, <-failed)
	return times
}

// fetches returns the bytes of the state that a node has fetched in its last join, and the bytes that it had before.
func fetches(t *testing.T, n *rig.Node) (fetched, kept int) {
	t.Helper()
	text := testkit.Must(os.ReadFile(n.Log.Name()))(t)
	of := regexp.MustCompile(`"bytes":(\d+),"kept_bytes":(\d+)`).FindSubmatch(text)
	testkit.MustHold(t, of != nil, "the log of node", n.Name, "does not say how much it fetched:", string(text))
	return testkit.Must(strconv.Atoi(string(of[1])))(t), testkit.Must(strconv.Atoi(string(of[2])))(t)
}
