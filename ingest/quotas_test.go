package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// setQuota gives a client a quota.
func setQuota(t *testing.T, e *Engine, client string, q job.Quota) {
	t.Helper()
	_, _, err := e.PutDocument(t.Context(), job.PutDocument{Kind: job.QuotaDocument, Name: client, Summary: q.Summary(), Document: q.Document()})
	testkit.NoError(t, err)
}

// TestQuotas: creates up to the quota of their client are stored, and one job or queue past it is refused before it is
// journaled. What is in flight counts until it is applied.
func TestQuotas(t *testing.T) {
	ctx := t.Context()
	e, stop := start(t, t.TempDir())
	defer stop()
	setQuota(t, e, "a", job.Quota{Unfinished: 5, Queues: 2})
	setQuota(t, e, "b", job.Quota{Unfinished: 1})
	refused := func(c *job.Create, want QuotaExceeded) {
		t.Helper()
		current(t, e)
		_, _, err := e.Create(ctx, c)
		got, ok := errors.AsType[*QuotaExceeded](err)
		testkit.MustHold(t, ok && errors.Is(err, ErrQuotaExceeded), err)
		testkit.Equal(t, *got, want)
		testkit.Equal(t, len(e.making.uses.uses), 0)
	}
	made := func(c *job.Create) {
		t.Helper()
		testkit.Must2(e.Create(ctx, c))(t)
		current(t, e)
		testkit.Equal(t, len(e.making.uses.uses), 0)
	}
	made(queuesOfTypes("a", "x", "y", "x"))
	refused(queuesOfTypes("a", "x", "x", "x"), QuotaExceeded{Client: "a", What: "unfinished jobs", Limit: 5, Use: 3, More: 3})
	refused(queuesOfTypes("a", "z"), QuotaExceeded{Client: "a", What: "queues", Limit: 2, Use: 2, More: 1})
	refused(followedBy(t, queuesOfTypes("a", "x"), "z"), QuotaExceeded{Client: "a", What: "queues", Limit: 2, Use: 2, More: 1})
	both := queuesOfTypes("c", "x", "y")
	both.Groups = append(both.Groups, queuesOfTypes("b", "x", "y").Groups...)
	both.Payloads = append(both.Payloads, both.Payloads...)
	refused(both, QuotaExceeded{Client: "b", What: "unfinished jobs", Limit: 1, Use: 0, More: 2})
	keyedOne := queuesOfTypes("a", "x", "x")
	keyedOne.Once = keyed("k")
	made(keyedOne)
	refused(queuesOfTypes("a", "x"), QuotaExceeded{Client: "a", What: "unfinished jobs", Limit: 5, Use: 5, More: 1})
	again := queuesOfTypes("a", "x", "x")
	again.Once = keyed("k")
	repeat, _, err := e.Create(ctx, again) // an earlier request has carried it out
	testkit.Holds(t, err == nil && repeat.Replayed, err)

	claimed, jobs := mustClaim(t, e, claimOf(5))
	ok := job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}
	then := ok
	then.ID, then.Then = jobs[0].ID, queuesOfTypes("a", "z", "z", "z")
	then.Then.Frame, then.Then.Payloads, then.Then.Longest = job.LenFrame, nil, 1
	for range then.Then.Groups {
		then.Then.Payloads = job.LenFrame.Append(then.Then.Payloads, []byte("x"))
	}
	_, _, err = e.Complete(ctx, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{then}})
	testkit.Check(t, err, "a completion that creates jobs beyond the quota")
	current(t, e)
	testkit.Equal(t, testkit.Must(e.store.ClientUse("a"))(t), job.Quota{Queues: 3, Unfinished: 7, Bytes: 33})
	setQuota(t, e, "a", job.Quota{Queues: 3})
	made(queuesOfTypes("a", "x", "y", "z", "x"))
	_, _, err = e.DeleteDocument(ctx, job.DeleteDocument{Kind: job.QuotaDocument, Name: "a"})
	testkit.NoError(t, err)
	made(queuesOfTypes("a", "w"))
}

// TestQuotasInFlight: creates that are not applied yet count, and no longer when they are applied or given up.
func TestQuotasInFlight(t *testing.T) {
	e, stop := start(t, t.TempDir())
	defer stop()
	setQuota(t, e, "a", job.Quota{Unfinished: 3, Queues: 1})
	current(t, e)
	two := queuesOfTypes("a", "x", "x")
	first := testkit.Must(e.mayMakeQueues(two))(t)
	testkit.Fails(e.mayMakeQueues(two))(t, ErrQuotaExceeded, "may have 3 unfinished jobs, and has 2; the request would add 2")
	second := testkit.Must(e.mayMakeQueues(&job.Create{}))(t)
	testkit.Holds(t, second == nil, "a create without jobs")
	testkit.Fails(e.mayMakeQueues(queuesOfTypes("a", "x")))(t, ErrQuotaExceeded, "may have 1 queues, and has 1") // the queue is not there yet
	first.settled(false)
	testkit.Equal(t, len(e.making.uses.uses), 0)
	third := testkit.Must(e.mayMakeQueues(two))(t)
	third.settled(true)
	third.settled(true)
	testkit.Equal(t, len(e.making.uses.uses), 0)
}

// TestQuotasOfManyCreates: creates at the same time, of which some are being applied, fill a quota and do not exceed it.
func TestQuotasOfManyCreates(t *testing.T) {
	const senders, each, jobs = 8, 25, 10
	e, stop := start(t, t.TempDir())
	defer stop()
	setQuota(t, e, "a", job.Quota{Unfinished: senders * each * jobs / 2})
	current(t, e)
	types := slices.Repeat([]string{"x"}, jobs)
	var made atomic.Int64
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for range each {
				if _, _, err := e.Create(t.Context(), queuesOfTypes("a", types...)); err == nil {
					made.Add(1)
				} else if !errors.Is(err, ErrQuotaExceeded) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	current(t, e)
	use := testkit.Must(e.store.ClientUse("a"))(t)
	testkit.Equal(t, use.Unfinished, made.Load()*jobs)
	for ; use.Unfinished < senders*each*jobs/2; use.Unfinished += jobs { // creates that were refused counted for a moment
		testkit.Must2(e.Create(t.Context(), queuesOfTypes("a", types...)))(t)
	}
	testkit.Equal(t, use.Unfinished, senders*each*jobs/2)
	_, _, err := e.Create(t.Context(), queuesOfTypes("a", "x"))
	testkit.Failed(t, err, ErrQuotaExceeded)
	current(t, e)
	testkit.Equal(t, len(e.making.uses.uses), 0)
}

// asOwner is a context of a key for some clients, the first of which owns what the key leaves.
func asOwner(t *testing.T, clients ...string) context.Context {
	return job.WithKey(t.Context(), &job.Key{Actor: job.Actor{Name: "k", Scope: job.Scope{Clients: clients}}})
}

// TestQuotasOfBytes: the payloads of all jobs that are kept count, also of those that have ended, and of creates in flight.
func TestQuotasOfBytes(t *testing.T) {
	ctx := t.Context()
	e, stop := start(t, t.TempDir())
	defer stop()
	setQuota(t, e, "a", job.Quota{Bytes: 10})
	current(t, e)
	create := func(texts ...string) error {
		c := queuesOfTypes("a", slices.Repeat([]string{"x"}, len(texts))...)
		c.Frame, c.Payloads, c.Longest = job.LenFrame, nil, 0
		for _, text := range texts {
			c.Payloads, c.Longest = job.LenFrame.Append(c.Payloads, []byte(text)), max(c.Longest, len(text))
		}
		_, _, err := e.Create(ctx, c)
		current(t, e)
		return err
	}
	testkit.NoError(t, create("seven77", ""))
	err := create("four")
	testkit.Failed(t, err, ErrQuotaExceeded)
	testkit.Contains(t, err.Error(), "client a may have 10 bytes of payloads, and has 7; the request would add 4")
	testkit.NoError(t, create("tri"))
	claimed, jobs := mustClaim(t, e, claimOf(3))
	done := job.Complete{Claim: claimed.Claim}
	for i := range jobs {
		done.Outcomes = append(done.Outcomes, job.Outcome{ID: jobs[i].ID, Code: job.OK, ExitCode: 200, DelayMs: -1})
	}
	_, _, err = e.Complete(ctx, done)
	testkit.NoError(t, err)
	current(t, e)
	testkit.Failed(t, create("x"), ErrQuotaExceeded)
	_, _, err = e.Move(ctx, job.Move{Op: job.Delete, Job: jobs[0].ID})
	testkit.NoError(t, err)
	current(t, e)
	testkit.NoError(t, create("seven77"))
	testkit.Equal(t, testkit.Must(e.store.ClientUse("a"))(t), job.Quota{Unfinished: 1, Queues: 1, Bytes: 10})
}

// TestQuotasOfOwners: sessions, idempotency keys and sweeps count for the first client of the key that makes them. Completions are
// never refused.
func TestQuotasOfOwners(t *testing.T) {
	e, stop := start(t, t.TempDir())
	defer stop()
	setQuota(t, e, "a", job.Quota{Sessions: 1, IdempotencyKeys: 2, Sweeps: 1})
	a, b := asOwner(t, "a", "b"), asOwner(t, "b")
	refused := func(err error, what string) {
		t.Helper()
		testkit.Failed(t, err, ErrQuotaExceeded)
		testkit.Contains(t, err.Error(), "client a may have "+what)
	}
	session, _ := testkit.Must2(e.OpenSession(a, job.OpenSession{Runner: "r"}))(t)
	_, _, err := e.OpenSession(a, job.OpenSession{Runner: "another"})
	refused(err, "1 sessions, and has 1; the request would add 1")
	testkit.Must2(e.OpenSession(b, job.OpenSession{Runner: "r"}))(t)
	testkit.Must2(e.OpenSession(t.Context(), job.OpenSession{Runner: "r"}))(t)
	testkit.Must(e.EndSession(a, job.EndSession{Session: session.ID}))(t)
	testkit.Must2(e.OpenSession(a, job.OpenSession{}))(t)

	create := func(ctx context.Context, client, key string) error {
		c := queuesOfTypes(client, "x")
		c.Once = keyed(key)
		c.Once.Scope = "create " + client
		_, _, err := e.Create(ctx, c)
		current(t, e)
		return err
	}
	testkit.NoError(t, errors.Join(create(a, "a", "1"), create(a, "b", "2"), create(b, "b", "3"), create(t.Context(), "b", "4")))
	testkit.NoError(t, create(a, "a", "1")) // a repeat
	refused(create(a, "b", "5"), "2 idempotency keys, and has 2; the request would add 1")
	refused(create(t.Context(), "a", "5"), "2 idempotency keys")
	claimed, jobs := mustClaim(t, e, claimOf(1))
	ends := job.Complete{Claim: claimed.Claim, Once: keyed("6"), Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}}}
	_, _, err = e.Complete(a, ends)
	testkit.Check(t, err, "a completion beyond the quota")
	testkit.Equal(t, testkit.Must(e.store.KeysOf("a"))(t).Keys, uint64(3))

	for range 12 { // so many jobs that a sweep takes more than one step
		testkit.Must2(e.Create(t.Context(), queuesOfTypes("a", slices.Repeat([]string{"y", "z"}, 500)...)))(t)
	}
	current(t, e)
	sweep := func() error {
		_, _, err := e.MoveAll(a, job.Move{Op: job.Cancel, Client: "a", Type: "y"})
		return err
	}
	for err = sweep(); err == nil; err = sweep() { // the one before may have ended
		testkit.Must2(e.Create(t.Context(), queuesOfTypes("a", slices.Repeat([]string{"y", "z"}, 500)...)))(t)
		current(t, e)
	}
	refused(err, "1 sweeps in progress, and has 1")
}

// TestHalfOfTheQueues: once two clients have keys, a client makes no more queues than are left for all, and others still may.
func TestHalfOfTheQueues(t *testing.T) {
	e, _ := startWith(t, Options{Dir: t.TempDir(), maxQueues: 10})
	create := func(client string, types ...string) error {
		_, _, err := e.Create(t.Context(), queuesOfTypes(client, types...))
		current(t, e)
		return err
	}
	for i, client := range []string{"a", "b"} {
		testkit.NoError(t, create("a", fmt.Sprint("w", i), fmt.Sprint("x", i), fmt.Sprint("y", i))) // 6 of 10 without keys of others
		key := job.Key{Actor: job.Actor{Name: client, Scope: job.Scope{Clients: []string{client}}}, RunnerPrefix: client + ".", Roles: job.RolesOf(job.RoleProducer), Generation: 1, Sum: job.KeySum{1}}
		_, _, err := e.PutDocument(t.Context(), job.PutDocument{Kind: job.KeyDocument, Name: client, Document: key.Document()})
		testkit.NoError(t, err)
		current(t, e)
	}
	err := create("a", "z")
	full, ok := errors.AsType[*TooManyQueues](err)
	testkit.MustHold(t, ok && full.Client == "a", err)
	testkit.NoError(t, create("a", "w0"))
	testkit.NoError(t, create("b", "x", "y"))
	testkit.Failed(t, create("b", "z"), ErrTooManyQueues)
	testkit.NoError(t, create("c", "x"))
	_, _, err = e.DeleteDocument(t.Context(), job.DeleteDocument{Kind: job.KeyDocument, Name: "b"})
	testkit.NoError(t, err)
	current(t, e)
	testkit.NoError(t, create("a", "z"))
}
