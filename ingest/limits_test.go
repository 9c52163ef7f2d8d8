package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

// These tests check the limits on resources that clients create: one more is refused, and everything else still works.
// Parked claims are tested in parked_claims_test.go, and sweeps in package store.

// keyed returns a Once with an idempotency key.
func keyed(key string) job.Once { return job.Once{Scope: "test", Key: key, Digest: job.Digest{1}} }

// TestKeysAreBounded: at the limit, a request with a new idempotency key is refused. Requests without a key, requests
// with a session number, and repeats of known keys are served.
func TestKeysAreBounded(t *testing.T) {
	const most = 3
	ctx, dir := t.Context(), t.TempDir()
	e, stop := startWith(t, Options{Dir: dir})
	create := func(once job.Once) (applied.Made, error) {
		c := lines(3)
		c.Once = once
		made, _, err := e.Create(ctx, c)
		return made, err
	}
	claim := func(once job.Once) (applied.Claimed, error) {
		c := claimOf(1)
		c.Once = once
		claimed, _, _, err := e.Claim(ctx, c, 0)
		return claimed, err
	}
	complete := func(claim job.ID, once job.Once) error {
		_, _, err := e.Complete(ctx, job.Complete{Claim: claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Once: once})
		return err
	}
	made := testkit.Must(create(keyed("create")))(t)
	claimed, err := claim(keyed("claim"))
	if err == nil {
		err = complete(claimed.Claim, keyed("complete"))
	}
	testkit.NoError(t, err)
	testkit.MustEqual(t, e.Stats().Keys, most, "keys")
	full := e.Stats().KeyBytes
	stop()
	e, stop = startWith(t, Options{Dir: dir, maxKeyBytes: full})
	number := inSession(t, e)
	past := func() {
		t.Helper()
		held := testkit.Must(claim(job.Once{}))(t)
		testkit.MustEqual(t, held.Jobs(), 1, "a claim without a key:", held)
		testkit.Fails(create(keyed("one more")))(t, ErrTooManyKeys)
		testkit.Fails(claim(keyed("one more claim")))(t, ErrTooManyKeys)
		testkit.Failed(t, complete(held.Claim, keyed("one more completion")), ErrTooManyKeys)
		testkit.Check(t, complete(held.Claim, job.Once{}), "a completion without a key")
		testkit.Must(create(job.Once{}))(t)
		again := testkit.Must(create(keyed("create")))(t)
		testkit.Holds(t, again.Replayed && again.Batch == made.Batch, "a repeat", again)
		repeated := testkit.Must(claim(keyed("claim")))(t)
		testkit.Holds(t, repeated.Replayed && repeated.Claim == claimed.Claim, "a repeated claim", repeated)
		testkit.Check(t, complete(claimed.Claim, keyed("complete")), "a repeated completion")
		testkit.Equal(t, e.Stats().Keys, most, "keys")
	}
	past()
	testkit.Must(create(number(0, 1)))(t)
	held, err := claim(number(1, 1))
	testkit.Holds(t, err == nil && held.Jobs() == 1, "a claim with a number", held, err)
	testkit.Check(t, complete(held.Claim, number(2, 1)), "a completion with a number")
	stop()
	e, _ = startWith(t, Options{Dir: dir, maxKeyBytes: full})
	past()
}

// TestOwnersOfKeysShareTheRoom: no client or runner takes more than half of the key room that the rest leave, over all
// kinds of its requests, and later clients find room.
func TestOwnersOfKeysShareTheRoom(t *testing.T) {
	const most = 20_000
	e, _ := startWith(t, Options{Dir: t.TempDir(), maxKeyBytes: most})
	n := 0
	fill := func(owner string) (bytes uint64) {
		before := e.Stats().KeyBytes
		for i := range 1000 {
			c := lines(1)
			n++
			c.Once = job.Once{Scope: []string{"create ", "other "}[i%2] + owner, Key: fmt.Sprint(n), Digest: job.Digest{1}}
			if _, _, err := e.Create(t.Context(), c); errors.Is(err, ErrTooManyKeys) {
				return e.Stats().KeyBytes - before
			} else if err != nil {
				t.Fatal(err)
			}
		}
		t.Fatal("the keys of one client have no bound")
		return 0
	}
	const row = 400 // more than one key takes
	free := uint64(most)
	for _, owner := range []string{"a", "b", "c", "d"} {
		took := fill(owner)
		testkit.Holds(t, took >= free/2-row && took <= free/2+row, "client", owner, "took", took, "bytes, and", free, "were free")
		free -= took
	}
}

// TestOwnersOfSessionsShareTheRoom: the rows of sessions are bounded in bytes. No runner takes more than half of the room
// that the rest leave, however few sessions it has. A refused request may be repeated, like one that was carried out
// before. When a session ends there is room again.
func TestOwnersOfSessionsShareTheRoom(t *testing.T) {
	const most = 40_000
	ctx := t.Context()
	e, _ := startWith(t, Options{Dir: t.TempDir(), maxSessionBytes: most})
	create := func(session job.ID, slot int) error {
		c := lines(1)
		c.Groups[0].Meta = job.Meta("text=" + strings.Repeat("x", 250))
		c.Once = job.Once{Session: session, Slot: slot, Number: 1}
		_, _, err := e.Create(ctx, c)
		return err
	}
	used := func() uint64 { return current(t, e).Totals().SessionBytes }
	fill := func(runner string) (sessions []job.ID, bytes uint64) {
		before := used()
		for {
			n, _ := testkit.Must2(e.OpenSession(ctx, job.OpenSession{Runner: runner}))(t)
			sessions = append(sessions, n.ID)
			for slot := range 7 {
				if err := create(n.ID, slot); errors.Is(err, ErrTooManySessionBytes) {
					testkit.Failed(t, create(n.ID, slot), ErrTooManySessionBytes)
					testkit.Check(t, create(sessions[0], 0), "a request that was carried out before")
					return sessions, used() - before
				} else if err != nil {
					t.Fatal(err)
				}
				current(t, e)
			}
		}
	}
	const session = 4000 // more than one session takes
	free := uint64(most)
	var first []job.ID
	for _, runner := range []string{"", "b", "c"} {
		sessions, took := fill(runner)
		testkit.Holds(t, took >= free/2-session && took <= free/2+session, "runner", runner, "took", took, "bytes, and", free, "were free")
		if free -= took; runner == "" {
			first = sessions
		}
	}
	claim := claimOf(1)
	claim.Once = job.Once{Session: first[0], Slot: 9, Number: 1}
	_, _, _, err := e.Claim(ctx, claim, 0)
	testkit.Holds(t, errors.Is(err, ErrTooManySessionBytes), "a claim of a runner that has its share", err)
	held, _ := mustClaim(t, e, claimOf(1))
	end := job.Complete{Claim: held.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Once: job.Once{Session: first[0], Slot: 10, Number: 1}}
	testkit.Fails2(e.Complete(ctx, end))(t, ErrTooManySessionBytes)
	next := claimOf(1)
	next.Once = end.Once
	x, err := e.Exchange(ctx, []job.Complete{end}, next)
	if err == nil {
		_, _, err = x.Ended(ctx)
	}
	if err == nil {
		_, _, _, err = x.Claimed(ctx, 0, admitAll)
	}
	testkit.Failed(t, err, ErrTooManySessionBytes)
	for _, id := range first[1:] {
		testkit.Must(e.EndSession(ctx, job.EndSession{Session: id}))(t)
	}
	current(t, e)
	testkit.Must2(e.Complete(ctx, end))(t)
}

// TestQueuesAreBounded: a create that would exceed the limit of queues is refused as a whole. Creates in existing queues
// are served. Deleting a queue makes room for another.
func TestQueuesAreBounded(t *testing.T) {
	const most = 3
	ctx, dir := t.Context(), t.TempDir()
	e, stop := startWith(t, Options{Dir: dir, maxQueues: most, QueueIdle: time.Hour})
	of := func(types ...string) (job.ID, error) {
		c := lines(len(types))
		g := c.Groups[0]
		c.Groups = nil
		for _, typ := range types {
			g.Lines, g.Type = 1, typ
			c.Groups = append(c.Groups, g)
		}
		made, _, err := e.Create(ctx, c)
		return made.Batch, err
	}
	refused := func(wait time.Duration, types ...string) {
		t.Helper()
		testkit.Must2(current(t, e).Queues(&job.Scope{}, "", "", "", 1))(t) // all synced commands are applied
		_, err := of(types...)
		var full *TooManyQueues
		testkit.Holds(t, errors.Is(err, ErrTooManyQueues) && errors.As(err, &full) &&
			full.RetryAfter >= wait-time.Minute && full.RetryAfter <= wait, "a create past the bound", err, full)
		testkit.Equal(t, e.Stats().Queues, most, "queues")
	}
	var last job.ID
	for i := range most {
		id := testkit.Must(of(fmt.Sprint("queue", i)))(t)
		last = id
		testkit.Eventually(t, "the new queue counts once", func() bool { return e.making.queues.Load() == 0 })
	}
	refused(maxQueueWait, "more")
	refused(maxQueueWait, "queue0", "more")
	testkit.Must(of("queue0", "queue1"))(t)
	claimed, jobs := mustClaim(t, e, claimOf(10))
	testkit.MustEqual(t, len(jobs), most+2, "jobs")
	ended, _ := testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}))(t)
	testkit.Equal(t, ended.All, most+2, ended)
	stop()

	e, _ = startWith(t, Options{Dir: dir, maxQueues: most, QueueIdle: 30 * time.Minute})
	refused(maxQueueWait, "more")
	testkit.Must2(e.Move(ctx, job.Move{Op: job.Delete, Job: last}))(t)
	refused(30*time.Minute, "more") // the time until the idle queue is deleted
	deleted, _ := testkit.Must2(e.DeleteQueue(ctx, job.DeleteQueue{Client: "default", Type: fmt.Sprint("queue", most-1)}))(t)
	testkit.MustEqual(t, deleted.Refusal, job.Granted, deleted)
	testkit.Eventually(t, "no queue is about to be made", func() bool { return e.making.queues.Load() == 0 && e.Stats().Queues < most })
	testkit.Must(of("more"))(t)
	refused(maxQueueWait, "another")
}

// TestSessionsAreBounded: one session more than the limit is refused. Open sessions, and requests without a session, are
// served. Ending a session makes room for another.
func TestSessionsAreBounded(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	o := Options{Dir: dir, Store: store.Options{Small: true}} // with limits that are small enough for a test
	e, stop := startWith(t, o)
	number := inSession(t, e)
	var opened atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for {
				_, _, err := e.OpenSession(ctx, job.OpenSession{})
				if errors.Is(err, job.TooManySessions) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				opened.Add(1)
			}
		})
	}
	all.Wait()
	most := uint64(opened.Load()) + 1
	past := func(n uint64) {
		t.Helper()
		testkit.Equal(t, e.Stats().Sessions, most, "sessions are open")
		s, _, err := e.OpenSession(ctx, job.OpenSession{})
		testkit.Holds(t, errors.Is(err, job.TooManySessions) && s.ID.IsZero(), "a session past the bound", s, err)
		c := lines(1)
		c.Once = number(0, n)
		made, _, err := e.Create(ctx, c)
		testkit.Check(t, err, "a create in a session")
		c = lines(1)
		c.Once = number(0, n)
		again, _ := testkit.Must2(e.Create(ctx, c))(t)
		testkit.Holds(t, again.Replayed && again.Batch == made.Batch, "a repeat in a session", again)
		c = lines(1)
		c.Once = keyed(fmt.Sprint(number(0, n).Session, n))
		testkit.Must2(e.Create(ctx, c))(t)
		claim := claimOf(2)
		claim.Once = number(1, n)
		claimed, jobs := mustClaim(t, e, claim)
		testkit.Equal(t, len(jobs), 2, "jobs of a claim in a session")
		end := job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}
		ended, _ := testkit.Must2(e.Complete(ctx, end))(t)
		testkit.Equal(t, ended.All, 2, "a completion without a session:", ended)
	}
	past(1)
	stop()
	e, _ = startWith(t, o)
	past(2)
	testkit.Must(e.EndSession(ctx, job.EndSession{Session: number(0, 0).Session}))(t)
	number = inSession(t, e) // uses the room
	past(1)
	doc := testkit.Must(current(t, e).SessionDocument(number(0, 0).Session))(t)
	testkit.Equal(t, len(doc.Slots), 2, doc)
}

// TestMalformedCommandsAreRefusedBeforeTheJournal: a command that Apply cannot carry out is never journaled. Otherwise
// the engine would stop, and every later start too.
func TestMalformedCommandsAreRefusedBeforeTheJournal(t *testing.T) {
	creates := map[string]func(c *job.Create){
		"fewer payloads than lines":   func(c *job.Create) { c.Frame, c.Payloads, c.Longest = job.LenFrame, []byte("2\nab\n"), 2 },
		"more payloads than lines":    func(c *job.Create) { c.Payloads = append(c.Payloads, "one more\n"...) },
		"another frame":               func(c *job.Create) { c.Frame = job.LenFrame },
		"payloads without a frame":    func(c *job.Create) { c.Frame = job.NoFrame },
		"no last newline":             func(c *job.Create) { c.Payloads = c.Payloads[:len(c.Payloads)-1] },
		"a wrong longest payload":     func(c *job.Create) { c.Longest++ },
		"no group":                    func(c *job.Create) { c.Groups = nil },
		"a group without lines":       func(c *job.Create) { c.Groups = append(c.Groups, job.Group{Client: "a", Type: "b"}) },
		"a client that is no name":    func(c *job.Create) { c.Groups[0].Client = "a b" },
		"a unique key past the lines": func(c *job.Create) { c.Unique = []job.UniqueKey{{Line: 3, Key: "k"}} },
	}
	dir := t.TempDir()
	e, stop := start(t, dir)
	for name, spoil := range creates {
		t.Run(name, func(t *testing.T) {
			c := lines(3)
			spoil(c)
			testkit.Fails2(e.Create(t.Context(), c))(t, ErrMalformed)
		})
	}
	t.Run("a claim of no jobs", func(t *testing.T) {
		testkit.Fails2(e.decide(t.Context(), job.Claim{Runner: "r", MaxBytes: 1}))(t, ErrMalformed)
	})
	t.Run("an unclaimed completion of a claim", func(t *testing.T) {
		id := job.NewID(e.Now(), 1, 0)
		c := job.Complete{Unclaimed: true, Claim: id, Outcomes: []job.Outcome{{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1}}}
		testkit.Fails2(e.Complete(t.Context(), c))(t, ErrMalformed)
	})
	testkit.Must2(e.Create(t.Context(), lines(3)))(t)
	stop()
	e, _ = start(t, dir)
	counts := e.Stats().Jobs
	testkit.Equal(t, counts["pending"], 3, "after a restart:", counts)
}

// TestLargeCompletionsAreBounded: completions with many bytes of outputs wait before they are proposed, so that the log
// has few of them at a time, and small requests overtake them.
func TestLargeCompletionsAreBounded(t *testing.T) {
	ctx := t.Context()
	var held sync.Mutex
	e, _ := startWith(t, Options{Dir: t.TempDir(), Journal: journal.Options{Hooks: journal.Hooks{Sync: func(l *wal.Log) error {
		held.Lock()
		defer held.Unlock()
		return l.Sync()
	}}}})
	const callers = 12
	testkit.Must2(e.Create(ctx, lines(callers+2)))(t)
	large := func() job.Complete {
		done := completeOf(claimOne(t, e))
		_, jobs := testkit.Must2(e.Queries().ClaimDocument(done.Claim, 0))(t)
		testkit.MustEqual(t, len(jobs), 1)
		done.All = nil
		done.Outcomes = []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: []byte(strings.Repeat("x", largeInFlight/4))}}}
		return done
	}
	var commands []job.Complete
	for range callers {
		commands = append(commands, large())
	}
	last, small := large(), completeOf(claimOne(t, e))
	held.Lock()
	var others sync.WaitGroup
	for _, c := range commands {
		others.Go(func() {
			ended, _, err := e.Complete(ctx, c)
			testkit.Holds(t, err == nil && ended.Results[0].Status == job.Completed, ended, err)
		})
	}
	testkit.Eventually(t, "they have taken all of it", func() bool {
		if !e.large.TryAcquire(largeInFlight / 4) {
			return true
		}
		e.large.Release(largeInFlight / 4)
		return false
	})
	time.Sleep(20 * time.Millisecond) // real time: without a bound, the other completions would exceed it now
	n := e.log.Status().InFlightBytes
	testkit.Holds(t, n <= largeInFlight+largeInFlight/4, "the log has", n, "bytes")
	gone, leave := context.WithTimeout(ctx, time.Millisecond)
	defer leave()
	if _, _, err := e.Complete(gone, last); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknown) {
		t.Errorf("a caller that gives up before its completion is proposed: %v", err)
	}
	passed := make(chan error, 1)
	go func() { _, _, err := e.Complete(ctx, small); passed <- err }()
	held.Unlock()
	testkit.Check(t, <-passed)
	others.Wait()
	testkit.Holds(t, e.large.TryAcquire(largeInFlight), "a share was not returned")
}
