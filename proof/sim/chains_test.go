package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// chainFixture is a fixture whose jobs were completed, with the documents that a server then shows.
type chainFixture struct {
	*fixture
	listed map[job.ID]job.Job
}

// complete adds a completion without an answer to the journal.
func (s *chainFixture) complete(claim job.ID, outcomes ...job.Outcome) completion {
	r := s.receipt(10)
	c := completion{r.Seq, r.At, job.Complete{Claim: claim, Outcomes: outcomes}}
	s.a.completions = append(s.a.completions, c)
	return c
}

// show sets the document of one of the two jobs of the batch: a completion ended its run, with its first outcome.
func (s *chainFixture) show(line int, by completion) {
	doc := s.jobs[line]
	o := by.cmd.All
	if o == nil {
		o = &by.cmd.Outcomes[0]
	}
	doc.Status, doc.Why, doc.Code, doc.ExitCode, doc.Claim, doc.CompletedAt = job.Completed, job.Reported, o.Code, o.ExitCode, by.cmd.Claim, by.at
	s.listed[doc.ID] = doc
}

// chained adds the document of a chained job that a completion created.
func (s *chainFixture) chained(line int, of completion, payload string, change func(*job.Job)) job.ID {
	doc := job.Job{
		ID: job.NewID(of.at, of.seq, line), Client: "c", Type: "u", Payload: []byte(payload), Status: job.Pending, CreatedAt: of.at,
		Attributes: job.Attributes{Kind: job.Text, MaxAttempts: 3, LeaseMs: 1000, Meta: "a=b", Hops: 1},
	}
	if change != nil {
		change(&doc)
	}
	s.listed[doc.ID] = doc
	return doc.ID
}

// creates returns an outcome, of the job in a line, that creates jobs with these payloads.
func (s *chainFixture) creates(line int, payloads ...string) job.Outcome {
	then := &job.Create{Frame: job.LenFrame, Groups: []job.Group{{Lines: len(payloads), Type: "u", Attributes: job.Attributes{Kind: job.Text, MaxAttempts: 3, LeaseMs: 1000}}}}
	for _, p := range payloads {
		then.Payloads = then.Frame.Append(then.Payloads, []byte(p))
	}
	return job.Outcome{ID: s.jobs[line].ID, Code: job.OK, ExitCode: 200, Then: then}
}

// unique gives the jobs that an outcome creates the same unique key.
func unique(o job.Outcome) job.Outcome {
	for line := range o.Then.Lines() {
		o.Then.Unique = append(o.Then.Unique, job.UniqueKey{Line: line, Key: "k"})
	}
	return o
}

func keyed(d *job.Job) { d.UniqueKey = "k" }

// TestAuditOfChains is TestAudit for jobs that completions create. Only job 1 has an on_complete.
func TestAuditOfChains(t *testing.T) {
	next := job.Group{Type: "u", Attributes: job.Attributes{MaxAttempts: 3, LeaseMs: 1000}}
	onComplete, err := job.NewFollowOn(&next, 500)
	must(t, err)
	followed := func(of completion) func(*job.Job) {
		return func(d *job.Job) { d.RunAt, d.Status = of.at+500, job.Deferred }
	}
	result := func(o job.Outcome) job.Outcome {
		o.Then, o.OutputKind, o.Output = nil, job.Text, []byte("out")
		return o
	}
	claim, other := job.NewID(1500, 50, 0), job.NewID(1600, 60, 0)
	for _, tt := range []struct {
		name string
		want string // in the error; "" for an honest account
		do   func(t *testing.T, s *chainFixture)
	}{
		{"honest", "", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, s.creates(0, "x", "y"), result(s.creates(1)))
			s.show(0, c)
			s.show(1, c)
			s.chained(0, c, "x", nil)
			s.chained(1, c, "y", nil)
			s.chained(2, c, "out", followed(c))
			s.complete(claim, s.creates(0, "x", "y")) // a repeat creates none
		}},
		{"an outcome for all of a claim, and the job that follows", "", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim)
			o := result(s.creates(1))
			o.ID = job.ID{}
			c.cmd.All = &o
			s.a.completions[0] = c
			s.show(1, c)
			s.chained(0, c, "out", followed(c))
		}},
		{"a lost chain", "is missing", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, s.creates(0, "x", "y"))
			s.show(0, c)
			s.chained(0, c, "x", nil)
		}},
		{"a lost job that follows", "is missing", func(t *testing.T, s *chainFixture) {
			s.show(1, s.complete(claim, result(s.creates(1))))
		}},
		{"a lost chain of a job that was deleted after its retention", "is missing", func(t *testing.T, s *chainFixture) {
			c := s.claim(t, 1, 1)
			s.end(t, 10, c, job.OK, applied.JobResult{Status: job.Completed})
			s.a.completions = append(s.a.completions, completion{s.seq, s.at, job.Complete{Claim: c, Outcomes: []job.Outcome{s.creates(0, "x")}}})
		}},
		{"a chain without an answer of a job that was deleted after its retention", "", func(t *testing.T, s *chainFixture) {
			s.a.unanswered(s.complete(s.claim(t, 1, 1), s.creates(0, "x")).cmd, nil)
		}},
		{"a doubled chain", "is none of the 1 jobs", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, s.creates(0, "x"))
			s.show(0, c)
			s.chained(0, c, "x", nil)
			s.chained(1, c, "x", nil)
		}},
		{"a repeat that chains again", "is none of the 0 jobs", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, s.creates(0, "x"))
			s.show(0, c)
			s.chained(0, c, "x", nil)
			s.chained(0, s.complete(claim, s.creates(0, "x")), "x", nil)
		}},
		{"a chain of a refused outcome", "is none of the 0 jobs", func(t *testing.T, s *chainFixture) {
			o := s.creates(0)
			o.Then = nil
			s.show(0, s.complete(other, o))
			s.chained(0, s.complete(claim, s.creates(0, "x")), "x", nil)
		}},
		{"a chain of a completion that is not in the journal", "has no completion of that seq", func(t *testing.T, s *chainFixture) {
			s.chained(0, completion{seq: 90, at: 900}, "x", nil)
		}},
		{"an end that is not in the journal", "has no such completion", func(t *testing.T, s *chainFixture) {
			s.show(0, completion{seq: 90, at: 900, cmd: job.Complete{Claim: claim, Outcomes: []job.Outcome{s.creates(0, "x")}}})
		}},
		{"another payload", "is none of", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, s.creates(0, "x"))
			s.show(0, c)
			s.chained(0, c, "y", nil)
		}},
		{"meta that is not inherited", "is none of", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, s.creates(0, "x"))
			s.show(0, c)
			s.chained(0, c, "x", func(d *job.Job) { d.Meta = "" })
		}},
		{"hops that do not count", "is none of", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, s.creates(0, "x"))
			s.show(0, c)
			s.chained(0, c, "x", func(d *job.Job) { d.Hops = 2 })
		}},
		{"a chained job that is handed out early", "ms before its run_at", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, result(s.creates(1)))
			s.show(1, c)
			id := s.chained(0, c, "out", func(d *job.Job) { followed(c)(d); d.Status = job.Active; d.Claim, d.RunAttempts = other, 1 })
			s.jobs[0] = s.listed[id]
			s.handOut(t, 400, 0, 1, nil)
		}},
		{"a chained job that was handed out is lost", "no longer exists", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, unique(s.creates(0, "x")))
			s.show(0, c)
			id := s.chained(0, c, "x", keyed)
			s.jobs[0] = s.listed[id]
			s.handOut(t, 1, 0, 1, nil)
			delete(s.listed, id)
		}},
		{"a unique key that another chained job has", "", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, unique(s.creates(0, "x", "y")))
			s.show(0, c)
			s.chained(0, c, "x", keyed)
		}},
		{"a unique key that no unfinished job has", "is missing", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, unique(s.creates(0, "x")))
			s.show(0, c)
			s.chained(0, c, "x", func(d *job.Job) {
				keyed(d)
				d.Status, d.Why, d.RunAttempts, d.CompletedAt = job.Failed, job.Abandoned, 3, c.at+5
			})
			o := unique(s.creates(1, "y"))
			o.Code, o.ExitCode = job.Fail, 400 // no job follows
			s.show(1, s.complete(claim, o))
		}},
		{"a unique key that two unfinished jobs have", "were both unfinished", func(t *testing.T, s *chainFixture) {
			c := s.complete(claim, unique(s.creates(0, "x", "y")))
			s.show(0, c)
			s.chained(0, c, "x", keyed)
			s.chained(1, c, "y", keyed)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, false, func(b *batch) {
				one := *b.groups[0]
				one.Meta = "a=b"
				two := one
				two.OnComplete = onComplete
				b.groups = []*job.Group{&one, &two}
			})
			s := &chainFixture{f, map[job.ID]job.Job{}}
			tt.do(t, s)
			u, err := s.a.audit()
			must(t, err)
			_, _, err = u.checkChains(s.listed)
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) && tt.want != "" {
				t.Errorf("the audit returns %v, want %q", err, tt.want)
			}
		})
	}
}
