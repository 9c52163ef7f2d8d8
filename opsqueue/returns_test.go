package opsqueue_test

import (
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// nodes are the processes of a cluster as its leader knows them. The engine is that of a single server.
type nodes struct {
	*ingest.Engine
	leads     bool
	processes map[uint64]bool
}

func (n *nodes) Leads() bool                { return n.leads }
func (n *nodes) Processes() map[uint64]bool { return maps.Clone(n.processes) }

// countingState counts the lists of runners, which a look reads only if there may be something to return.
type countingState struct {
	opsqueue.Queries
	lists int
}

func (s *countingState) Runners(after string, limit int) ([]document.Runner, bool, error) {
	s.lists++
	return s.Queries.Runners(after, limit)
}

// TestReturns: the leader returns what a process held whose node has a newer process or none, after the consumers had time
// to report, and what a process holds whose node is away. It leaves the others alone, and so does a node that does not lead.
func TestReturns(t *testing.T) {
	h := startHost(t)
	const old, live, away = 0xabcdef0123456789, 7, 8
	runner := func(origin uint64) string { return fmt.Sprintf("opsqueue/%016x/c", origin) }
	n := &nodes{Engine: h.engine, processes: map[uint64]bool{old: false, live: false, away: false}}
	state := &countingState{Queries: h.engine.Queries()}
	r := opsqueue.NewReturns(n, state, opsqueue.Config{HeartbeatInterval: 10 * time.Second})
	now := time.Now()
	look := func(later time.Duration) { t.Helper(); now = now.Add(later); h.must(r.Look(h.ctx, now)) }
	ofOld, ofLive, ofAway, ofAPI := h.claimAs(runner(old)), h.claimAs(runner(live)), h.claimAs(runner(away)), h.claimAs("opsqueue/mine")
	check := func(when string, want ...bool) {
		t.Helper()
		testkit.EqualSlices(t, []bool{h.holds(ofOld), h.holds(ofLive), h.holds(ofAway), h.holds(ofAPI)}, want, when)
	}

	look(time.Hour)
	n.processes = map[uint64]bool{9: false, live: false, away: false} // the node of old has started again
	look(time.Hour)
	check("at a node that does not lead", true, true, true, true)
	n.leads = true
	look(0)
	look(9 * time.Second)
	check("while consumers may report", true, true, true, true)
	look(time.Second)
	check("after that", false, true, true, true)

	look(time.Second)
	lists := state.lists
	look(time.Hour)
	testkit.Equal(t, state.lists, lists, "lists of runners while nothing changes")
	n.processes[away] = true
	look(time.Second)
	check("after a node was silent for 30 seconds", false, true, false, true)
	// The node comes back, with the same process.
	n.processes[away] = false
	again := h.claimAs(runner(away))
	look(time.Hour)
	look(time.Hour)
	testkit.Holds(t, h.holds(again), "what the node claimed after its return was returned")

	// Another node leads meanwhile. The time to report begins again.
	delete(n.processes, live)
	look(time.Second)
	n.leads = false
	look(time.Hour)
	n.leads = true
	look(0)
	testkit.Holds(t, h.holds(ofLive), "the new leader waits")
	look(10 * time.Second)
	testkit.Holds(t, !h.holds(ofLive), "the job of the removed node is still held")
	j := testkit.Must(h.engine.Queries().Job(ofLive))(t)
	testkit.Holds(t, j.Status == job.Pending && j.RunAttempts == 0, "a return counted as a failure", j.Status, j.RunAttempts)
}

// pausingState waits after the first list of paused batches, and before the next one.
type pausingState struct {
	opsqueue.Queries
	lists          atomic.Int64
	listed, resume chan struct{}
}

func (s *pausingState) Batches(f query.BatchFilter) (docs []document.Batch, next query.BatchPlace, err error) {
	if f.Status == job.BatchPaused && s.lists.Add(1) == 2 {
		close(s.listed)
		<-s.resume
	}
	return s.Queries.Batches(f)
}

// TestStartInCluster: the start of a node returns nothing that other processes hold, and cancels no submission that another
// one is filling. It cancels one that does not grow.
func TestStartInCluster(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.FillWait = time.Millisecond })
	growing, left := h.createIncomplete(true, true), h.createIncomplete(true, true)
	held := h.claimAs("opsqueue/00000000000000aa/c")
	at := h.engine.Now()
	testkit.Eventually(t, "time has passed", func() bool { return h.engine.Now() > at })

	state := &pausingState{listed: make(chan struct{}), resume: make(chan struct{})}
	h.config.Origin, h.wrapState = 0xbb, func(q opsqueue.Queries) opsqueue.Queries { state.Queries = q; return state }
	h.restart()
	<-state.listed
	batch := testkit.Must(h.engine.Queries().BatchOfSnowflake(int64(growing)))(t)
	_, _, err := h.engine.Create(h.ctx, &job.Create{Into: batch, Groups: []job.Group{{
		Client: opsqueue.Client, Type: opsqueue.Type, Lines: 3, Attributes: job.Attributes{MaxAttempts: 3, LeaseMs: 600_000, RetentionMs: 600_000},
	}}})
	h.must(err)
	h.must(h.engine.CatchUp(h.ctx, 0))
	close(state.resume)
	h.waitFor(left, "Cancelled") // which is newer, so the other one was looked at before
	testkit.Equal(t, kind(h.status(growing)), "InProgress", "the submission that grew")
	testkit.Holds(t, h.holds(held), "the start returned a job of another process")
}
