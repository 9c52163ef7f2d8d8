package ingest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
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
	use, known := e.store.ClientUse("a")
	testkit.Holds(t, known && use == document.ClientUse{Queues: 3, Unfinished: 7}, use)
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
	two := queuesOfTypes("a", "x", "x").Groups
	first := testkit.Must(e.mayMakeQueues(two))(t)
	testkit.Fails(e.mayMakeQueues(two))(t, ErrQuotaExceeded, "may have 3 unfinished jobs, and has 2; the request would add 2")
	second := testkit.Must(e.mayMakeQueues(nil))(t)
	testkit.Holds(t, second == nil, "a create without jobs")
	testkit.Fails(e.mayMakeQueues(queuesOfTypes("a", "x").Groups))(t, ErrQuotaExceeded, "may have 1 queues, and has 1") // the queue is not there yet
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
	use, _ := e.store.ClientUse("a")
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
