package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

const idleMs = job.MinQueueIdleMs

func queueNames(t *testing.T, s *Store) (names []string) {
	t.Helper()
	docs, _ := testkit.Must2(s.Queues("", "", "", 1000))(t)
	for _, doc := range docs {
		names = append(names, doc.Client+"/"+doc.Type)
	}
	return names
}

// TestIdleQueuesAreDeleted: a command deletes queues that have been without jobs for the time that it names. It deletes
// a bounded number, starting with the queues that have been idle for the longest time. Queues with jobs and paused
// queues stay.
func TestIdleQueuesAreDeleted(t *testing.T) {
	b, r := memory.SmallBounds, *memory.SmallBounds.Rules
	r.CommandRows = 2
	b.Rules = &r
	s := mustOpen(t, Options{bounds: &b})
	seq := uint64(0)
	apply := func(at int64, cmd job.Command) applied.Result {
		seq++
		result := mustApply(t, s, seq, at, cmd)
		mustCommit(t, s)
		sound(t, s)
		return result
	}
	expect := func(names ...string) {
		t.Helper()
		got := queueNames(t, s)
		testkit.MustHold(t, slices.Equal(got, names), "queues", got, "want", names)
	}
	idle := func(at int64, want int) {
		t.Helper()
		testkit.MustEqual(t, apply(at, job.DeleteIdleQueues{IdleMs: idleMs}).(*applied.IdleQueuesDeleted).Queues, want)
	}
	for _, typ := range []string{"a", "b", "c", "d", "e"} { // they become empty in the opposite order
		apply(0, plainCreate("q", typ, 1, 1))
		testkit.MustEqual(t, s.IdleSince(), 0, "queue", typ, "is idle since")
	}
	for i := 4; i >= 1; i-- {
		apply(int64(10-i), job.Move{Op: job.Delete, Job: jobID(0, uint64(i)+1, 0)})
	}
	apply(7, job.Pause{Client: "q", Type: "d", Paused: true})
	testkit.Equal(t, s.IdleSince(), startAt+6, "idle since")
	idle(5+idleMs, 0)
	expect("q/a", "q/b", "q/c", "q/d", "q/e")
	idle(100+idleMs, 2)
	expect("q/a", "q/b", "q/d")
	idle(100+idleMs, 1)
	expect("q/a", "q/d")
	idle(200+idleMs, 0)
	apply(300+idleMs, job.Pause{Client: "q", Type: "d"})
	idle(299+2*idleMs, 0) // the time starts at the resume
	idle(300+2*idleMs, 1)
	expect("q/a")
	testkit.Equal(t, s.IdleSince(), 0, "idle since")
	// A queue that gets a job in time is no longer idle.
	apply(400+2*idleMs, job.Move{Op: job.Delete, Job: jobID(0, 1, 0)})
	apply(399+3*idleMs, plainCreate("q", "a", 1, 1))
	idle(401+3*idleMs, 0)
	expect("q/a")
}

// TestQueueIsDeletedAtOnce deletes an empty queue that other rows name: lines of a batch that it shares with a second
// queue, results of idempotency keys, a sweep. These rows stay right, the name is free, and a start finds the same
// state.
func TestQueueIsDeletedAtOnce(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Small: true}
	s := mustOpen(t, o)
	seq := uint64(0)
	apply := func(cmd job.Command) applied.Result {
		seq++
		result := mustApply(t, s, seq, int64(seq), cmd)
		mustCommit(t, s)
		sound(t, s, "after", cmd)
		return result
	}
	deleteQueue := func(client, typ string, want job.Refusal) {
		t.Helper()
		got := apply(job.DeleteQueue{Client: client, Type: typ}).(*applied.QueueDeleted)
		testkit.MustEqual(t, got.Refusal, want, "deleting", client, typ)
	}
	deleteQueue("a", "x", job.QueueNotFound)
	c := plainCreate("a", "x", 50, 5)
	stays := plainGroup("b", "y", 2)
	c.Groups = append(c.Groups, stays)
	c.Payloads = append(c.Payloads, "xxxxx\nxxxxx\n"...)
	c.Unique = []job.UniqueKey{{Line: 0, Key: "k"}, {Line: 50, Key: "k"}}
	c.Once = job.Once{Scope: "create a", Key: "1"}
	made := apply(c).(*applied.Made)
	deleteQueue("a", "x", job.QueueNotEmpty)
	for i := range 49 { // every second line has a different state, so a sweep takes several steps
		if i%2 == 0 {
			priority := 9
			apply(job.Patch{Job: made.Batch.WithLine(i), Priority: &priority})
		}
	}
	swept := apply(job.Move{Op: job.Delete, Client: "a", Type: "x"}).(*applied.Swept)
	testkit.MustHold(t, !swept.Sweep.IsZero(), "one step was enough")
	for s.Totals().Sweeps > 0 {
		apply(job.Tick{})
	}
	apply(job.Pause{Client: "a", Type: "x", Paused: true})
	deleteQueue("a", "x", job.Granted)
	look := func() {
		t.Helper()
		testkit.Fails(s.Queue("a", "x"))(t, job.QueueNotFound)
		doc := testkit.Must(s.Sweep(swept.Sweep))(t)
		testkit.Holds(t, doc.Client == "a" && doc.Type == "x" && doc.Moved == 50, "the sweep", doc)
		again := testkit.Must(s.MadeBefore(&c.Once, startAt+int64(seq)))(t)
		testkit.Holds(t, again.Batch == made.Batch && again.Group.Client == "a" && again.Group.Type == "x", "the create repeated", again)
		for name, f := range map[string]query.Filter{"all": {}, "of b": {Client: "b"}, "after": {After: made.Batch}, "of the type": {Type: "y", Status: job.Pending}} {
			f.Limit, f.Parts = 10, query.Everything
			docs, next := testkit.Must2(s.List(f))(t)
			testkit.Holds(t, len(docs) == 2 && next.IsZero() && docs[0].Client == "b" && docs[0].UniqueKey == "k", "list", name, docs, next)
		}
		docs, _ := testkit.Must2(s.List(query.Filter{Client: "a", Limit: 10}))(t)
		testkit.Equal(t, len(docs), 0, "list of a")
		batch := testkit.Must(s.Batch(made.Batch))(t)
		testkit.Holds(t, batch.Counts.Total() == 2 && batch.Lines == 52, "the batch", batch)
		totals := s.Totals()
		testkit.Holds(t, totals.Queues == 1 && totals.Counts.Total() == 2, "totals", totals)
		sound(t, s)
	}
	look()
	testkit.NoError(t, s.FlushWait())
	testkit.NoError(t, s.Close())
	s = mustOpen(t, o)
	look()

	// The name is free, and a new queue gets it.
	second := apply(plainCreate("a", "x", 1, 5))
	testkit.MustHold(t, second == nil, second)
	doc := testkit.Must(s.Queue("a", "x"))(t)
	testkit.Holds(t, !doc.Paused && doc.CreatedAt == startAt+int64(seq) && doc.Counts.Total() == 1, "the queue made again", doc)
	testkit.Equal(t, s.machine.Live.AllQueues.ByName[row.QueueName{"a", "x"}].Id, 3, "its number")
	testkit.Equal(t, apply(plainClaim("r", 10)).(*applied.Claimed).Jobs(), 3)
	apply(job.Move{Op: job.Delete, Batch: made.Batch})
	deleteQueue("b", "y", job.Granted)
	testkit.Equal(t, fmt.Sprint(queueNames(t, s)), "[a/x]")
}
