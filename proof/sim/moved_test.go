package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestAuditOfMoves is TestAudit for jobs that operators move. It has an altered account for each promise about them in
// docs/explanation/guarantees.md.
func TestAuditOfMoves(t *testing.T) {
	sweep := job.Move{Op: job.Redrive, Client: "c", Type: "t"}
	completed := applied.JobResult{Status: job.Completed}
	keys := func(b *batch) { b.create.Unique = []job.UniqueKey{{Line: 0, Key: "k"}, {Line: 1, Key: "k"}} }
	priority, runAt := 7, int64(9000)
	for _, tt := range []struct {
		name string
		want string // in the error; "" for an honest account
		make func(*batch)
		do   func(t *testing.T, s *fixture)
	}{
		{"honest", "", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			s.move(job.Redrive)
			s.end(t, 10, s.handOut(t, 1, 0, 1, redrives(1)), job.OK, completed)
			s.moveAll(job.Redrive, "batch")
			s.handOut(t, 1, 0, 1, redrives(2))
			s.moveAll(job.Cancel, "queue")
			s.moveAll(job.Delete, "queue")
		}},

		{"cancel: handed out afterwards", "answered as cancelled", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			s.claim(t, 1, 1)
		}},
		{"cancel: handed out afterwards, although the redrive came before", "answered as cancelled", nil, func(t *testing.T, s *fixture) {
			s.journal(sweep)
			s.move(job.Cancel)
			s.claim(t, 1, 1)
		}},
		{"cancel: handed out afterwards, although another queue was redriven", "answered as cancelled", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			s.grant(job.Move{Op: job.Redrive, Client: "c", Type: "u"})
			s.claim(t, 1, 1)
		}},
		{"cancel: handed out after the command and a redrive that was refused", "answered as cancelled", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			s.refuse(job.Move{Op: job.Redrive, Job: s.jobs[0].ID})
			s.claim(t, 1, 1)
		}},
		{"cancel: handed out after the command and a redrive without an answer", "", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			s.journal(sweep)
			s.handOut(t, 1, 0, 1, redrives(1))
		}},
		{"cancel: of the whole queue, and handed out afterwards", "answered as cancelled", nil, func(t *testing.T, s *fixture) {
			s.moveAll(job.Cancel, "queue")
			s.claim(t, 1, 1)
		}},
		{"cancel: of the whole batch, and handed out afterwards", "answered as cancelled", nil, func(t *testing.T, s *fixture) {
			s.moveAll(job.Cancel, "batch")
			s.claim(t, 1, 1)
		}},
		{"cancel: by a sweep, and handed out after its end", "answered as cancelled", nil, func(t *testing.T, s *fixture) {
			m := job.Move{Op: job.Cancel, Client: "c", Type: "t"}
			r, end := s.journal(m), s.receipt(5)
			s.a.note(end, "the sweep is finished", func(u *audit) error { u.finished(m, r, end.Seq); return nil })
			s.claim(t, 1, 1)
		}},
		{"cancel: by a sweep, and handed out before its end", "", nil, func(t *testing.T, s *fixture) {
			m := job.Move{Op: job.Cancel, Client: "c", Type: "t"}
			r := s.journal(m)
			s.claim(t, 1, 1)
			end := s.receipt(5)
			s.a.note(end, "the sweep is finished", func(u *audit) error { u.finished(m, r, end.Seq); return nil })
		}},
		{"cancel: the runner is not refused", "is granted after the job was answered as cancelled", nil, func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.move(job.Cancel)
			s.end(t, 1, c, job.OK, completed)
		}},
		{"cancel: the runner's tickle is not refused", "is granted after the job was answered as cancelled", nil, func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.move(job.Cancel)
			s.a.tickled(s.receipt(1), job.Tickle{Claim: c}, 0, applied.Tickled{Held: 1})
		}},
		{"cancel: the runner is refused", "", nil, func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.move(job.Cancel)
			s.end(t, 1, c, job.OK, applied.JobResult{Refusal: job.WasCancelled})
		}},
		{"cancel: answered with another status", "answered with pending", nil, func(t *testing.T, s *fixture) {
			m := job.Move{Op: job.Cancel, Job: s.jobs[0].ID}
			s.a.movedOne(s.journal(m), m, applied.Moved{Status: job.Pending})
		}},

		{"end: handed out afterwards, without a redrive", "answered as completed", nil, func(t *testing.T, s *fixture) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, completed)
			s.claim(t, 5000, 2)
		}},
		{"lease: handed out twice", "before the lease", nil, func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.claim(t, 999, 2)
		}},
		{"lease: handed out again after its end", "", nil, func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 2)
		}},
		{"attempts: one was not counted", "after attempt 1", nil, func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.claim(t, 1000, 1)
		}},
		{"attempts: one too many", "runs 3 times of 2", nil, func(t *testing.T, s *fixture) { s.claim(t, 1, 3) }},

		{"redrive: the document shows one that nobody requested", "and 0 may have reached it", nil, func(t *testing.T, s *fixture) { s.handOut(t, 1, 0, 1, redrives(1)) }},
		{"redrive: granted, and the document shows none", "1 redrives of it were granted", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			s.move(job.Redrive)
			s.claim(t, 1, 1)
		}},

		{"delete: handed out afterwards", "after it was deleted", nil, func(t *testing.T, s *fixture) {
			s.move(job.Delete)
			s.claim(t, 1, 1)
		}},
		{"delete: handed out after the command and a redrive of the queue", "after it was deleted", nil, func(t *testing.T, s *fixture) {
			s.move(job.Delete)
			s.grant(sweep)
			s.handOut(t, 1, 0, 1, redrives(1))
		}},
		{"delete: of the whole queue, and handed out afterwards", "after it was deleted", nil, func(t *testing.T, s *fixture) {
			s.moveAll(job.Delete, "queue")
			s.claim(t, 1, 1)
		}},
		{"delete: redriven afterwards", "is granted after it was deleted", nil, func(t *testing.T, s *fixture) {
			s.move(job.Delete)
			s.move(job.Redrive)
		}},
		{"delete: the runner is not refused", "is granted after the job was deleted", nil, func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.move(job.Delete)
			s.end(t, 1, c, job.OK, completed)
		}},

		{"patch: handed out with the old priority", "posted were 0 and 2, patched [7]", nil, func(t *testing.T, s *fixture) {
			s.grant(job.Patch{Job: s.jobs[0].ID, Priority: &priority})
			s.claim(t, 1, 1)
		}},
		{"patch: handed out with a priority that was refused", "posted were 0 and 2", nil, func(t *testing.T, s *fixture) {
			s.refuse(job.Patch{Job: s.jobs[0].ID, Priority: &priority})
			s.handOut(t, 1, 0, 1, func(d *job.Job) { d.Priority = priority })
		}},
		{"patch: either priority after a lost answer", "", nil, func(t *testing.T, s *fixture) {
			s.journal(job.Patch{Job: s.jobs[0].ID, Priority: &priority})
			s.handOut(t, 1, 0, 1, func(d *job.Job) { d.Priority = priority })
			s.claim(t, 1000, 2)
		}},
		{"patch: handed out before its run_at", "before its run_at", nil, func(t *testing.T, s *fixture) {
			s.grant(job.Patch{Job: s.jobs[0].ID, RunAt: &runAt})
			s.claim(t, 1, 1)
		}},
		{"patch: handed out before its run_at after a run now", "", nil, func(t *testing.T, s *fixture) {
			s.grant(job.Patch{Job: s.jobs[0].ID, RunAt: &runAt})
			s.move(job.Run)
			s.claim(t, 1, 1)
		}},
		{"create: handed out before its run_at", "before its run_at", func(b *batch) { b.groups[0].RunAt = 3000 }, func(t *testing.T, s *fixture) { s.claim(t, 1, 1) }},

		{"unique key: two jobs have it", "have the unique key", keys, func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.handOut(t, 1, 1, 1, nil)
		}},
		{"unique key: one job has it after the other", "", keys, func(t *testing.T, s *fixture) {
			s.end(t, 10, s.claim(t, 1, 1), job.OK, completed)
			s.grant(sweep)
			s.handOut(t, 1, 1, 1, redrives(1))
		}},
		{"unique key: an ended job keeps it", "made no job because of", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			b := &batch{tag: "batch-2", payloads: []string{"batch-2/0/x"}, groups: s.b.groups[:1], moved: true}
			made := applied.Made{Existing: []applied.Existing{{Line: 0, Job: s.jobs[0].ID}}}
			must(t, s.a.created(b, made, s.receipt(1), stored))
		}},

		{"expiry: handed out for the first time afterwards", "after it expired", func(b *batch) { b.groups[0].ExpiresAt = 1500 }, func(t *testing.T, s *fixture) { s.claim(t, 500, 1) }},
		{"expiry: handed out before, and again afterwards", "", func(b *batch) { b.groups[0].ExpiresAt = 1500 }, func(t *testing.T, s *fixture) {
			s.claim(t, 10, 1)
			s.claim(t, 1000, 2)
		}},
		{"time-out: a later report is granted", "", func(b *batch) { b.groups[0].TimeoutMs = 500 }, func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.receipt(600)
			for range latestTicks + 1 {
				s.journal(job.Tick{})
			}
			s.end(t, 1, c, job.OK, completed)
		}},
		{"time-out: a report after the time-out and a grace is granted", "", func(b *batch) { b.groups[0].TimeoutMs = 500 }, func(t *testing.T, s *fixture) {
			c := s.claim(t, 1, 1)
			s.receipt(600)
			s.journal(job.Grace{})
			for range latestTicks + 1 {
				s.journal(job.Tick{})
			}
			s.end(t, 1, c, job.OK, completed)
		}},
		{"unclaimed: a cancelled job is completed", "is ended without a claim after", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			s.unclaimed(t, 1, job.OK, completed)
		}},
		{"unclaimed: a redriven job is completed", "", nil, func(t *testing.T, s *fixture) {
			s.move(job.Cancel)
			s.move(job.Redrive)
			s.unclaimed(t, 1, job.OK, completed)
		}},
		{"unclaimed: a retry ends the wait for run_at", "", func(b *batch) { b.groups[0].RunAt = 5000 }, func(t *testing.T, s *fixture) {
			s.unclaimed(t, 1, job.Retry, applied.JobResult{Status: job.Pending})
			s.claim(t, 1, 2)
		}},
		{"unclaimed: a refused retry does not end the wait for run_at", "before its run_at", func(b *batch) { b.groups[0].RunAt = 5000 }, func(t *testing.T, s *fixture) {
			s.unclaimed(t, 1, job.Retry, applied.JobResult{Refusal: job.NotActive})
			s.claim(t, 1, 2)
		}},
		{"time-out: it ends a run before the lease does", "", func(b *batch) { b.groups[0].TimeoutMs = 500 }, func(t *testing.T, s *fixture) {
			s.claim(t, 1, 1)
			s.claim(t, 500, 2)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.make == nil {
				tt.make = func(*batch) {}
			}
			s := newFixture(t, true, tt.make)
			tt.do(t, s)
			_, err := s.a.audit()
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) && tt.want != "" {
				t.Errorf("the audit returns %v, want %q", err, tt.want)
			}
		})
	}
}

// TestLookAtMoved: the audit also checks the document of a job that operators move.
func TestLookAtMoved(t *testing.T) {
	for name, tt := range map[string]struct {
		want string
		do   func(s *fixture)
		doc  func(*job.Job)
	}{
		"honest":                           {"", func(s *fixture) { s.move(job.Cancel) }, func(d *job.Job) { d.Status = job.Cancelled }},
		"waits after it was cancelled":     {"answered as cancelled", func(s *fixture) { s.move(job.Cancel) }, func(d *job.Job) { d.Status = job.Pending }},
		"completed after it was cancelled": {"answered as cancelled", func(s *fixture) { s.move(job.Cancel) }, func(d *job.Job) { d.Status = job.Completed }},
		"waits after it was redriven":      {"", func(s *fixture) { s.move(job.Cancel); s.move(job.Redrive) }, func(d *job.Job) { d.Status, d.Redrives = job.Pending, 1 }},
		"is there after it was deleted":    {"was deleted", func(s *fixture) { s.move(job.Delete) }, func(d *job.Job) { d.Status = job.Pending }},
		"is there after all were deleted":  {"was deleted", func(s *fixture) { s.moveAll(job.Delete, "batch") }, func(d *job.Job) { d.Status = job.Pending }},
		"expired without a time":           {"expired too early", func(*fixture) {}, func(d *job.Job) { d.Status, d.Why = job.Cancelled, job.Expired }},
		"an unpatched priority":            {"posted were", func(s *fixture) { n := 3; s.grant(job.Patch{Job: s.jobs[0].ID, Priority: &n}) }, func(d *job.Job) { d.Status = job.Pending }},
		"another client":                   {"posted was", func(*fixture) {}, func(d *job.Job) { d.Client = "d" }},
	} {
		s := newFixture(t, true, func(*batch) {})
		tt.do(s)
		u, err := s.a.audit()
		testkit.NoError(t, err)
		doc := s.jobs[0]
		tt.doc(&doc)
		if err = u.checkDocument(&doc); tt.want == "" && err != nil || tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	// An acknowledged job may be missing only if somebody deleted it, or after its retention.
	s := newFixture(t, true, func(b *batch) { b.groups[0].RetentionMs = 1_000_000 })
	u, err := s.a.audit()
	must(t, err)
	if u.mayBePurged(s.b, 0, 5000) {
		t.Error("a lost job is not found")
	}
	s.journal(job.Move{Op: job.Delete, Batch: s.b.id})
	u, err = s.a.audit()
	must(t, err)
	if !u.mayBePurged(s.b, 0, 5000) {
		t.Error("a job that was deleted counts as lost")
	}
}
