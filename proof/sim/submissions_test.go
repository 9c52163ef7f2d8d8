package sim

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// filledFixture is a fixture whose batch has attributes: open, with two jobs that wait.
type filledFixture struct {
	*fixture
	of     *submission
	doc    document.Batch
	gone   bool // the document of the batch is gone
	listed map[job.ID]job.Job
	order  []job.ID                   // of the results
	change func(*query.Results)       // alters pages of results
	read   func(*document.Submission) // alters the attributes
}

func newFilledFixture(t *testing.T, change func(*job.Submission)) *filledFixture {
	t.Helper()
	posted := &job.Submission{Name: "batch-1", Open: true}
	change(posted)
	f := &filledFixture{listed: map[job.ID]job.Job{}, change: func(*query.Results) {}, read: func(*document.Submission) {}}
	f.fixture = newFixture(t, true, func(b *batch) {
		b.create.Submission, b.create.Groups = posted, []job.Group{*b.groups[0]}
		f.of = &submission{create: b}
		b.of, b.journalSeq = f.of, 1
	})
	f.a.submissions = append(f.a.submissions, f.of)
	f.doc = document.Batch{ID: f.of.id(), CreatedAt: 1000, Status: job.BatchInProgress}
	if posted.Paused {
		f.doc.Status = job.BatchPaused
	}
	for i := range f.jobs {
		f.jobs[i].Status, f.jobs[i].MaxAttempts = job.Pending, 2
		f.listed[f.jobs[i].ID] = f.jobs[i]
		f.order = append(f.order, f.jobs[i].ID)
	}
	return f
}

// set changes the status in the document of a job, from a time on.
func (f *filledFixture) set(line int, status job.Status, at int64) {
	doc := f.listed[f.jobs[line].ID]
	doc.Status, doc.CompletedAt = status, at
	f.listed[doc.ID] = doc
}

// retriedInCancelled reports a retry with an output for job 0, after its queue was cancelled: the job is cancelled.
func retriedInCancelled(t *testing.T, f *filledFixture) {
	t.Helper()
	claim := f.claim(t, 1, 1)
	f.journal(job.Move{Op: job.Cancel, Client: "c", Type: "t"})
	c := job.Complete{Claim: claim, Outcomes: []job.Outcome{{ID: f.jobs[0].ID, Code: job.Retry, ExitCode: 100, Result: job.Result{Output: []byte("out")}}}}
	must(t, f.a.completed(f.receipt(1), c, applied.Ended{Results: []applied.JobResult{{ID: f.jobs[0].ID, Status: job.Cancelled}}}))
	f.set(0, job.Cancelled, f.at)
}

// ended has the document of the batch show an end.
func (f *filledFixture) ended(status job.BatchStatus, at int64) {
	f.doc.Status, f.doc.EndedAt = status, at
}

// add adds a create of one job, after some ms, whose record is in the journal. With there, the store has the job, too.
func (f *filledFixture) add(after int64, result createResult, there bool) {
	r := f.receipt(after)
	b := &batch{tag: "batch-2", payloads: []string{"batch-2/0/z"}, groups: f.b.groups[:1], moved: true, of: f.of, journalSeq: r.Seq, result: result, id: job.NewID(r.At, r.Seq, 0)}
	f.a.batches[b.tag] = b
	f.a.know(b, b.id)
	f.of.parts = append(f.of.parts, b)
	if there {
		f.listed[b.id] = job.Job{ID: b.id, Batch: f.of.id(), Status: job.Pending}
		f.order = append(f.order, b.id)
	}
}

func (f *filledFixture) batchChanged(t *testing.T, op job.BatchOp) ingest.Receipt {
	t.Helper()
	c := job.ChangeBatch{Op: op, Batch: f.of.id()}
	r := f.journal(c)
	must(t, f.a.batchChanged(f.of, r, c, applied.BatchChanged{Status: job.BatchInProgress}))
	return r
}

// Batch returns the document, with the counts of the jobs.
func (f *filledFixture) Batch(job.ID) (document.Batch, error) {
	if f.gone {
		return document.Batch{}, job.BatchNotFound
	}
	doc, posted := f.doc, *f.of.create.create.Submission
	doc.Lines += int64(len(f.order))
	doc.Jobs = doc.Lines
	for _, id := range f.order {
		if of, is := f.listed[id]; !is {
			doc.Counts[job.Purged]++
			doc.Ended++
		} else if doc.Counts[of.Status]++; of.Status.Terminal() {
			doc.Ended++
		}
	}
	posted.Open = posted.Open && !doc.Status.Ended() && !f.closed()
	doc.Submission = &document.Submission{Submission: posted, Client: "c", Type: "t", RetentionMs: 1000}
	f.read(doc.Submission)
	return doc, nil
}

func (f *filledFixture) closed() bool {
	for _, verb := range f.a.inJournal {
		if verb == "closebatch" {
			return true
		}
	}
	return false
}

// Results returns one page with all results.
func (f *filledFixture) Results(_ job.ID, from int64, _ int, _ int64) (page query.Results, err error) {
	for page.Next = from; page.Next < int64(len(f.order)); page.Next++ {
		doc, is := f.listed[f.order[page.Next]]
		if is && !doc.Status.Terminal() {
			page.Wait = doc.ID
			break
		}
		if is {
			page.Jobs, page.Line = append(page.Jobs, doc), append(page.Line, page.Next)
		}
	}
	page.End = f.doc.Status.Ended() && page.Next == int64(len(f.order))
	f.change(&page)
	return page, nil
}

// TestAuditOfSubmissions: the audit finds each broken promise about batches with attributes in an altered account, and
// accepts an honest one.
func TestAuditOfSubmissions(t *testing.T) {
	open := func(*job.Submission) {}
	complete := func(s *job.Submission) { s.Open = false }
	cancelRest := func(s *job.Submission) { s.OnFailure = job.CancelRest }
	paused := func(s *job.Submission) { s.Paused = true }
	both := func(f *filledFixture, status job.Status) { f.set(0, status, 1500); f.set(1, status, 1600) }
	for _, tt := range []struct {
		name string
		want string // in the error; "" for an honest account
		make func(*job.Submission)
		do   func(t *testing.T, f *filledFixture)
	}{
		{"honest: open", "", open, func(t *testing.T, f *filledFixture) { both(f, job.Completed); f.add(1, stored, true) }},
		{"honest: completed", "", complete, func(t *testing.T, f *filledFixture) { both(f, job.Completed); f.ended(job.BatchCompleted, 1600) }},
		{"honest: failed", "", complete, func(t *testing.T, f *filledFixture) {
			f.set(0, job.Failed, 1500)
			f.set(1, job.Completed, 1600)
			f.ended(job.BatchFailed, 1600)
		}},
		{"honest: failed, and the rest is not cancelled yet", "", cancelRest, func(t *testing.T, f *filledFixture) {
			f.set(1, job.Failed, 1500)
			f.ended(job.BatchFailed, 1500)
		}},
		{"honest: closed", "", open, func(t *testing.T, f *filledFixture) {
			both(f, job.Completed)
			f.ended(job.BatchCompleted, f.batchChanged(t, job.CloseBatch).At)
			f.doc.EndedAt = 1600
		}},
		{"honest: paused, and one job is run by itself", "", paused, func(t *testing.T, f *filledFixture) {
			f.grant(job.Move{Op: job.Run, Job: f.jobs[0].ID})
			f.claim(t, 1, 1)
		}},
		{"honest: resumed", "", paused, func(t *testing.T, f *filledFixture) {
			f.batchChanged(t, job.ResumeBatch)
			f.doc.Status = job.BatchInProgress
			f.claim(t, 1, 1)
		}},
		{"honest: deleted", "", open, func(t *testing.T, f *filledFixture) {
			m := job.Move{Op: job.Delete, Batch: f.of.id()}
			must(t, f.a.submissionEnded(f.of, f.journal(m), m, applied.Swept{Status: job.BatchCancelled}))
			f.gone = true
			clear(f.listed)
		}},
		{"honest: a part that was refused after the close", "", open, func(t *testing.T, f *filledFixture) {
			f.batchChanged(t, job.CloseBatch)
			f.add(1, declined, false)
		}},

		{"an open batch has ended", "it ended and was open", open, func(t *testing.T, f *filledFixture) { both(f, job.Completed); f.ended(job.BatchCompleted, 1600) }},
		{"ended before its jobs", "ended before its jobs", complete, func(t *testing.T, f *filledFixture) { f.set(0, job.Completed, 1500); f.ended(job.BatchCompleted, 1500) }},
		{"not ended after its jobs", "must have ended", complete, func(t *testing.T, f *filledFixture) { both(f, job.Completed) }},
		{"completed with a failed job", "does not follow", complete, func(t *testing.T, f *filledFixture) { both(f, job.Failed); f.ended(job.BatchCompleted, 1600) }},
		{"failed without a failed job", "failed first at 0", cancelRest, func(t *testing.T, f *filledFixture) {
			both(f, job.Completed)
			f.ended(job.BatchFailed, 1600)
		}},
		{"the time of the end is not that of the last job", "its last job ended", complete, func(t *testing.T, f *filledFixture) { both(f, job.Completed); f.ended(job.BatchCompleted, 1500) }},
		{"goes on after a failure", "must have ended", cancelRest, func(t *testing.T, f *filledFixture) { f.set(0, job.Failed, 1500) }},
		{"another end later", "and now is cancelled", complete, func(t *testing.T, f *filledFixture) {
			both(f, job.Completed)
			must(t, f.a.sawEnd(f.of, job.BatchCompleted, 1600, f.receipt(1)))
			f.ended(job.BatchCancelled, 1600)
		}},
		{"the same end at another time", "and now is completed since 1600", complete, func(t *testing.T, f *filledFixture) {
			both(f, job.Completed)
			must(t, f.a.sawEnd(f.of, job.BatchCompleted, 1500, f.receipt(1)))
			f.ended(job.BatchCompleted, 1600)
		}},
		{"in progress after its end", "was completed since", complete, func(t *testing.T, f *filledFixture) {
			must(t, f.a.sawEnd(f.of, job.BatchCompleted, 1500, f.receipt(1)))
		}},
		{"a job is handed out after a failure", "had ended at", cancelRest, func(t *testing.T, f *filledFixture) {
			f.end(t, 10, f.claim(t, 1, 1), job.Fail, applied.JobResult{Status: job.Failed})
			f.handOut(t, 1, 1, 1, nil)
		}},
		{"a job is handed out after a cancel without an answer", "had ended at", open, func(t *testing.T, f *filledFixture) {
			f.journal(job.Move{Op: job.Cancel, Batch: f.of.id()})
			f.claim(t, 1, 1)
		}},
		{"a job is handed out after the end was seen", "had ended at", open, func(t *testing.T, f *filledFixture) {
			must(t, f.a.sawEnd(f.of, job.BatchFailed, 1500, f.receipt(1)))
			f.claim(t, 1, 1)
		}},
		{"a job is redriven after the end", "the redrive of job", open, func(t *testing.T, f *filledFixture) {
			must(t, f.a.sawEnd(f.of, job.BatchFailed, 1500, f.receipt(1)))
			f.move(job.Redrive)
		}},
		{"a job of a paused batch is handed out", "of the paused batch", paused, func(t *testing.T, f *filledFixture) { f.claim(t, 1, 1) }},
		{"a resume is lost", "paused false", paused, func(t *testing.T, f *filledFixture) { f.batchChanged(t, job.ResumeBatch) }},
		{"a close is lost", "open must be false", open, func(t *testing.T, f *filledFixture) {
			f.batchChanged(t, job.CloseBatch)
			f.read = func(s *document.Submission) { s.Open = true }
		}},
		{"a part is lost", "it has 3 jobs", open, func(t *testing.T, f *filledFixture) { f.add(1, stored, false) }},
		{"a part without an answer is lost", "it has 3 jobs", open, func(t *testing.T, f *filledFixture) { f.add(1, unknown, false) }},
		{"a part is added after the close", "added jobs", open, func(t *testing.T, f *filledFixture) {
			f.batchChanged(t, job.CloseBatch)
			f.add(1, stored, true)
		}},
		{"a part is refused while the batch is open", "must have added", open, func(t *testing.T, f *filledFixture) { f.add(1, declined, false) }},
		{"a count is wrong", "it has 2 jobs", open, func(t *testing.T, f *filledFixture) { f.doc.Lines++ }},
		{"an attribute is lost", "posted was", cancelRest, func(t *testing.T, f *filledFixture) {
			f.read = func(s *document.Submission) { s.OnFailure = job.Continue }
		}},
		{"a deleted batch is there", "was deleted at", open, func(t *testing.T, f *filledFixture) { f.journal(job.Move{Op: job.Delete, Batch: f.of.id()}) }},
		{"a batch is gone", "jobs are there", open, func(t *testing.T, f *filledFixture) { f.gone = true }},
		{"a batch is gone too early", "is kept for", open, func(t *testing.T, f *filledFixture) { f.gone = true; clear(f.listed) }},
		{"results in another order", "line 0 was next", complete, func(t *testing.T, f *filledFixture) {
			both(f, job.Completed)
			f.ended(job.BatchCompleted, 1600)
			f.change = func(page *query.Results) {
				if len(page.Jobs) == 2 {
					page.Jobs[0], page.Jobs[1] = page.Jobs[1], page.Jobs[0]
				}
			}
		}},
		{"a result is missing", "results continue with line 2, and line 1 is next", complete, func(t *testing.T, f *filledFixture) {
			both(f, job.Completed)
			f.ended(job.BatchCompleted, 1600)
			f.change = func(page *query.Results) { page.Jobs = page.Jobs[:min(1, len(page.Jobs))] }
		}},
		{"results do not end", "results end: false", complete, func(t *testing.T, f *filledFixture) {
			both(f, job.Completed)
			f.ended(job.BatchCompleted, 1600)
			f.change = func(page *query.Results) { page.End = false }
		}},
		{"a result is lost after the end of the batch", "with the output", open, func(t *testing.T, f *filledFixture) {
			c := job.Complete{Claim: f.claim(t, 1, 1), Outcomes: []job.Outcome{{ID: f.jobs[0].ID, Code: job.OK, ExitCode: 200, Result: job.Result{Output: []byte("out")}}}}
			must(t, f.a.completed(f.receipt(1), c, applied.Ended{Results: []applied.JobResult{{ID: f.jobs[0].ID, Status: job.Completed}}}))
			f.set(0, job.Completed, f.at)
		}},
		{"a run ends after the batch was cancelled, and its job has no output", "", open, func(t *testing.T, f *filledFixture) { retriedInCancelled(t, f) }},
		{"the same, and its job has the output of the run", "with the output", open, func(t *testing.T, f *filledFixture) {
			retriedInCancelled(t, f)
			doc := f.listed[f.jobs[0].ID]
			doc.Output = []byte("out")
			f.listed[doc.ID] = doc
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFilledFixture(t, tt.make)
			tt.do(t, f)
			u, err := f.a.audit()
			if err == nil {
				at := ingest.Receipt{Seq: f.seq + 1, At: min(f.at+500, 1900)}
				err = u.checkSubmissions(f, f.listed, at)
			}
			for _, doc := range f.listed {
				if err == nil && doc.Status.Terminal() && len(doc.Payload) > 0 {
					err = u.checkMovedDocument(&doc)
				}
			}
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("want %q, got %v", tt.want, err)
			}
		})
	}
}
