package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// TestLies: a simulation that cannot fail proves nothing. Here the disk breaks a promise, and some of a few seeds must notice.
func TestLies(t *testing.T) {
	dir := memory(t)
	for _, l := range []lie{fsyncLies, dirSyncLies} {
		t.Run(string(l), func(t *testing.T) {
			noticed := 0
			const seeds = 12
			for seed := uint64(1); seed <= seeds; seed++ {
				if r := play(t, dir, seed, l, io.Discard); r.Error != "" {
					noticed++
				}
			}
			t.Logf("%d of %d seeds noticed", noticed, seeds)
			if noticed < seeds/3 {
				t.Errorf("only %d of %d seeds noticed that %s", noticed, seeds, l)
			}
		})
	}
}

// told is a hand-made account of one batch of two jobs, to be held against an audit.
type told struct {
	a    *account
	b    *batch
	seq  uint64
	at   int64
	jobs [2]job.Job
}

func tell(t *testing.T, moved bool, change func(*batch)) *told {
	t.Helper()
	s := &told{a: newAccount(), seq: 1, at: 1000}
	b := &batch{tag: "batch-1", payloads: []string{"batch-1/0/x", "batch-1/1/y"}, moved: moved}
	g := job.Group{Lines: 2, Client: "c", Type: "t", Attributes: job.Attributes{Kind: job.Text, MaxAttempts: 2, LeaseMs: 1000, RetentionMs: 1000}}
	b.groups = []*job.Group{&g, &g}
	change(b)
	s.b = b
	s.a.batches[b.tag] = b
	must(t, s.a.created(b, store.Made{}, ingest.Receipt{Seq: 1, At: 1000}, stored))
	s.a.queues[[2]string{"c", "t"}] = 1
	for i := range s.jobs {
		s.jobs[i] = job.Job{ID: b.id.WithLine(i), Batch: b.id, Client: "c", Type: "t", Attributes: g.Attributes, Payload: []byte(b.payloads[i])}
	}
	return s
}

func (s *told) receipt(after int64) ingest.Receipt {
	s.seq++
	s.at += after
	return ingest.Receipt{Seq: s.seq, At: s.at}
}

// journal is a command in the journal that has no answer.
func (s *told) journal(cmd job.Command) ingest.Receipt {
	r := s.receipt(1)
	s.a.operation(r, cmd)
	return r
}

// do is an operation that is answered.
func (s *told) do(cmd job.Command) { s.a.answered(s.journal(cmd), cmd, job.Granted, nil) }

// refuse is one that is refused.
func (s *told) refuse(cmd job.Command) { s.a.answered(s.journal(cmd), cmd, job.NotFound, nil) }

// move is an operation on job 0.
func (s *told) move(op job.Op) {
	m := job.Move{Op: op, Job: s.jobs[0].ID}
	status := job.Pending
	if op == job.Cancel {
		status = job.Cancelled
	}
	s.a.movedOne(s.journal(m), m, store.Moved{Status: status})
}

// moveAll is one on the whole queue, or batch, which is finished with its command.
func (s *told) moveAll(op job.Op, whole string) {
	m := job.Move{Op: op, Client: "c", Type: "t"}
	if whole == "batch" {
		m = job.Move{Op: op, Batch: s.b.id}
	}
	s.a.movedMany(s.journal(m), m, store.Swept{Moved: 2})
}

// hand hands out one of the jobs; change alters its document.
func (s *told) hand(t *testing.T, after int64, line, attempt int, change func(*job.Job)) job.ID {
	t.Helper()
	r := s.receipt(after)
	doc := s.jobs[line]
	doc.Claim, doc.Runner, doc.Status, doc.RunAttempts = job.NewID(r.At, r.Seq, 0), "r", job.Active, attempt
	if change != nil {
		change(&doc)
	}
	answer := store.Claimed{Claim: doc.Claim, LeaseMs: 1000, Runs: []store.Run{{Batch: 1}}}
	must(t, s.a.claimed(r, job.Claim{Runner: "r", Max: 1}, answer, []job.Job{doc}))
	return doc.Claim
}

func redrives(n int) func(*job.Job) { return func(d *job.Job) { d.Redrives = n } }

// claim hands out job 0 and returns the claim.
func (s *told) claim(t *testing.T, after int64, attempt int) job.ID {
	t.Helper()
	return s.hand(t, after, 0, attempt, nil)
}

func (s *told) end(t *testing.T, after int64, claim job.ID, code job.Code, result store.JobResult) {
	t.Helper()
	result.ID = s.jobs[0].ID
	c := job.Complete{Claim: claim, Outcomes: []job.Outcome{{ID: result.ID, Code: code, ExitCode: code.DefaultExitCode()}}}
	if err := s.a.completed(s.receipt(after), c, store.Ended{Results: []store.JobResult{result}}); err != nil {
		t.Fatal(err)
	}
}

// TestAudit: the audit finds each broken promise in a doctored account, and nothing in an honest one.
func TestAudit(t *testing.T) {
	granted := func(s job.Status) store.JobResult { return store.JobResult{Status: s} }
	for _, tt := range []struct {
		name string
		want string // in the error; "" for an honest account
		do   func(t *testing.T, s *told)
	}{
		{"honest", "", func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.Retry, granted(job.Deferred))
			c = s.claim(t, 10, 2)
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, 10, c, job.OK, granted(job.Completed)) // again
		}},
		{"handed out again when the lease is over", "", func(t *testing.T, s *told) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.end(t, 1, old, job.OK, store.JobResult{Refusal: job.ClaimLost})
		}},
		{"handed out twice", "before the lease", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 999, 2)
		}},
		{"handed out after its end", "handed out after", func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, granted(job.Completed))
			s.claim(t, 5000, 2)
		}},
		{"one attempt too many", "runs 3 times of 2", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 3)
		}},
		{"an attempt that is not counted", "after attempt 1", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 1)
		}},
		{"a stale claim ends a job", "was handed to claim", func(t *testing.T, s *told) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.end(t, 1, old, job.OK, granted(job.Completed))
		}},
		{"a stale claim tickles a job", "is held by", func(t *testing.T, s *told) {
			old := s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
			s.a.tickled(s.receipt(1), job.Tickle{Claim: old, IDs: []job.ID{s.jobs[0].ID}}, 0, store.Tickled{Held: 1})
		}},
		{"a job is taken from its holder", "before its lease is over", func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, store.JobResult{Refusal: job.ClaimLost})
		}},
		{"a tickle counts for nothing", "before the lease", func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.a.tickled(s.receipt(500), job.Tickle{Claim: c}, 0, store.Tickled{Held: 1})
			s.claim(t, 600, 2)
		}},
		{"an outcome that differs is taken", "with another outcome", func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.OK, granted(job.Completed))
			s.end(t, 10, c, job.Fail, granted(job.Failed))
		}},
		{"ended into the wrong status", "and not failed", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.end(t, 10, s.claim(t, 1000, 2), job.Retry, granted(job.Deferred))
		}},
		{"a paused queue hands out", "paused queue", func(t *testing.T, s *told) {
			s.do(job.Pause{Client: "c", Type: "t", Paused: true})
			s.claim(t, 1, 1)
		}},
		{"a queue whose pause has no answer hands out", "paused queue", func(t *testing.T, s *told) {
			s.journal(job.Pause{Client: "c", Type: "t", Paused: true})
			s.claim(t, 1, 1)
		}},
		{"a queue hands out after its pause was refused", "", func(t *testing.T, s *told) {
			s.refuse(job.Pause{Client: "c", Type: "t", Paused: true})
			s.claim(t, 1, 1)
		}},
		{"a queue hands out after it was resumed", "", func(t *testing.T, s *told) {
			s.do(job.Pause{Client: "c", Type: "t", Paused: true})
			s.journal(job.Pause{Client: "c", Type: "t"})
			s.claim(t, 1, 1)
		}},
		{"a queue hands out after it was deleted with its pause", "", func(t *testing.T, s *told) {
			s.do(job.Pause{Client: "c", Type: "t", Paused: true})
			s.journal(job.DeleteQueue{Client: "c", Type: "t"})
			s.claim(t, 1, 1)
		}},
		{"a queue hands out after a resume without an answer, although it may have been deleted before", "", func(t *testing.T, s *told) {
			s.do(job.Pause{Client: "c", Type: "t", Paused: true})
			s.journal(job.DeleteIdleQueues{IdleMs: job.MinQueueIdleMs})
			s.journal(job.Pause{Client: "c", Type: "t"})
			s.claim(t, 1, 1)
		}},
		{"a queue is deleted and has a job", "and job", func(t *testing.T, s *told) {
			d := job.DeleteQueue{Client: "c", Type: "t"}
			s.a.queueDeleted(s.journal(d), d, job.Granted)
			s.claim(t, 1, 1)
		}},
		{"a stopped server hands out", "while all are stopped", func(t *testing.T, s *told) {
			s.do(job.Switch{Stopped: true})
			s.claim(t, 1, 1)
		}},
		{"a stopped server hands out after a start that has no answer", "", func(t *testing.T, s *told) {
			s.do(job.Switch{Stopped: true})
			s.journal(job.Switch{})
			s.claim(t, 1, 1)
		}},
		{"a server hands out after a second stop, the first start having no answer", "while all are stopped", func(t *testing.T, s *told) {
			s.do(job.Switch{Stopped: true})
			s.journal(job.Switch{})
			s.do(job.Switch{Stopped: true})
			s.claim(t, 1, 1)
		}},
		{"a job that was set aside is handed out", "after it was set aside", func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.Damaged, granted(job.Deferred))
			s.claim(t, 5000, 1)
		}},
		{"a job that was set aside is handed out after a run that was refused", "after it was set aside", func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.Damaged, granted(job.Deferred))
			s.refuse(job.Move{Op: job.Run, Job: s.jobs[0].ID})
			s.claim(t, 5000, 1)
		}},
		{"a job that was set aside is handed out after a run without an answer, and the attempt did not count", "", func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.Damaged, granted(job.Deferred))
			s.journal(job.Move{Op: job.Run, Job: s.jobs[0].ID})
			s.claim(t, 1, 1)
		}},
		{"a job that is set aside at its last attempt fails", "and not deferred", func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.end(t, 10, s.claim(t, 1000, 2), job.Damaged, granted(job.Failed))
		}},
		{"an operation is answered that the journal does not have", "was answered, and record", func(t *testing.T, s *told) {
			s.a.answered(s.receipt(1), job.Switch{Stopped: true}, job.Granted, nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t, false, func(*batch) {})
			tt.do(t, s)
			_, err := s.a.audit()
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) && tt.want != "" {
				t.Errorf("the audit says %v, want %q", err, tt.want)
			}
		})
	}
}

// TestAuditOfMoves: the same for jobs that operators move. There is a doctored account for each promise of docs/guarantees.md about them.
func TestAuditOfMoves(t *testing.T) {
	sweep := job.Move{Op: job.Redrive, Client: "c", Type: "t"}
	completed := store.JobResult{Status: job.Completed}
	keys := func(b *batch) { b.create.Unique = []job.UniqueKey{{Line: 0, Key: "k"}, {Line: 1, Key: "k"}} }
	priority, runAt := 7, int64(9000)
	for _, tt := range []struct {
		name string
		want string // in the error; "" for an honest account
		make func(*batch)
		do   func(t *testing.T, s *told)
	}{
		{"honest", "", nil, func(t *testing.T, s *told) {
			s.move(job.Cancel)
			s.move(job.Redrive)
			s.end(t, 10, s.hand(t, 1, 0, 1, redrives(1)), job.OK, completed)
			s.moveAll(job.Redrive, "batch")
			s.hand(t, 1, 0, 1, redrives(2))
			s.moveAll(job.Cancel, "queue")
			s.moveAll(job.Delete, "queue")
		}},

		{"cancel: handed out after it", "answered as cancelled", nil, func(t *testing.T, s *told) {
			s.move(job.Cancel)
			s.claim(t, 1, 1)
		}},
		{"cancel: handed out after it, although a redrive came before", "answered as cancelled", nil, func(t *testing.T, s *told) {
			s.journal(sweep)
			s.move(job.Cancel)
			s.claim(t, 1, 1)
		}},
		{"cancel: handed out after it, although another queue was redriven", "answered as cancelled", nil, func(t *testing.T, s *told) {
			s.move(job.Cancel)
			s.do(job.Move{Op: job.Redrive, Client: "c", Type: "u"})
			s.claim(t, 1, 1)
		}},
		{"cancel: handed out after it and a redrive that was refused", "answered as cancelled", nil, func(t *testing.T, s *told) {
			s.move(job.Cancel)
			s.refuse(job.Move{Op: job.Redrive, Job: s.jobs[0].ID})
			s.claim(t, 1, 1)
		}},
		{"cancel: handed out after it and a redrive without an answer", "", nil, func(t *testing.T, s *told) {
			s.move(job.Cancel)
			s.journal(sweep)
			s.hand(t, 1, 0, 1, redrives(1))
		}},
		{"cancel: of the whole queue, and handed out after it", "answered as cancelled", nil, func(t *testing.T, s *told) {
			s.moveAll(job.Cancel, "queue")
			s.claim(t, 1, 1)
		}},
		{"cancel: of the whole batch, and handed out after it", "answered as cancelled", nil, func(t *testing.T, s *told) {
			s.moveAll(job.Cancel, "batch")
			s.claim(t, 1, 1)
		}},
		{"cancel: by a sweep, and handed out after its end", "answered as cancelled", nil, func(t *testing.T, s *told) {
			m := job.Move{Op: job.Cancel, Client: "c", Type: "t"}
			r, end := s.journal(m), s.receipt(5)
			s.a.note(end, "the sweep is finished", func(u *audit) error { u.finished(m, r, end.Seq); return nil })
			s.claim(t, 1, 1)
		}},
		{"cancel: by a sweep, and handed out before its end", "", nil, func(t *testing.T, s *told) {
			m := job.Move{Op: job.Cancel, Client: "c", Type: "t"}
			r := s.journal(m)
			s.claim(t, 1, 1)
			end := s.receipt(5)
			s.a.note(end, "the sweep is finished", func(u *audit) error { u.finished(m, r, end.Seq); return nil })
		}},
		{"cancel: the runner is not refused", "is granted after the job was answered as cancelled", nil, func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.move(job.Cancel)
			s.end(t, 1, c, job.OK, completed)
		}},
		{"cancel: the runner's tickle is not refused", "is granted after the job was answered as cancelled", nil, func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.move(job.Cancel)
			s.a.tickled(s.receipt(1), job.Tickle{Claim: c}, 0, store.Tickled{Held: 1})
		}},
		{"cancel: the runner is refused", "", nil, func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.move(job.Cancel)
			s.end(t, 1, c, job.OK, store.JobResult{Refusal: job.WasCancelled})
		}},
		{"cancel: answered with another status", "answered with pending", nil, func(t *testing.T, s *told) {
			m := job.Move{Op: job.Cancel, Job: s.jobs[0].ID}
			s.a.movedOne(s.journal(m), m, store.Moved{Status: job.Pending})
		}},

		{"end: handed out after it, and nobody redrove", "answered as completed", nil, func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, completed)
			s.claim(t, 5000, 2)
		}},
		{"lease: handed out twice", "before the lease", nil, func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 999, 2)
		}},
		{"lease: handed out again after it", "", nil, func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
		}},
		{"attempts: one that is not counted", "after attempt 1", nil, func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 1)
		}},
		{"attempts: one too many", "runs 3 times of 2", nil, func(t *testing.T, s *told) { s.claim(t, 1, 3) }},

		{"redrive: it shows one that nobody asked for", "and 0 may have reached it", nil, func(t *testing.T, s *told) { s.hand(t, 1, 0, 1, redrives(1)) }},
		{"redrive: granted, and it shows none", "1 redrives of it were granted", nil, func(t *testing.T, s *told) {
			s.move(job.Cancel)
			s.move(job.Redrive)
			s.claim(t, 1, 1)
		}},

		{"delete: handed out after it", "after it was deleted", nil, func(t *testing.T, s *told) {
			s.move(job.Delete)
			s.claim(t, 1, 1)
		}},
		{"delete: handed out after it and a redrive of the queue", "after it was deleted", nil, func(t *testing.T, s *told) {
			s.move(job.Delete)
			s.do(sweep)
			s.hand(t, 1, 0, 1, redrives(1))
		}},
		{"delete: of the whole queue, and handed out after it", "after it was deleted", nil, func(t *testing.T, s *told) {
			s.moveAll(job.Delete, "queue")
			s.claim(t, 1, 1)
		}},
		{"delete: redriven after it", "is granted after it was deleted", nil, func(t *testing.T, s *told) {
			s.move(job.Delete)
			s.move(job.Redrive)
		}},
		{"delete: the runner is not refused", "is granted after the job was deleted", nil, func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.move(job.Delete)
			s.end(t, 1, c, job.OK, completed)
		}},

		{"patch: handed out with the old priority", "posted were 0 and 2, patched [7]", nil, func(t *testing.T, s *told) {
			s.do(job.Patch{Job: s.jobs[0].ID, Priority: &priority})
			s.claim(t, 1, 1)
		}},
		{"patch: handed out with a priority that was refused", "posted were 0 and 2", nil, func(t *testing.T, s *told) {
			s.refuse(job.Patch{Job: s.jobs[0].ID, Priority: &priority})
			s.hand(t, 1, 0, 1, func(d *job.Job) { d.Priority = priority })
		}},
		{"patch: either priority after a lost answer", "", nil, func(t *testing.T, s *told) {
			s.journal(job.Patch{Job: s.jobs[0].ID, Priority: &priority})
			s.hand(t, 1, 0, 1, func(d *job.Job) { d.Priority = priority })
			s.claim(t, 1000, 2)
		}},
		{"patch: handed out before its run_at", "before its run_at", nil, func(t *testing.T, s *told) {
			s.do(job.Patch{Job: s.jobs[0].ID, RunAt: &runAt})
			s.claim(t, 1, 1)
		}},
		{"patch: handed out before its run_at after a run now", "", nil, func(t *testing.T, s *told) {
			s.do(job.Patch{Job: s.jobs[0].ID, RunAt: &runAt})
			s.move(job.Run)
			s.claim(t, 1, 1)
		}},
		{"create: handed out before its run_at", "before its run_at", func(b *batch) { b.groups[0].RunAt = 3000 }, func(t *testing.T, s *told) { s.claim(t, 1, 1) }},

		{"unique key: two jobs have it", "have the unique key", keys, func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.hand(t, 1, 1, 1, nil)
		}},
		{"unique key: one job has it after the other", "", keys, func(t *testing.T, s *told) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, completed)
			s.do(sweep)
			s.hand(t, 1, 1, 1, redrives(1))
		}},
		{"unique key: an ended job keeps it", "made no job because of", nil, func(t *testing.T, s *told) {
			s.move(job.Cancel)
			b := &batch{tag: "batch-2", payloads: []string{"batch-2/0/x"}, groups: s.b.groups[:1], moved: true}
			made := store.Made{Existing: []store.Existing{{Line: 0, Job: s.jobs[0].ID}}}
			must(t, s.a.created(b, made, s.receipt(1), stored))
		}},

		{"expiry: handed out for the first time after it", "after it expired", func(b *batch) { b.groups[0].ExpiresAt = 1500 }, func(t *testing.T, s *told) { s.claim(t, 500, 1) }},
		{"expiry: handed out before, and again after it", "", func(b *batch) { b.groups[0].ExpiresAt = 1500 }, func(t *testing.T, s *told) {
			s.claim(t, 10, 1)
			s.claim(t, 1000, 2)
		}},
		{"time-out: a report after it is granted", "after the job's time-out", func(b *batch) { b.groups[0].TimeoutMs = 500 }, func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.receipt(600)
			for range latestTicks + 1 {
				s.journal(job.Tick{})
			}
			s.end(t, 1, c, job.OK, completed)
		}},
		{"time-out: a report after it and a grace is granted", "", func(b *batch) { b.groups[0].TimeoutMs = 500 }, func(t *testing.T, s *told) {
			c := s.claim(t, 1, 1)
			s.receipt(600)
			s.journal(job.Grace{})
			for range latestTicks + 1 {
				s.journal(job.Tick{})
			}
			s.end(t, 1, c, job.OK, completed)
		}},
		{"time-out: it ends a run before the lease does", "", func(b *batch) { b.groups[0].TimeoutMs = 500 }, func(t *testing.T, s *told) {
			s.claim(t, 1, 1)
			s.claim(t, 500, 2)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.make == nil {
				tt.make = func(*batch) {}
			}
			s := tell(t, true, tt.make)
			tt.do(t, s)
			_, err := s.a.audit()
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) && tt.want != "" {
				t.Errorf("the audit says %v, want %q", err, tt.want)
			}
		})
	}
}

// TestRepetitionsUnderAKey: a request that is repeated under its idempotency key has one answer.
func TestRepetitionsUnderAKey(t *testing.T) {
	s := tell(t, false, func(*batch) {})
	if err := s.a.created(s.b, store.Made{}, ingest.Receipt{Seq: 1, At: 1000}, stored); err != nil {
		t.Errorf("the same answer again: %v", err)
	}
	if err := s.a.created(s.b, store.Made{}, s.receipt(1), stored); err == nil {
		t.Error("a create that was carried out twice is not found")
	}
	c := job.Claim{Runner: "r", Max: 1, Once: job.Once{Scope: "claim r", Key: "1"}}
	claim := func(seq uint64) error {
		doc := s.jobs[0]
		doc.Claim, doc.Runner, doc.Status, doc.RunAttempts = job.NewID(1500, seq, 0), "r", job.Active, 1
		return s.a.claimed(ingest.Receipt{Seq: seq, At: 1500}, c, store.Claimed{Claim: doc.Claim, LeaseMs: 1000, Runs: []store.Run{{Batch: 1}}}, []job.Job{doc})
	}
	if err := errors.Join(claim(10), claim(10)); err != nil {
		t.Errorf("the same claim again: %v", err)
	}
	if claim(11) == nil {
		t.Error("a claim that was carried out twice is not found")
	}
}

// TestLookAtMoved: a document of a job that operators move is held against the answers too.
func TestLookAtMoved(t *testing.T) {
	for name, tt := range map[string]struct {
		want string
		do   func(s *told)
		doc  func(*job.Job)
	}{
		"honest":                           {"", func(s *told) { s.move(job.Cancel) }, func(d *job.Job) { d.Status = job.Cancelled }},
		"waits after it was cancelled":     {"answered as cancelled", func(s *told) { s.move(job.Cancel) }, func(d *job.Job) { d.Status = job.Pending }},
		"completed after it was cancelled": {"answered as cancelled", func(s *told) { s.move(job.Cancel) }, func(d *job.Job) { d.Status = job.Completed }},
		"waits after it was redriven":      {"", func(s *told) { s.move(job.Cancel); s.move(job.Redrive) }, func(d *job.Job) { d.Status, d.Redrives = job.Pending, 1 }},
		"is there after it was deleted":    {"was deleted", func(s *told) { s.move(job.Delete) }, func(d *job.Job) { d.Status = job.Pending }},
		"is there after all were deleted":  {"was deleted", func(s *told) { s.moveAll(job.Delete, "batch") }, func(d *job.Job) { d.Status = job.Pending }},
		"expired without a time":           {"expired too early", func(*told) {}, func(d *job.Job) { d.Status, d.Why = job.Cancelled, job.Expired }},
		"an unpatched priority":            {"posted were", func(s *told) { n := 3; s.do(job.Patch{Job: s.jobs[0].ID, Priority: &n}) }, func(d *job.Job) { d.Status = job.Pending }},
		"another client":                   {"posted was", func(*told) {}, func(d *job.Job) { d.Client = "d" }},
	} {
		s := tell(t, true, func(*batch) {})
		tt.do(s)
		u, err := s.a.audit()
		if err != nil {
			t.Fatal(err)
		}
		doc := s.jobs[0]
		tt.doc(&doc)
		if err = u.look(&doc); tt.want == "" && err != nil || tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	// And a job that was acknowledged may only be gone if somebody deleted it, or its retention is over.
	s := tell(t, true, func(b *batch) { b.groups[0].RetentionMs = 1_000_000 })
	u, err := s.a.audit()
	must(t, err)
	if u.mayBePurged(s.b, 0, 5000) {
		t.Error("a lost job is not found")
	}
	s.journal(job.Move{Op: job.Delete, Batch: s.b.id})
	u, err = s.a.audit()
	must(t, err)
	if !u.mayBePurged(s.b, 0, 5000) {
		t.Error("a job that was deleted is taken for lost")
	}
}

// TestCutTooEarly: a journal that was cut too far is noticed.
func TestCutTooEarly(t *testing.T) {
	for _, tt := range []struct {
		first, durable uint64
		bad            bool
	}{{1, 0, false}, {11, 10, false}, {5, 10, false}, {12, 10, true}} {
		if err := covered(tt.first, tt.durable); (err != nil) != tt.bad {
			t.Errorf("a journal from %d and a store with %d: %v", tt.first, tt.durable, err)
		}
	}
}

// TestLook: a document that contradicts the answers is found.
func TestLook(t *testing.T) {
	s := tell(t, false, func(*batch) {})
	c := s.claim(t, 1, 1)
	s.end(t, 10, c, job.OK, store.JobResult{Status: job.Completed})
	u, err := s.a.audit()
	if err != nil {
		t.Fatal(err)
	}
	good := s.jobs[0]
	good.Status, good.Code, good.ExitCode, good.Claim, good.RunAttempts, good.CompletedAt = job.Completed, job.OK, 200, c, 1, 5
	if err := u.look(&good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*job.Job){
		"undone":           func(d *job.Job) { d.Status = job.Pending },
		"other outcome":    func(d *job.Job) { d.ExitCode = 201 },
		"other payload":    func(d *job.Job) { d.Payload = []byte("batch-1/0/X") },
		"strange payload":  func(d *job.Job) { d.Payload = []byte("batch-2/0/x") },
		"other line":       func(d *job.Job) { d.ID = d.ID.WithLine(1) },
		"other client":     func(d *job.Job) { d.Client = "d" },
		"too many runs":    func(d *job.Job) { d.RunAttempts = 3 },
		"by another claim": func(d *job.Job) { d.Claim = job.NewID(1, 99, 0) },
	} {
		doc := good
		change(&doc)
		if u.look(&doc) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestPowerLossKeepsWhatIsDurable tries the disk by itself: what was synced is there after every power loss, what was not goes in some, stays
// in others, and is torn in yet others.
func TestPowerLossKeepsWhatIsDurable(t *testing.T) {
	dir := memory(t)
	lost, kept, torn := 0, 0, 0
	for seed := range uint64(200) {
		base := filepath.Join(dir, fmt.Sprint(seed))
		root := filepath.Join(base, "now")
		folder := filepath.Join(root, "journal")
		must(t, os.MkdirAll(folder, 0o750))
		d, err := newDisk(root, rand.New(rand.NewPCG(seed, 0)), honest)
		must(t, err)
		d.fault = func(string, string) error { return nil }

		synced, grown, unnamed := filepath.Join(folder, "synced"), filepath.Join(folder, "grown"), filepath.Join(folder, "unnamed")
		old, added := strings.Repeat("a", 1000), strings.Repeat("b", 3000)
		for _, path := range []string{synced, grown} {
			must(t, os.WriteFile(path, []byte(old), 0o640))
			must(t, d.sync("sync", path))
		}
		must(t, d.sync("sync", folder))
		must(t, os.WriteFile(grown, []byte(old+added), 0o640))
		must(t, os.WriteFile(unnamed, []byte(old), 0o640))
		must(t, d.sync("sync", unnamed)) // its bytes, not its name

		after := filepath.Join(base, "after")
		_, err = d.afterPowerLoss(after, rand.New(rand.NewPCG(seed, 1)))
		must(t, err)
		if data, err := os.ReadFile(filepath.Join(after, "journal", "synced")); err != nil || string(data) != old {
			t.Fatalf("seed %d: what was synced is %q, %v", seed, data, err)
		}
		data, err := os.ReadFile(filepath.Join(after, "journal", "grown"))
		if err != nil || !strings.HasPrefix(string(data), old) {
			t.Fatalf("seed %d: what was synced of a file that grew is %q, %v", seed, data, err)
		}
		switch string(data) {
		case old:
			lost++
		case old + added:
			kept++
		default:
			torn++
		}
		if data, err := os.ReadFile(filepath.Join(after, "journal", "unnamed")); err == nil && string(data) != old {
			t.Fatalf("seed %d: a file whose name stayed has %q", seed, data)
		}
	}
	if lost < 20 || kept < 20 || torn < 20 {
		t.Errorf("of 200 power losses %d lost, %d kept and %d tore what was not durable", lost, kept, torn)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
