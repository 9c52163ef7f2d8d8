package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestDataOfASingleServerBecomeACluster: the data directory that a single server of level 1 wrote becomes a cluster of three,
// under the load of producers and workers. Nothing is lost that the data had, or that was acknowledged meanwhile, and all nodes
// answer the same.
func TestDataOfASingleServerBecomeACluster(t *testing.T) {
	dir := t.TempDir()
	golden := func(name string) string {
		to := filepath.Join(dir, name)
		testkit.NoError(t, os.CopyFS(to, os.DirFS("../../testdata/level-1/data")))
		return to
	}
	single := serving(t, golden("single"), "--blobs", "none")
	var had []*client.Job
	testkit.Eventually(t, "jobs that ended years ago are purged", func() bool {
		had = jobsAt(t, single.url)
		return !slices.ContainsFunc(had, func(j *client.Job) bool { return j.CompletedAt != 0 })
	})
	hadHandlers, hadFilesets := get(t, single.url+"/handlers"), get(t, single.url+"/filesets")
	testkit.MustHold(t, len(had) > 100, "the golden data have", len(had), "jobs")
	testkit.Equal(t, single.end(t, syscall.SIGTERM), 0)

	n1 := startNode(t, "n1", golden("n1"), "--cluster-init")
	// Claims of the single server go on at the node, for longer than the test takes.
	held := map[string]int{}
	for _, j := range had {
		if j.Status == "active" {
			held[j.RunnerID]++
		}
	}
	for runner, jobs := range held {
		got := testkit.Must(client.New(n1.url, client.Options{}).TickleRunner(t.Context(), runner, client.TickleOptions{LeaseMs: time.Hour.Milliseconds()}))(t)
		testkit.Equal(t, got.Held, jobs, "jobs of runner", runner)
	}

	u := &users{made: map[string]string{}, done: map[string]bool{}}
	u.ctx, u.stop = context.WithCancel(t.Context())
	defer u.stop()
	u.join(t, n1)
	n2 := startNode(t, "n2", filepath.Join(dir, "n2"), "--join", n1.address)
	u.join(t, n2)
	n3 := startNode(t, "n3", filepath.Join(dir, "n3"), "--join", n2.address)
	u.join(t, n3)
	n1.awaitVoters(t, 3)
	u.goOn(t)
	u.end(t, n1)

	// All nodes answer the same.
	times := regexp.MustCompile(`"(oldest_pending_age_ms|estimate_ms)":\d+`) // they depend on the time of the request
	has := jobsAt(t, n1.url)
	for _, n := range []*node{n2, n3} {
		testkit.DeepEqual(t, jobsAt(t, n.url), has, "jobs at", n.name)
		for _, path := range []string{"/batches?limit=1000", "/queues?limit=1000", "/handlers", "/filesets"} {
			testkit.Equal(t, times.ReplaceAllString(get(t, n.url+path), ""), times.ReplaceAllString(get(t, n1.url+path), ""), path, "at", n.name)
		}
	}
	testkit.Equal(t, get(t, n3.url+"/handlers"), hadHandlers)
	testkit.Equal(t, get(t, n3.url+"/filesets"), hadFilesets)

	// Each job is there that the data had: as it was, or completed by a worker.
	byID := map[string]*client.Job{}
	for _, j := range has {
		byID[j.ID] = j
	}
	for _, was := range had {
		is := byID[was.ID]
		switch {
		case is == nil:
			t.Errorf("job %s, which the data had, is lost", was.ID)
		case slices.Contains(workedTypes, was.Type):
			testkit.Equal(t, is.Status+" "+string(is.Output), "completed "+string(outputOf(was)), "job", was.ID)
			testkit.Equal(t, string(is.Payload), string(was.Payload), "job", was.ID)
		default:
			kept := *is // the tickle above changed its lease
			kept.LeaseMs, kept.DeadlineAt, kept.TickledAt = was.LeaseMs, was.DeadlineAt, was.TickledAt
			testkit.DeepEqual(t, &kept, was, "job", was.ID)
		}
	}
	// So is each job that was acknowledged, with the outcome that its worker returned.
	for id, payload := range u.made {
		is := byID[id]
		testkit.Holds(t, is != nil && string(is.Payload) == payload && is.Status == "completed" && string(is.Output) == string(outputOf(is)),
			"job", id, "with the payload", payload, "is", is)
	}
	for id := range u.done {
		testkit.Holds(t, byID[id] != nil, "job", id, "was completed, and is lost")
	}
}

// workedTypes are the types whose jobs workers complete: of new jobs, and of jobs of the golden data. A completion of "second"
// creates a job of the type "third".
var workedTypes = []string{"load", "default", "then", "second", "third"}

// outputOf returns the output of a worker for a job.
func outputOf(j *client.Job) []byte { return fmt.Appendf(nil, "%s of %s", j.Payload, j.ID) }

// jobsAt returns all jobs that a node shows.
func jobsAt(t *testing.T, url string) (list []*client.Job) {
	t.Helper()
	for j, err := range client.New(url, client.Options{}).Jobs(t.Context(), client.JobsQuery{PageSize: 1000}) {
		testkit.NoError(t, err)
		list = append(list, j)
	}
	return list
}

// users create and complete jobs.
type users struct {
	ctx  context.Context // of the workers
	stop func()
	all  sync.WaitGroup

	mu     sync.Mutex
	made   map[string]string // acknowledged jobs: the payload by id
	done   map[string]bool   // ids that a worker has worked on
	ended  bool              // producers create no more
	failed error
}

// join adds a producer and a worker at a node, and waits until all users go on.
func (u *users) join(t *testing.T, n *node) {
	t.Helper()
	c := client.New(n.url, client.Options{})
	u.all.Go(func() {
		for i := 0; u.produces(); i++ {
			payload := fmt.Sprint("job ", i, " of ", n.name)
			j := keyed(payload)
			j.Type = "load"
			made, err := c.Create(t.Context(), j)
			u.mu.Lock()
			if err != nil {
				u.failed, u.ended = err, true
			} else {
				u.made[made.ID] = payload
			}
			u.mu.Unlock()
		}
	})
	u.all.Go(func() {
		w := worker.Worker{Client: c, Types: workedTypes, RunnerID: "worker at " + n.name, Wait: time.Second, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.done[j.ID] = true
			return client.TextOutput(string(outputOf(j))), nil
		}}
		testkit.Check(t, w.Run(u.ctx))
	})
	u.goOn(t)
}

func (u *users) produces() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.ended
}

// goOn waits until some more jobs were created and completed.
func (u *users) goOn(t *testing.T) {
	t.Helper()
	counts := func() (made, done int) {
		u.mu.Lock()
		defer u.mu.Unlock()
		testkit.NoError(t, u.failed)
		return len(u.made), len(u.done)
	}
	made, done := counts()
	testkit.Eventually(t, "users are served", func() bool {
		m, d := counts()
		return m >= made+50 && d >= done+50
	})
}

// end ends the producers, and the workers when all jobs that they work on are completed.
func (u *users) end(t *testing.T, n *node) {
	t.Helper()
	u.mu.Lock()
	u.ended = true
	u.mu.Unlock()
	c := client.New(n.url, client.Options{})
	testkit.Eventually(t, "all jobs are completed", func() bool {
		left := 0
		for _, typ := range workedTypes {
			for j, err := range c.Jobs(t.Context(), client.JobsQuery{Type: typ, Fields: []string{"status"}, PageSize: 1000}) {
				testkit.NoError(t, err)
				if j.Status != "completed" {
					left++
				}
			}
		}
		return left == 0
	})
	u.stop()
	u.all.Wait()
}
