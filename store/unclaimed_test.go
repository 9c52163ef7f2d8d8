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
	if len(ended.Results) != 1 || ended.Results[0].ID != o.ID || ended.All != 0 || ended.Refusal != job.Granted || ended.Denied != job.Granted {
		c.Fatalf("%+v", ended)
	}
	return ended.Results[0]
}

func (c *completing) is(id job.ID, status job.Status, attempts int) job.Job {
	c.Helper()
	mustCommit(c.T, c.s)
	doc, err := c.s.Job(id)
	if err != nil || doc.Status != status || doc.RunAttempts != attempts {
		c.Fatalf("%v is %v after %d attempts (%v), not %v after %d", id, doc.Status, doc.RunAttempts, err, status, attempts)
	}
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
		if doc.Claim != claim || doc.Runner != "" || string(doc.Output) != "out" || doc.Why != job.Reported || doc.CompletedAt != startAt {
			t.Errorf("%+v", doc)
		}
		of, jobs, err := c.s.ClaimDocument(claim, query.Everything)
		if err != nil || of.HandedOut != 1 || of.Held != 0 || of.Runner != "" || of.LeaseMs != job.DefaultLeaseMs || len(jobs) != 0 {
			t.Errorf("its claim is %+v, with %v: %v", of, jobs, err)
		}
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
			if len(doc.Attempts) != attempt || doc.Attempts[attempt-1].Error != "no luck" || doc.Attempts[attempt-1].Runner != "" || doc.Error != "no luck" {
				t.Errorf("attempt %d: %+v", attempt, doc.Attempts)
			}
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
		if err != nil || doc.Status != status || doc.Counts != counts {
			c.Fatalf("batch %v is %v with %v (%v), not %v with %v", id, doc.Status, doc.Counts, err, status, counts)
		}
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
		if err != nil || doc.Status != job.BatchFailed || doc.Failed != id.WithLine(2) || doc.Counts[job.Pending] == 0 || doc.Counts[job.Failed] != 1 {
			t.Fatalf("%+v, %v", doc, err)
		}
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
