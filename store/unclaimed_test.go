package store

import (
	"fmt"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// unclaimed is a completion of jobs that a claim need not hold.
func unclaimed(outcomes ...job.Outcome) job.Complete {
	return job.Complete{Unclaimed: true, Outcomes: outcomes}
}

func outcomeOf(id job.ID, code job.Code) job.Outcome {
	return job.Outcome{ID: id, Code: code, ExitCode: code.DefaultExitCode()}
}

// completing is a store in which a test ends jobs.
type completing struct {
	*testing.T
	s   *Store
	seq uint64
	at  int64
}

func newCompleting(t *testing.T) *completing {
	c := &completing{T: t, s: mustOpen(t, Options{})}
	c.Apply(job.SetLevel{Level: job.Level})
	return c
}

func (c *completing) Apply(cmd job.Command) applied.Result {
	c.Helper()
	c.seq++
	return mustApply(c.T, c.s, c.seq, c.at, cmd)
}

// Create creates n jobs, and returns the id of the first.
func (c *completing) Create(n int, change func(c *job.Create)) job.ID {
	c.Helper()
	cmd := plainCreate("a", "x", n, 3)
	if change != nil {
		change(cmd)
	}
	c.Apply(cmd)
	return job.NewID(startAt+c.at, c.seq, 0)
}

// End gives one outcome, and returns its result.
func (c *completing) End(o job.Outcome) applied.JobResult {
	c.Helper()
	ended := c.Apply(unclaimed(o)).(*applied.Ended)
	testkit.MustHold(c, len(ended.Results) == 1 && ended.Results[0].ID == o.ID && ended.All == 0 &&
		ended.Refusal == job.Granted && ended.Denied == job.Granted, ended)
	return ended.Results[0]
}

func (c *completing) is(id job.ID, status job.Status, attempts int) job.Job {
	c.Helper()
	mustCommit(c.T, c.s)
	doc, err := c.s.Job(id)
	testkit.MustHold(c, err == nil && doc.Status == status && doc.RunAttempts == attempts,
		id, "is", doc.Status, "after", doc.RunAttempts, "attempts", err, "not", status, "after", attempts)
	return doc
}

// refused gives an outcome, and expects that it is refused and changes nothing.
func (c *completing) refused(o job.Outcome, refusal job.Refusal) {
	c.Helper()
	all := func() string {
		mustCommit(c.T, c.s)
		_, rows := testkit.Must2(c.s.Digest())(c)
		doc, err := c.s.Job(o.ID)
		return fmt.Sprintf("%v, %+v, %v", rows, doc, err)
	}
	before := all()
	testkit.Equal(c, c.End(o).Refusal, refusal, o.Code, "of", o.ID)
	testkit.Equal(c, all(), before, "a refused outcome changes")
}

func TestUnclaimed(t *testing.T) {
	t.Run("a pending job completes", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(3, nil).WithLine(1)
		o := outcomeOf(id, job.OK)
		o.OutputKind, o.Output = job.Text, []byte("out")
		r := c.End(o)
		testkit.MustHold(t, r.Refusal == job.Granted && r.Status == job.Completed, r)
		doc := c.is(id, job.Completed, 1)
		claim := job.NewID(startAt, c.seq, 0)
		testkit.Holds(t, doc.Claim == claim && doc.Runner == "" && string(doc.Output) == "out" &&
			doc.Why == job.Reported && doc.CompletedAt == startAt, doc)
		of, jobs, err := c.s.ClaimDocument(claim, query.Everything)
		testkit.Holds(t, err == nil && of.HandedOut == 1 && of.Held == 0 && of.Runner == "" && of.LeaseMs == job.DefaultLeaseMs && len(jobs) == 0,
			"its claim is", of, "with", jobs, err)
		runners, _ := testkit.Must2(c.s.Runners("", 10))(t)
		testkit.Equal(t, len(runners), 0, "runners")
		list := testkit.Must(c.s.Batch(id.WithLine(0)))(t)
		testkit.Holds(t, list.Counts[job.Completed] == 1 && list.Counts[job.Pending] == 2, "its batch", list)
		c.refused(o, job.NotActive)
	})
	t.Run("a failure uses an attempt, and the last one fails the job", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(1, func(c *job.Create) { c.Groups[0].MaxAttempts = 3 })
		for attempt := 1; attempt <= 3; attempt++ {
			c.at++
			o := outcomeOf(id, job.Error)
			o.Error = "no luck"
			want := job.Pending
			if attempt == 3 {
				want = job.Failed
			}
			r := c.End(o)
			testkit.MustHold(t, r.Refusal == job.Granted && r.Status == want, "attempt", attempt, r)
			doc := c.is(id, want, attempt)
			testkit.Holds(t, len(doc.Attempts) == attempt && doc.Attempts[attempt-1].Error == "no luck" &&
				doc.Attempts[attempt-1].Runner == "" && doc.Error == "no luck", "attempt", attempt, doc.Attempts)
		}
	})
	t.Run("a delay defers the job, and the next outcome may come before its end", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(1, nil)
		o := outcomeOf(id, job.Retry)
		o.DelayMs = 5000
		r := c.End(o)
		testkit.MustHold(t, r.Refusal == job.Granted && r.Status == job.Deferred, r)
		testkit.Equal(t, c.is(id, job.Deferred, 1).RunAt, startAt+5000, "it runs")
		testkit.Equal(t, c.End(outcomeOf(id, job.OK)).Status, job.Completed)
		c.is(id, job.Completed, 2)
	})
	t.Run("a job that waits for its run_at completes", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(1, func(c *job.Create) { c.Groups[0].RunAt = startAt + 9000 })
		testkit.Equal(t, c.End(outcomeOf(id, job.OK)).Status, job.Completed)
	})
	t.Run("an active job ends under the claim that holds it", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(2, nil)
		claimed := c.Apply(plainClaim("r", 1)).(*applied.Claimed)
		r := c.Apply(unclaimed(outcomeOf(id, job.OK), outcomeOf(id.WithLine(1), job.OK))).(*applied.Ended).Results
		testkit.MustHold(t, r[0].Status == job.Completed && r[1].Status == job.Completed, r)
		doc := c.is(id, job.Completed, 1)
		testkit.Holds(t, doc.Claim == claimed.Claim && doc.Runner == "r", doc)
		doc = c.is(id.WithLine(1), job.Completed, 1)
		testkit.Holds(t, doc.Claim != claimed.Claim && doc.Runner == "", doc)
		late := c.Apply(job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{outcomeOf(id, job.Fail)}}).(*applied.Ended)
		testkit.Equal(t, late.Results[0].Refusal, job.OutcomeDiffers, "its runner")
	})
	t.Run("without the field, a waiting job is refused", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(1, nil)
		testkit.Equal(t, c.Apply(job.Complete{Outcomes: []job.Outcome{outcomeOf(id, job.OK)}}).(*applied.Ended).Results[0].Refusal, job.NotActive)
		c.is(id, job.Pending, 0)
	})
	t.Run("a job has one outcome in a command that leaves it waiting", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(2, nil)
		c.Apply(plainClaim("r", 1)) // holds the first job
		for line := range 2 {
			of := id.WithLine(line)
			r := c.Apply(unclaimed(outcomeOf(of, job.Error), outcomeOf(of, job.OK))).(*applied.Ended).Results
			testkit.Holds(t, r[0].Status == job.Pending && r[0].Refusal == job.Granted && r[1].Refusal == job.NotActive, "line", line, r)
			testkit.Equal(t, len(c.is(of, job.Pending, 1).Attempts), 1, "line", line)
		}
	})
	t.Run("jobs that are not there, have ended or are held back are refused", func(t *testing.T) {
		c := newCompleting(t)
		ended, cancelled, deleted := c.Create(1, nil), c.Create(1, nil), c.Create(1, nil)
		c.End(outcomeOf(ended, job.Fail))
		c.Apply(job.Move{Op: job.Cancel, Job: cancelled})
		c.Apply(job.Move{Op: job.Delete, Job: deleted})
		paused := c.Create(1, func(c *job.Create) { c.Submission = &job.Submission{Paused: true} })
		expired := c.Create(1, func(c *job.Create) { c.Groups[0].ExpiresAt = startAt + 10 })
		c.at += 10
		for _, code := range []job.Code{job.OK, job.Error} {
			c.refused(outcomeOf(ended, code), job.NotActive)
			c.refused(outcomeOf(cancelled, code), job.WasCancelled)
			c.refused(outcomeOf(deleted, code), job.NotFound)
			c.refused(outcomeOf(job.NewID(startAt, 9, 4), code), job.NotFound)
			c.refused(outcomeOf(paused, code), job.NotActive)
			c.refused(outcomeOf(expired, code), job.WasCancelled)
		}
		c.is(paused, job.Deferred, 0)
		c.Apply(job.ChangeBatch{Op: job.ResumeBatch, Batch: paused})
		testkit.Equal(t, c.End(outcomeOf(paused, job.OK)).Status, job.Completed, "after the resume")
	})
	t.Run("a job that is not kept is gone at once", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(1, func(c *job.Create) { c.Groups[0].RetentionMs = 0 })
		testkit.Equal(t, c.End(outcomeOf(id, job.OK)).Status, job.Completed)
		mustCommit(t, c.s)
		testkit.Fails(c.s.Job(id))(t, job.NotFound)
		testkit.Fails2(c.s.ClaimDocument(job.NewID(startAt, c.seq, 0), query.Everything))(t, job.ClaimNotFound)
	})
}

// TestUnclaimedInSubmissions: submissions count unclaimed ends like ends of claimed runs. Once the submission has
// ended, its jobs are refused.
func TestUnclaimedInSubmissions(t *testing.T) {
	batchIs := func(c *completing, id job.ID, status job.BatchStatus, counts job.Counts) document.Batch {
		c.Helper()
		mustCommit(c.T, c.s)
		doc, err := c.s.Batch(id)
		testkit.MustHold(c, err == nil && doc.Status == status && doc.Counts == counts, "batch", id, doc.Status, doc.Counts, err, status, counts)
		return doc
	}
	t.Run("the last completion completes the batch", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(2, func(c *job.Create) { c.Submission = &job.Submission{} })
		c.End(outcomeOf(id, job.OK))
		batchIs(c, id, job.BatchInProgress, job.Counts{job.Completed: 1, job.Pending: 1})
		c.at += 5
		c.End(outcomeOf(id.WithLine(1), job.OK))
		testkit.Equal(t, batchIs(c, id, job.BatchCompleted, job.Counts{job.Completed: 2}).EndedAt, startAt+5)
	})
	t.Run("cancel_rest", func(t *testing.T) {
		c := newCompleting(t)
		const lines = 1000 // more than one command cancels
		id := c.Create(lines, func(c *job.Create) { c.Submission = &job.Submission{OnFailure: job.CancelRest} })
		priority := 9
		for line := 0; line < lines; line += 2 { // each line is a separate span, so that jobs are left to cancel
			c.Apply(job.Patch{Job: id.WithLine(line), Priority: &priority})
		}
		r := c.Apply(unclaimed(outcomeOf(id.WithLine(1), job.Error), outcomeOf(id.WithLine(2), job.Fail))).(*applied.Ended).Results
		testkit.MustEqual(t, r[0].Status, job.Pending, r)
		testkit.MustEqual(t, r[1].Status, job.Failed, r)
		mustCommit(t, c.s)
		doc, err := c.s.Batch(id)
		testkit.MustHold(t, err == nil && doc.Status == job.BatchFailed && doc.Failed == id.WithLine(2) && doc.Counts[job.Pending] != 0 &&
			doc.Counts[job.Failed] == 1, doc, err)
		left := id.WithLine(lines - 1)
		c.is(left, job.Pending, 0)
		c.refused(outcomeOf(left, job.OK), job.WasCancelled)
		c.refused(outcomeOf(left, job.Error), job.WasCancelled)
		for n := 0; c.s.NextDue() != 0 && c.s.NextDue() <= startAt+c.at; n++ {
			testkit.MustHold(t, n != 100, "the cancellation does not end")
			c.Apply(job.Tick{})
			mustCommit(t, c.s)
		}
		batchIs(c, id, job.BatchFailed, job.Counts{job.Failed: 1, job.Cancelled: lines - 1})
	})
	t.Run("deleted", func(t *testing.T) {
		c := newCompleting(t)
		const lines = 1000
		id := c.Create(lines, func(c *job.Create) { c.Submission = &job.Submission{} })
		priority := 9
		for line := 0; line < lines; line += 2 {
			c.Apply(job.Patch{Job: id.WithLine(line), Priority: &priority})
		}
		c.Apply(job.Move{Op: job.Delete, Batch: id})
		left := id.WithLine(lines - 1)
		c.is(left, job.Pending, 0)
		c.refused(outcomeOf(left, job.OK), job.NotFound)
	})
	t.Run("a line after a purged one", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(2, func(c *job.Create) { c.Submission, c.Groups[0].RetentionMs = &job.Submission{}, 0 })
		c.End(outcomeOf(id, job.OK))
		testkit.Equal(t, batchIs(c, id, job.BatchInProgress, job.Counts{job.Pending: 1, job.Purged: 1}).Ended, 1)
	})
}

// TestUnclaimedKeepsOrderAndUniqueKeys: a job that waits again keeps its unique key and precedes fresh jobs.
func TestUnclaimedKeepsOrderAndUniqueKeys(t *testing.T) {
	c := newCompleting(t)
	keyed := func(c *job.Create) { c.Unique = []job.UniqueKey{{Line: 0, Key: "k"}} }
	c.Create(1, nil)
	id := c.Create(1, keyed)
	c.End(outcomeOf(id, job.Error))
	again := plainCreate("a", "x", 1, 3)
	keyed(again)
	made := c.Apply(again).(*applied.Made)
	testkit.Holds(t, len(made.Existing) == 1 && made.Existing[0].Job == id, "a job with the same key", made)
	claimed := c.Apply(plainClaim("r", 1)).(*applied.Claimed)
	testkit.MustEqual(t, len(claimed.Runs), 1, "a claim gets first")
	testkit.Equal(t, claimed.Runs[0].Batch, uint64(id.LowSeq()), "a claim gets", claimed.Runs, "first")
	c.is(id, job.Active, 2)
	c.End(outcomeOf(id, job.OK))
	testkit.Equal(t, len(c.Apply(again).(*applied.Made).Existing), 0, "after its end")
}

// chainRig applies commands, and reads the jobs of a queue.
type chainRig struct {
	*testing.T
	s   *Store
	seq uint64
}

func newChainRig(t *testing.T) *chainRig {
	return &chainRig{T: t, s: mustOpen(t, Options{Journal: testJournal})}
}

func (r *chainRig) Apply(cmd job.Command) applied.Result {
	r.Helper()
	r.seq++
	result := mustApply(r.T, r.s, r.seq, int64(r.seq), cmd)
	mustCommit(r.T, r.s)
	return result
}

// Jobs returns the jobs that claims of a type hand out.
func (r *chainRig) Jobs(typ string) (docs []job.Job) {
	r.Helper()
	c := plainClaim("r", job.MaxClaimJobs)
	c.Types = []string{typ}
	for {
		claimed := testkit.Must(documents(r.s.HandedOut(r.Apply(c).(*applied.Claimed))))(r)
		if len(claimed) == 0 {
			return docs
		}
		docs = append(docs, claimed...)
	}
}

func followOnOf(t *testing.T, g job.Group, delayMs int64) job.FollowOn {
	t.Helper()
	g.Kind, g.Lines = job.Nothing, 0
	return testkit.Must(job.NewFollowOn(&g, delayMs))(t)
}

func ok(id job.ID) job.Outcome { return job.Outcome{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1} }

// oneChained is a job that an outcome creates.
func oneChained(client, typ, payload string) *job.Create {
	g := plainGroup(client, typ, 1)
	return &job.Create{Groups: []job.Group{g}, Frame: job.LenFrame, Longest: len(payload), Payloads: job.LenFrame.Append(nil, []byte(payload))}
}

// TestFollowOns: the output of each completed job is the payload of the next job, which inherits the attributes that
// its create did not set. A failed job has no next job.
func TestFollowOns(t *testing.T) {
	r := newChainRig(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	last := plainGroup("", "last", 0)
	next := plainGroup("", "next", 0)
	next.OnComplete = followOnOf(t, last, 0)
	next.Client = ""
	c := plainCreate("a", "first", 3, 1)
	c.Groups[0].Meta, c.Groups[0].Traceparent, c.Groups[0].OnComplete = "k=v", trace, followOnOf(t, next, 0)
	r.Apply(c)
	first := r.Jobs("first")
	text, address, failed := ok(first[0].ID), ok(first[1].ID), ok(first[2].ID)
	text.OutputKind, text.Output = job.JSON, []byte(`{"a":1}`)
	address.OutputAddr = "s3://out"
	failed.Code, failed.ExitCode = job.Fail, 400
	r.Apply(job.Complete{Claim: first[0].Claim, Outcomes: []job.Outcome{text, address, failed}})
	got := r.Jobs("next")
	var seen []string
	for _, j := range got {
		seen = append(seen, fmt.Sprintf("%s %s %q %s %s %d %v", j.Client, j.Kind, j.Payload, j.Meta, j.Traceparent, j.Hops, j.Batch.IsZero()))
	}
	want := []string{`a json "{\"a\":1}" k=v ` + trace + ` 1 true`, `a text "s3://out" k=v ` + trace + ` 1 true`}
	testkit.EqualSlices(t, seen, want, "the next jobs")
	if len(got) == 0 {
		return
	}
	r.Apply(job.Complete{Claim: got[0].Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1, Result: job.Result{OutputKind: job.Text, Output: []byte("x")}}})
	got = r.Jobs("last")
	testkit.Holds(t, len(got) == 2 && string(got[1].Payload) == "x" && got[1].Hops == 2 && got[1].OnComplete == "", "the last jobs are", got)
}

// TestRepeatedOutcomesCreateNothing: an outcome that is repeated, or refused, creates no jobs.
func TestRepeatedOutcomesCreateNothing(t *testing.T) {
	r := newChainRig(t)
	r.Apply(plainCreate("a", "x", 1, 1))
	held := r.Jobs("x")[0]
	o := ok(held.ID)
	o.Then = oneChained("", "y", "payload")
	strange := job.Complete{Claim: job.NewID(1, 1<<20, 0), Outcomes: []job.Outcome{o}}
	cmd := job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{o, o}}
	for _, cmd := range []job.Complete{strange, cmd, cmd, strange} {
		r.Apply(cmd)
	}
	got := r.Jobs("y")
	testkit.Holds(t, len(got) == 1 && string(got[0].Payload) == "payload" && got[0].Client == "a", "the outcome has created", got)
}

// TestHops: a chain in which each job creates the next ends after MaxHops. Follow-on jobs of a created job count too.
func TestHops(t *testing.T) {
	r := newChainRig(t)
	r.Apply(plainCreate("a", "x", 1, 1))
	end := func(then *job.Create) job.Refusal {
		held := r.Jobs("x")
		testkit.MustEqual(t, len(held), 1)
		o := ok(held[0].ID)
		o.Then = then
		refusal := r.Apply(job.Complete{Claim: held[0].Claim, Outcomes: []job.Outcome{o}}).(*applied.Ended).Results[0].Refusal
		if refusal != job.Granted {
			o.Code, o.ExitCode, o.Then = job.Unget, 0, nil
			r.Apply(job.Complete{Claim: held[0].Claim, Outcomes: []job.Outcome{o}})
		}
		return refusal
	}
	for hop := range job.MaxHops - 1 {
		testkit.MustEqual(t, end(oneChained("", "x", "p")), job.Granted, "hop", hop)
	}
	followed := oneChained("", "x", "p")
	followed.Groups[0].OnComplete = followOnOf(t, plainGroup("", "x", 0), 0)
	testkit.Equal(t, end(followed), job.TooManyHops, "a job with a next one beyond the last hop")
	testkit.Equal(t, end(oneChained("", "x", "p")), job.Granted, "the last hop")
	testkit.Equal(t, end(oneChained("", "x", "p")), job.TooManyHops, "one hop too many")
	testkit.Equal(t, end(nil), job.Granted, "the end of the chain")
}

// TestChainAtTheLimits: a command creates as many jobs as it may, with unique keys, from jobs that are not kept.
func TestChainAtTheLimits(t *testing.T) {
	r := newChainRig(t)
	c := plainCreate("a", "x", 1000, 1)
	c.Groups[0].RetentionMs, c.Groups[0].OnComplete = 0, followOnOf(t, plainGroup("b", "after", 0), 5)
	r.Apply(c)
	held := r.Jobs("x")
	cmd := job.Complete{Claim: held[0].Claim}
	for line := range held {
		o := ok(held[line].ID)
		o.OutputKind, o.Output = job.Text, []byte(fmt.Sprint(line))
		o.Then = oneChained("c", "then", fmt.Sprint("then ", line))
		o.Then.Unique = []job.UniqueKey{{Line: 0, Key: fmt.Sprint(line % 500)}}
		cmd.Outcomes = append(cmd.Outcomes, o)
	}
	fields, body := cmd.Encode()
	decoded := testkit.Must(job.Decode(cmd.Verb(), fields, body))(t)
	r.Apply(decoded)
	got := r.Jobs("then")
	testkit.Holds(t, len(got) == 500 && string(got[499].Payload) == "then 499", len(got), "jobs of outcomes")
	testkit.Equal(t, len(r.Jobs("after")), 0)
	r.seq += 10
	for range 10 { // a tick moves a bounded number of jobs
		r.Apply(job.Tick{})
	}
	got = r.Jobs("after")
	testkit.Holds(t, len(got) == 1000 && string(got[999].Payload) == "999", len(got), "next jobs")
}
