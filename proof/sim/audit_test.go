package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// TestAuditOfLostRunners: after a runner is lost, its jobs may be handed out before their leases end. Claims of other
// runners, and later claims of this runner, keep their jobs.
func TestAuditOfLostRunners(t *testing.T) {
	for name, c := range map[string]struct {
		lost  job.LoseRunner
		legal bool
	}{
		"its runner":        {job.LoseRunner{Runner: "r", Through: 2}, true},
		"another runner":    {job.LoseRunner{Runner: "other", Through: 2}, false},
		"before it claimed": {job.LoseRunner{Runner: "r", Through: 1}, false},
		"nobody":            {job.LoseRunner{}, false},
	} {
		for _, moved := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", moved ", moved), func(t *testing.T) {
				s := newFixture(t, moved, func(*batch) {})
				s.claim(t, 0, 1)
				if c.lost.Runner != "" {
					s.journal(c.lost)
				}
				s.claim(t, 0, 2)
				if _, err := s.a.audit(); (err == nil) != c.legal {
					t.Errorf("legal: %v, audit: %v", c.legal, err)
				}
			})
		}
	}
}

// TestAuditOfLostRuns: a job's document has its lost runs, and only those.
func TestAuditOfLostRuns(t *testing.T) {
	row := job.Attempt{Why: job.RunnerLost, Runner: "r"}
	for _, tt := range []struct {
		name string
		code job.Code
		rows []job.Attempt
		want string
	}{
		{"lost", job.Lost, []job.Attempt{row}, ""},
		{"lost and forgotten", job.Lost, nil, "were lost 1 times, and it remembers 0"},
		{"given back", job.Unget, nil, ""},
		{"given back and counted", job.Unget, []job.Attempt{row}, "none had begun"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t, false, func(*batch) {})
			s.end(t, 10, s.claim(t, 1, 1), tt.code, applied.JobResult{Status: promised(tt.code, 1, 2)})
			u, err := s.a.audit()
			must(t, err)
			doc := s.jobs[0]
			doc.Attempts, doc.RunAttempts = tt.rows, 1
			if err := u.checkLost(&doc); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// fixture is a hand-made account of one batch of two jobs, for a test to audit.
type fixture struct {
	a       *account
	b       *batch
	seq     uint64
	at      int64
	jobs    [2]job.Job
	handler job.ID // of the newest version
	fileset job.ID // of the newest version
}

func newFixture(t *testing.T, moved bool, change func(*batch)) *fixture {
	t.Helper()
	s := &fixture{a: newAccount(), seq: 1, at: 1000}
	b := &batch{tag: "batch-1", payloads: []string{"batch-1/0/x", "batch-1/1/y"}, moved: moved}
	g := job.Group{Lines: 2, Client: "c", Type: "t", Attributes: job.Attributes{Kind: job.Text, MaxAttempts: 2, LeaseMs: 1000, RetentionMs: 1000}}
	b.groups = []*job.Group{&g, &g}
	change(b)
	s.b = b
	s.a.batches[b.tag] = b
	must(t, s.a.created(b, applied.Made{}, ingest.Receipt{Seq: 1, At: 1000}, stored))
	s.a.queues[[2]string{"c", "t"}] = 1
	for i := range s.jobs {
		s.jobs[i] = job.Job{ID: b.id.WithLine(i), Batch: b.id, Client: "c", Type: "t", Attributes: g.Attributes, Payload: []byte(b.payloads[i])}
	}
	return s
}

func (s *fixture) receipt(after int64) ingest.Receipt {
	s.seq++
	s.at += after
	return ingest.Receipt{Seq: s.seq, At: s.at}
}

// journal adds a command without an answer to the journal.
func (s *fixture) journal(cmd job.Command) ingest.Receipt {
	r := s.receipt(1)
	s.a.operation(r, cmd)
	return r
}

// grant adds an operation that the server granted.
func (s *fixture) grant(cmd job.Command) { s.a.answered(s.journal(cmd), cmd, job.Granted, nil) }

// refuse adds an operation that the server refused.
func (s *fixture) refuse(cmd job.Command) { s.a.answered(s.journal(cmd), cmd, job.NotFound, nil) }

// move adds an operation on job 0.
func (s *fixture) move(op job.Op) {
	m := job.Move{Op: op, Job: s.jobs[0].ID}
	status := job.Pending
	if op == job.Cancel {
		status = job.Cancelled
	}
	s.a.movedOne(s.journal(m), m, applied.Moved{Status: status})
}

// moveAll adds an operation on the whole queue, or on the whole batch, that finishes with its command.
func (s *fixture) moveAll(op job.Op, whole string) {
	m := job.Move{Op: op, Client: "c", Type: "t"}
	if whole == "batch" {
		m = job.Move{Op: op, Batch: s.b.id}
	}
	s.a.movedMany(s.journal(m), m, applied.Swept{Moved: 2})
}

// put adds a command that stores a handler, answered with this version number; same: as equal to the newest version.
func (s *fixture) put(text string, version int, same bool) {
	p := job.PutHandler{Client: "c", Type: "t", Kind: "exec", Document: []byte(text)}
	r := s.journal(p)
	if !same {
		s.handler = job.NewID(r.At, r.Seq, 0)
	}
	s.a.handlerPut(r, p, applied.HandlerPut{Same: same, Handler: document.Handler{ID: s.handler, Version: version, Bytes: len(text)}})
}

// putFileset adds a command that stores a fileset, and is answered like put.
func (s *fixture) putFileset(manifest byte, version int, same bool) {
	p := job.PutFileset{Client: "c", Name: "n", Manifest: job.ManifestDigest{manifest}, Files: 1, Bytes: 2}
	r := s.journal(p)
	if !same {
		s.fileset = job.NewID(r.At, r.Seq, 0)
	}
	s.a.filesetPut(r, p, applied.FilesetPut{Same: same, Fileset: document.Fileset{ID: s.fileset, Version: version, Manifest: p.Manifest, Files: 1, Bytes: 2}})
}

// handOut hands out one of the jobs. change may alter its document.
func (s *fixture) handOut(t *testing.T, after int64, line, attempt int, change func(*job.Job)) job.ID {
	t.Helper()
	r := s.receipt(after)
	doc := s.jobs[line]
	doc.Claim, doc.Runner, doc.Status, doc.RunAttempts = job.NewID(r.At, r.Seq, 0), "r", job.Active, attempt
	if change != nil {
		change(&doc)
	}
	answer := applied.Claimed{Claim: doc.Claim, Seq: r.Seq, LeaseMs: 1000, Runs: []applied.Run{{Batch: 1}}}
	must(t, s.a.claimed(r, job.Claim{Runner: "r", Max: 1}, answer, []job.Job{doc}))
	return doc.Claim
}

func redrives(n int) func(*job.Job) { return func(d *job.Job) { d.Redrives = n } }

// claim hands out job 0, and returns the claim.
func (s *fixture) claim(t *testing.T, after int64, attempt int) job.ID {
	t.Helper()
	return s.handOut(t, after, 0, attempt, nil)
}

func (s *fixture) end(t *testing.T, after int64, claim job.ID, code job.Code, result applied.JobResult) {
	t.Helper()
	result.ID = s.jobs[0].ID
	c := job.Complete{Claim: claim, Outcomes: []job.Outcome{{ID: result.ID, Code: code, ExitCode: code.DefaultExitCode()}}}
	testkit.NoError(t, s.a.completed(s.receipt(after), c, applied.Ended{Results: []applied.JobResult{result}}))
}

// unclaimed completes job 0 with Unclaimed.
func (s *fixture) unclaimed(t *testing.T, after int64, code job.Code, result applied.JobResult) {
	t.Helper()
	result.ID = s.jobs[0].ID
	c := job.Complete{Unclaimed: true, Outcomes: []job.Outcome{{ID: result.ID, Code: code, ExitCode: code.DefaultExitCode()}}}
	testkit.NoError(t, s.a.completed(s.receipt(after), c, applied.Ended{Results: []applied.JobResult{result}}))
}

// TestAudit: the audit finds each broken promise in an altered account, and accepts an honest one.
func TestAudit(t *testing.T) {
	granted := func(s job.Status) applied.JobResult { return applied.JobResult{Status: s} }
	for _, tt := range []struct {
		name string
		want string // in the error; "" for an honest account
		do   func(t *testing.T, s *fixture)
	}{
		{"honest", "", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.Retry, granted(job.Deferred))
			c = s.claim(t, 10, 2)
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, 10, c, job.OK, granted(job.Completed)) // a repeat
		}},
		{"handed out again when the lease is over", "", func(t *testing.T, s *fixture) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.end(t, 1, old, job.OK, applied.JobResult{Refusal: job.ClaimLost})
		}},
		{"a late outcome of a lost run", "", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.Lost, granted(job.Deferred))
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, 10, c, job.OK, granted(job.Completed)) // a repeat
		}},
		{"a late outcome after another claim", "has taken since", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.Lost, granted(job.Deferred))
			s.claim(t, 10, 2)
			s.end(t, 10, c, job.OK, granted(job.Completed))
		}},
		{"a late outcome of a run that was given back", "again, with another outcome", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.Unget, granted(job.Pending))
			s.end(t, 10, c, job.OK, granted(job.Completed))
		}},
		{"a late outcome of a lost last run", "again, with another outcome", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 2)
			s.end(t, 10, c, job.Lost, granted(job.Failed))
			s.end(t, 10, c, job.OK, granted(job.Completed))
		}},
		{"a repeat that is not known", "and the job is not known", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, job.RepeatMs-1, c, job.OK, applied.JobResult{Refusal: job.NotFound})
		}},
		{"a repeat after a minute", "", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, job.RepeatMs, c, job.OK, applied.JobResult{Refusal: job.NotFound})
		}},
		{"jobs for a silent runner", "proved silent at 3", func(t *testing.T, s *fixture) {
			s.a.silent(3, []string{"r"})
			s.a.kept("r", ingest.Receipt{Seq: 4}, 2)
		}},
		{"jobs for a runner that was heard of again", "", func(t *testing.T, s *fixture) {
			s.a.silent(3, []string{"r"})
			s.a.kept("r", ingest.Receipt{Seq: 5}, 3)
			s.a.kept("other", ingest.Receipt{Seq: 6}, 2)
		}},
		{"handed out twice", "before the lease", func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.claim(t, 999, 2)
		}},
		{"handed out after its end", "handed out after", func(t *testing.T, s *fixture) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, granted(job.Completed))
			s.claim(t, 5000, 2)
		}},
		{"one attempt too many", "runs 3 times of 2", func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 3)
		}},
		{"an attempt that is not counted", "after attempt 1", func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 1)
		}},
		{"a stale claim ends a job", "has taken since", func(t *testing.T, s *fixture) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.end(t, 1, old, job.OK, granted(job.Completed))
		}},
		{"a stale claim tickles a job", "is held by", func(t *testing.T, s *fixture) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.a.tickled(s.receipt(1), job.Tickle{Claim: old, IDs: []job.ID{s.jobs[0].ID}}, 0, applied.Tickled{Held: 1})
		}},
		{"a job is taken from its holder", "before its lease ends", func(t *testing.T, s *fixture) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, applied.JobResult{Refusal: job.ClaimLost})
		}},
		{"a tickle counts for nothing", "before the lease", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.a.tickled(s.receipt(500), job.Tickle{Claim: c}, 0, applied.Tickled{Held: 1})
			s.claim(t, 600, 2)
		}},
		{"an outcome that differs is taken", "with another outcome", func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, 10, c, job.Fail, granted(job.Failed))
		}},
		{"ended into the wrong status", "and not failed", func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.end(t, 10, s.claim(t, 1000, 2), job.Retry, granted(job.Deferred))
		}},
		{"a waiting job is ended unclaimed", "", func(t *testing.T, s *fixture) {
			s.unclaimed(t, 10, job.Retry, granted(job.Pending))
			s.claim(t, 1, 2)
			s.unclaimed(t, 10, job.OK, granted(job.Completed)) // this ends the claim's run
			s.unclaimed(t, 10, job.OK, applied.JobResult{Refusal: job.NotActive})
		}},
		{"handed out after it was completed unclaimed", "handed out after", func(t *testing.T, s *fixture) {
			s.unclaimed(t, 10, job.OK, granted(job.Completed))
			s.claim(t, 1, 2)
		}},
		{"ended again unclaimed", "is ended again", func(t *testing.T, s *fixture) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, granted(job.Completed))
			s.unclaimed(t, 10, job.OK, granted(job.Completed))
		}},
		{"an unclaimed completion of a waiting job is refused", "nobody has ended the job", func(t *testing.T, s *fixture) {
			s.unclaimed(t, 10, job.Retry, granted(job.Pending))
			s.unclaimed(t, 10, job.OK, applied.JobResult{Refusal: job.NotActive})
		}},
		{"an unclaimed completion does not find a job", "nobody has ended the job", func(t *testing.T, s *fixture) {
			s.unclaimed(t, 10, job.OK, applied.JobResult{Refusal: job.NotFound})
		}},
		{"an unclaimed completion is refused after the attempts may be used", "", func(t *testing.T, s *fixture) {
			s.unclaimed(t, 10, job.Retry, granted(job.Pending))
			s.claim(t, 1, 2)
			s.unclaimed(t, 5000, job.OK, applied.JobResult{Refusal: job.NotActive})
		}},
		{"a paused queue hands out", "paused queue", func(t *testing.T, s *fixture) {
			s.grant(job.Pause{Client: "c", Type: "t", Paused: true})
			s.claim(t, 1, 1)
		}},
		{"a queue whose pause has no answer hands out", "paused queue", func(t *testing.T, s *fixture) {
			s.journal(job.Pause{Client: "c", Type: "t", Paused: true})
			s.claim(t, 1, 1)
		}},
		{"a queue hands out after its pause was refused", "", func(t *testing.T, s *fixture) {
			s.refuse(job.Pause{Client: "c", Type: "t", Paused: true})
			s.claim(t, 1, 1)
		}},
		{"a queue hands out after it was resumed", "", func(t *testing.T, s *fixture) {
			s.grant(job.Pause{Client: "c", Type: "t", Paused: true})
			s.journal(job.Pause{Client: "c", Type: "t"})
			s.claim(t, 1, 1)
		}},
		{"a queue hands out after it was deleted with its pause", "", func(t *testing.T, s *fixture) {
			s.grant(job.Pause{Client: "c", Type: "t", Paused: true})
			s.journal(job.DeleteQueue{Client: "c", Type: "t"})
			s.claim(t, 1, 1)
		}},
		{"a queue hands out after a resume without an answer, although it may have been deleted before", "", func(t *testing.T, s *fixture) {
			s.grant(job.Pause{Client: "c", Type: "t", Paused: true})
			s.journal(job.DeleteIdleQueues{IdleMs: job.MinQueueIdleMs})
			s.journal(job.Pause{Client: "c", Type: "t"})
			s.claim(t, 1, 1)
		}},
		{"a queue is deleted and has a job", "and its older job", func(t *testing.T, s *fixture) {
			d := job.DeleteQueue{Client: "c", Type: "t"}
			s.a.queueDeleted(s.journal(d), d, job.Granted)
			s.claim(t, 1, 1)
		}},
		{"a stopped server hands out", "while the server hands out nothing", func(t *testing.T, s *fixture) {
			s.grant(job.Switch{Stopped: true})
			s.claim(t, 1, 1)
		}},
		{"a stopped server hands out after a start that has no answer", "", func(t *testing.T, s *fixture) {
			s.grant(job.Switch{Stopped: true})
			s.journal(job.Switch{})
			s.claim(t, 1, 1)
		}},
		{"a server hands out after a second stop, the first start having no answer", "while the server hands out nothing", func(t *testing.T, s *fixture) {
			s.grant(job.Switch{Stopped: true})
			s.journal(job.Switch{})
			s.grant(job.Switch{Stopped: true})
			s.claim(t, 1, 1)
		}},
		{"a job that was set aside is handed out", "after it was set aside", func(t *testing.T, s *fixture) {
			s.end(t, 10, s.claim(t, 1, 1), job.Damaged, granted(job.Deferred))
			s.claim(t, 5000, 1)
		}},
		{"a job that was set aside is handed out after a run that was refused", "after it was set aside", func(t *testing.T, s *fixture) {
			s.end(t, 10, s.claim(t, 1, 1), job.Damaged, granted(job.Deferred))
			s.refuse(job.Move{Op: job.Run, Job: s.jobs[0].ID})
			s.claim(t, 5000, 1)
		}},
		{"a job that was set aside is handed out after a run without an answer, and the attempt did not count", "", func(t *testing.T, s *fixture) {
			s.end(t, 10, s.claim(t, 1, 1), job.Damaged, granted(job.Deferred))
			s.journal(job.Move{Op: job.Run, Job: s.jobs[0].ID})
			s.claim(t, 1, 1)
		}},
		{"a job that is set aside at its last attempt fails", "and not deferred", func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.end(t, 10, s.claim(t, 1000, 2), job.Damaged, granted(job.Failed))
		}},
		{"handlers that are stored, stored again and deleted", "", func(t *testing.T, s *fixture) {
			s.put("a", 1, false)
			s.put("b", 2, false)
			s.put("b", 2, true)
			s.grant(job.DeleteHandler{Client: "c", Type: "t"})
			s.put("b", 1, false)
		}},
		{"a handler gets the number of a version before", "the journal has", func(t *testing.T, s *fixture) {
			s.put("a", 1, false)
			s.put("b", 1, false)
		}},
		{"a handler that is the same is stored again", "the journal has", func(t *testing.T, s *fixture) {
			s.put("a", 1, false)
			s.put("a", 1, false)
		}},
		{"a handler outlives its end", "the journal has", func(t *testing.T, s *fixture) {
			s.put("a", 1, false)
			s.grant(job.DeleteHandler{Client: "c", Type: "t"})
			s.put("a", 1, true)
		}},
		{"filesets that are stored, stored again and deleted", "", func(t *testing.T, s *fixture) {
			s.putFileset(1, 1, false)
			s.putFileset(2, 2, false)
			s.putFileset(2, 2, true)
			s.grant(job.DeleteFileset{Client: "c", Name: "n"})
			s.putFileset(2, 1, false)
		}},
		{"a fileset gets the number of a version before", "the journal has", func(t *testing.T, s *fixture) {
			s.putFileset(1, 1, false)
			s.putFileset(2, 1, false)
		}},
		{"a fileset that is the same is stored again", "the journal has", func(t *testing.T, s *fixture) {
			s.putFileset(1, 1, false)
			s.putFileset(1, 1, false)
		}},
		{"a fileset outlives its end", "the journal has", func(t *testing.T, s *fixture) {
			s.putFileset(1, 1, false)
			s.grant(job.DeleteFileset{Client: "c", Name: "n"})
			s.putFileset(1, 1, true)
		}},
		{"an operation is answered that the journal does not have", "was answered with record", func(t *testing.T, s *fixture) {
			s.a.answered(s.receipt(1), job.Switch{Stopped: true}, job.Granted, nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t, false, func(*batch) {})
			tt.do(t, s)
			_, err := s.a.audit()
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) && tt.want != "" {
				t.Errorf("the audit returns %v, want %q", err, tt.want)
			}
		})
	}
}
