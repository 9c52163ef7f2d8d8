package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// queuesOfTypes returns a create with a job of each type, for one client.
func queuesOfTypes(client string, types ...string) *job.Create {
	c := lines(len(types))
	g := c.Groups[0]
	c.Groups = nil
	for _, typ := range types {
		g.Lines, g.Client, g.Type = 1, client, typ
		c.Groups = append(c.Groups, g)
	}
	return c
}

// followedBy makes the jobs of a create name the type of their follow-on job.
func followedBy(t *testing.T, c *job.Create, typ string) *job.Create {
	t.Helper()
	next := c.Groups[0]
	next.Client, next.Type, next.Lines, next.Kind = "", typ, 1, job.Nothing
	text := testkit.Must(job.NewFollowOn(&next, 0))(t)
	for i := range c.Groups {
		c.Groups[i].OnComplete = text
	}
	return c
}

// TestQueuesAreBoundedByMemory: commands that would exceed the memory for queues are refused before they are journaled.
// These are a create, a create whose follow-on job would make the queue, and a completion, whether its outcome makes the
// queue or its job's create named it when there was still room.
func TestQueuesAreBoundedByMemory(t *testing.T) {
	ctx, long := t.Context(), strings.Repeat("n", job.MaxNameBytes)
	one := store.QueueBytes(long, long, 0)
	dir := t.TempDir()
	e, stop := startWith(t, Options{Dir: dir, QueueMemory: 4 * one})
	of := func(types ...string) *job.Create { return queuesOfTypes(long, types...) }
	typ := func(i int) string { return fmt.Sprint(i) + long[1:] }
	made := func(c *job.Create) {
		t.Helper()
		testkit.Must2(e.Create(ctx, c))(t)
		current(t, e)
	}
	refused := func(what string, do func() error) {
		t.Helper()
		current(t, e)
		journaled := true
		for tries := 0; journaled && tries < 10; tries++ { // a command of the engine, such as a tick, may come in between
			before := e.log.Status().Appended
			err := do()
			var full *TooManyQueues
			testkit.MustHold(t, errors.Is(err, ErrTooManyQueues) && errors.As(err, &full) && full.Memory == 4*one &&
				strings.Contains(err.Error(), "memory"), what, "past the memory for queues", err)
			journaled = e.log.Status().Appended != before
		}
		testkit.Holds(t, !journaled, what, "was refused, and is in the journal")
	}
	create := func(c *job.Create) func() error { return func() error { _, _, err := e.Create(ctx, c); return err } }
	refused("a create", create(of(typ(0), typ(1), typ(2), typ(3), typ(4))))
	made(followedBy(t, of(typ(0)), typ(1))) // there is room for the follow-on job at this time
	made(followedBy(t, of(typ(2)), typ(0)))
	claimed, jobs := mustClaim(t, e, claimOf(2))
	testkit.MustEqual(t, len(jobs), 2, claimed)
	made(of(typ(3), typ(4)))
	refused("a create", create(of(typ(5))))
	refused("a keyed create", create(func() *job.Create { c := of(typ(5)); c.Once = keyed("k"); return c }()))
	refused("a create with a job that follows", create(followedBy(t, of(typ(0)), typ(5))))
	ok := job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}
	complete := func(c job.Complete) func() error { return func() error { _, _, err := e.Complete(ctx, c); return err } }
	refused("the completion of a claim", complete(job.Complete{Claim: claimed.Claim, All: &ok}))
	first, then := ok, ok
	for _, j := range jobs {
		if j.Type == typ(0) {
			first.ID = j.ID
		} else {
			then.ID = j.ID
		}
	}
	refused("a completion", complete(job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{first}}))
	then.Then = of(typ(5))
	refused("a completion that creates a job", complete(job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{then}}))
	then.Then = nil
	testkit.Check(t, complete(job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{then}})(), "the queue of the next job exists")
	failed := first
	failed.Code, failed.ExitCode = job.Fail, 400
	testkit.Check(t, complete(job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{failed}})(), "a completion without a next job")
	testkit.Check(t, create(of(typ(0), typ(2), typ(0)))(), "a create in queues that exist")
	if m := &e.making; m.queues.Load() != 0 || m.bytes.Load() != 0 || m.ends.Load() != 0 {
		t.Errorf("%d queues, %d bytes and %d ends still count as made", m.queues.Load(), m.bytes.Load(), m.ends.Load())
	}
	stop()

	// A start accepts half as much queue memory again as creates may use, and refuses more.
	e, stop = startWith(t, Options{Dir: dir, QueueMemory: 3 * one})
	testkit.Failed(t, create(of(typ(5)))(), ErrTooManyQueues)
	testkit.Check(t, create(of(typ(0)))(), "a create in a queue that exists")
	stop()
	_, err := Open(Options{Dir: dir, QueueMemory: 2 * one})
	var tooMany *store.QueuesError
	testkit.Holds(t, errors.As(err, &tooMany) && tooMany.Use.Queues == 4 &&
		strings.Contains(err.Error(), "1.4 times"), "a start with half of the memory", err)
	_, stop = startWith(t, Options{Dir: dir})
	stop()
}

// TestPrioritiesAreBoundedByMemory: commands that would exceed the memory for queues with a new priority are refused
// before they are journaled: a create, a completion and a patch, whether the job would be pending now, later, or after
// another job. Priorities count as long as the queue has jobs.
func TestPrioritiesAreBoundedByMemory(t *testing.T) {
	ctx := t.Context()
	one := store.QueueBytes("a", "x", 0)
	e, _ := startWith(t, Options{Dir: t.TempDir(), QueueMemory: one + 2*(store.QueueBytes("a", "x", 3)-one)})
	of := func(priorities ...int) *job.Create {
		c := queuesOfTypes("a", make([]string, len(priorities))...)
		for i, priority := range priorities {
			c.Groups[i].Type, c.Groups[i].Priority = "x", priority
		}
		return c
	}
	create := func(c *job.Create) (job.ID, error) {
		made, _, err := e.Create(ctx, c)
		current(t, e)
		return made.Batch, err
	}
	made := func(c *job.Create) job.ID { t.Helper(); return testkit.Must(create(c))(t) }
	refused := func(what string, err error) {
		t.Helper()
		var full *TooManyQueues
		testkit.Holds(t, errors.As(err, &full) && full.Memory != 0, what, "past the memory for queues", err)
	}
	_, err := create(of(0, 1, 2, 3))
	refused("a create of four priorities", err)
	later := of(1)
	later.Groups[0].RunAt = e.Now() + 3_600_000
	first := made(later)
	made(followedBy(t, of(2), "x")) // the follow-on job has priority 2
	made(of(3, 1, 2))
	_, err = create(of(4))
	refused("a create of another priority", err)
	following := of(5).Groups[0]
	following.Client, following.Kind = "", job.Nothing
	text := testkit.Must(job.NewFollowOn(&following, 0))(t)
	next := of(2)
	next.Groups[0].OnComplete = text
	_, err = create(next)
	refused("a create with a job of another priority that follows", err)
	patch := func(id job.ID, priority int) error {
		moved, _, err := e.Patch(ctx, job.Patch{Job: id, Priority: &priority})
		current(t, e)
		if err == nil && moved.Refusal != job.Granted {
			return moved.Refusal
		}
		return err
	}
	refused("a patch", patch(first, 6))
	testkit.Check(t, patch(first, 3), "a patch with a priority that the queue has")
	testkit.Failed(t, patch(job.NewID(e.Now(), 1000, 0), 6), job.NotFound)
	claimed, jobs := mustClaim(t, e, claimOf(1))
	testkit.MustEqual(t, len(jobs), 1, claimed)
	framed := func(priority int) *job.Create {
		c := of(priority)
		c.Frame, c.Longest, c.Payloads = job.LenFrame, 1, job.LenFrame.Append(nil, []byte("x"))
		return c
	}
	then := job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1, ID: jobs[0].ID, Then: framed(6)}
	_, _, err = e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{then}})
	refused("a completion that creates a job", err)
	then.Then = framed(3)
	testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{then}}))(t)
	if m := &e.making; m.queues.Load() != 0 || m.bytes.Load() != 0 || m.ends.Load() != 0 {
		t.Errorf("%d queues, %d bytes and %d ends still count as made", m.queues.Load(), m.bytes.Load(), m.ends.Load())
	}
	testkit.Must2(e.MoveAll(ctx, job.Move{Op: job.Delete, Client: "a", Type: "x"}))(t)
	current(t, e)
	testkit.Must(create(of(7, 8, 9)))(t)
}

// TestQueuesOfOthersCount: queues that unapplied commands will make count, so that many commands at a time do not exceed
// the limit together.
func TestQueuesOfOthersCount(t *testing.T) {
	e, _ := startWith(t, Options{Dir: t.TempDir(), QueueMemory: 3*store.QueueBytes("a", "x", 0) + 10})
	make2, make1, make3 := queuesOfTypes("a", "x", "y"), queuesOfTypes("a", "x"), queuesOfTypes("a", "x", "y", "z")
	first := testkit.Must(e.mayMakeQueues(make2))(t)
	testkit.Fails(e.mayMakeQueues(make2))(t, ErrTooManyQueues)
	second, err := e.mayMakeQueues(make1)
	testkit.Check(t, err, "what fits beside another")
	for range 2 { // the log and the caller may both report that a command has failed
		first.settled(false)
		second.settled(true)
	}
	testkit.Must(e.mayMakeQueues(make3))(t)
}

// TestIdleQueuesGo: a journaled command deletes a queue that has been without jobs for Options.QueueIdle, and the queue
// stays deleted after a restart. A queue that is paused or has jobs stays. Without the option every queue stays.
func TestIdleQueuesGo(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e, stop := startWith(t, Options{Dir: dir, QueueIdle: time.Hour})
		of := func(typ string, retention int64) job.ID {
			c := lines(1)
			c.Groups[0].Type, c.Groups[0].RetentionMs = typ, retention
			made, _ := testkit.Must2(e.Create(ctx, c))(t)
			return made.Batch
		}
		there := func(want bool, types ...string) {
			t.Helper()
			for _, typ := range types {
				_, err := current(t, e).Queue("default", typ)
				testkit.Holds(t, (err == nil) == want && (err == nil || errors.Is(err, job.QueueNotFound)), "queue", typ, err)
			}
		}
		of("busy", 0)
		for _, typ := range []string{"idle", "paused"} {
			testkit.Must2(e.Move(ctx, job.Move{Op: job.Cancel, Job: of(typ, 0)}))(t)
		}
		testkit.Must2(e.Pause(ctx, job.Pause{Client: "default", Type: "paused", Paused: true}))(t)
		time.Sleep(time.Hour - 10*time.Second)
		there(true, "busy", "idle", "paused")
		wait, ok := e.untilIdle()
		testkit.Holds(t, ok && wait <= 11*time.Second, "the first idle queue goes in", wait, ok)
		time.Sleep(20 * time.Second)
		there(true, "busy", "paused")
		there(false, "idle")
		stop()

		e, stop = startWith(t, Options{Dir: dir})
		there(true, "busy", "paused")
		there(false, "idle")
		testkit.Must2(e.Pause(ctx, job.Pause{Client: "default", Type: "paused"}))(t)
		time.Sleep(2 * time.Hour)
		there(true, "busy", "paused")
		deleted, _ := testkit.Must2(e.DeleteQueue(ctx, job.DeleteQueue{Client: "default", Type: "paused"}))(t)
		testkit.Equal(t, deleted.Refusal, job.Granted, deleted)
		there(false, "paused")
		stop()
	})
}

// figuresOf returns the figures of the queue default/default.
func figuresOf(t *testing.T, e *Engine) store.QueueFigures {
	t.Helper()
	all := e.QueueFigures()
	testkit.MustHold(t, len(all) == 2 && e.QueueRows() == 2 && all[0].Client == "default", "figures of", len(all), "queues", e.QueueRows(), "rows")
	return all[0]
}

// TestQueueFiguresBeginWithTheStart: commands that a start applies are not counted, whether they are in the store or in
// the log. The existing jobs show immediately, without a command.
func TestQueueFiguresBeginWithTheStart(t *testing.T) {
	ctx := t.Context()
	log, dir := newMemoryLog(), t.TempDir()
	begin := func(dir string, l *memoryLog) (*Engine, func()) {
		l.lead(1)
		e := testkit.Must(Open(Options{Dir: dir, MetricsQueues: 10, OpenLog: func(LogOptions) (Log, error) { return l, nil }}))(t)
		return e, serve(t, e)
	}
	e, end := begin(dir, log)
	testkit.Must2(e.Create(ctx, lines(10)))(t)
	claimed, _ := mustClaim(t, e, claimOf(4))
	testkit.Must2(e.Complete(ctx, completeOf(claimed.Claim)))(t)
	if f := figuresOf(t, e); f.Created != 10 || f.Claimed != 4 || f.Completed != 4 || f.Waiting.Count() != 4 || f.Running.Count() != 4 || f.Pending != 6 || f.PendingSince == 0 {
		t.Errorf("%+v", f)
	}
	end()

	for name, at := range map[string]string{"the store has it": dir, "the log has it": t.TempDir()} {
		again := newMemoryLog()
		again.records = slices.Clone(log.records)
		e, end := begin(at, again)
		f := figuresOf(t, e)
		testkit.Holds(t, f.Pending == 6 && f.PendingSince != 0, name, f)
		mustClaim(t, e, claimOf(1))
		f = figuresOf(t, e)
		testkit.Holds(t, f.Created == 0 && f.Claimed == 1 && f.Completed == 0 && f.Pending == 5 && f.Active == 1, name, f)
		end()
	}
}

// TestQueueFiguresBesideCommands reads figures while commands are applied. They always add up.
func TestQueueFiguresBesideCommands(t *testing.T) {
	e, _ := startWith(t, Options{Dir: t.TempDir(), MetricsQueues: 3})
	ctx, turns := t.Context(), make(chan struct{}, 1)
	var readers sync.WaitGroup
	readers.Go(func() {
		last := uint64(0)
		for range turns {
			claimed := uint64(0)
			for _, f := range e.QueueFigures() {
				testkit.Holds(t, f.Waiting.Count() == f.Claimed && f.Running.Count() == f.Completed && f.Pending >= 0 && f.Active >= 0, f)
				claimed += f.Claimed
			}
			testkit.Holds(t, claimed >= last, claimed, "jobs claimed, after", last)
			last = claimed
		}
	})
	const rounds = 200
	for i := range rounds {
		select {
		case turns <- struct{}{}: // the reader runs while these commands are applied
		default:
		}
		c := lines(5)
		c.Groups[0].Type = []string{"a", "b", "c", "d", "e"}[i%5]
		testkit.Must2(e.Create(ctx, c))(t)
		claimed, _ := mustClaim(t, e, claimOf(5))
		testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}))(t)
	}
	close(turns)
	readers.Wait()
	all := e.QueueFigures()
	sum := uint64(0)
	for _, f := range all {
		sum += f.Completed
	}
	testkit.Holds(t, len(all) == 4 && sum == 5*rounds && all[3].Completed == 2*rounds, len(all), "queues", sum, "jobs completed", all)
}
