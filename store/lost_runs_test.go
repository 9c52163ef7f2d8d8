package store

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// TestLostRunner: runs of a lost runner that had begun count as attempts, and their jobs wait for their backoff. All
// other jobs of the runner are pending at once, and lose no attempt.
func TestLostRunner(t *testing.T) {
	c := newCompleting(t)
	first := c.Create(6, func(c *job.Create) { c.Groups[0].MaxAttempts = 2 })
	claim := func() job.ID {
		cmd := plainClaim("r", 6)
		cmd.Announced, cmd.Begins = true, 1
		return c.Apply(cmd).(*applied.Claimed).Claim
	}
	lose := func() { c.Apply(job.LoseRunner{Runner: "r", Through: c.seq}) }
	id := claim()
	// The first run began with the claim, the third with a tickle that names it. A tickle of the whole claim begins no
	// run.
	c.Apply(job.Tickle{Claim: id, IDs: []job.ID{first.WithLine(2)}, Progress: -1})
	c.Apply(job.Tickle{Claim: id, Progress: -1})
	c.Apply(job.Tickle{Runner: "r", Progress: -1})
	sound(t, c.s)
	lose()
	for line := range 6 {
		if begun := line == 0 || line == 2; begun {
			doc := c.is(first.WithLine(line), job.Deferred, 1)
			if len(doc.Attempts) != 1 || doc.Attempts[0].Why != job.RunnerLost || doc.Attempts[0].Runner != "r" || doc.Attempts[0].Error != job.LostText || doc.RunAt <= startAt {
				t.Errorf("job %d: %+v", line, doc)
			}
		} else if doc := c.is(first.WithLine(line), job.Pending, 0); len(doc.Attempts) != 0 {
			t.Errorf("job %d: %+v", line, doc)
		}
	}
	// The second loss uses up the attempts of the job that is first in line again.
	c.at += 100_000
	c.Apply(job.Tick{})
	c.is(first, job.Pending, 1)
	claim()
	lose()
	if doc := c.is(first, job.Failed, 2); doc.Why != job.RunnerLost || len(doc.Attempts) != 2 {
		t.Errorf("%+v", doc)
	}
	sound(t, c.s)
}

// TestLateOutcome: the outcome of a job's last run is accepted while the job waits again, unless it was claimed since.
// It replaces the attempt that counted as abandoned.
func TestLateOutcome(t *testing.T) {
	type fixture struct {
		*completing
		id    job.ID
		claim job.ID
	}
	abandoned := func(t *testing.T) *fixture {
		c := newCompleting(t)
		f := &fixture{completing: c, id: c.Create(3, func(c *job.Create) { c.Groups[0].LeaseMs = 1000 })}
		f.claim = c.Apply(plainClaim("r", 1)).(*applied.Claimed).Claim
		c.at += 2000
		c.Apply(job.Tick{})
		c.is(f.id, job.Pending, 1)
		return f
	}
	lost := func(t *testing.T) *fixture {
		c := newCompleting(t)
		f := &fixture{completing: c, id: c.Create(3, nil)}
		f.claim = c.Apply(plainClaim("r", 1)).(*applied.Claimed).Claim
		c.Apply(job.LoseRunner{Runner: "r", Through: c.seq})
		c.is(f.id, job.Deferred, 1)
		return f
	}
	end := func(f *fixture, o job.Outcome) applied.JobResult {
		o.ID, o.DelayMs = f.id, -1
		return f.Apply(job.Complete{Claim: f.claim, Outcomes: []job.Outcome{o}}).(*applied.Ended).Results[0]
	}
	ok, bad := job.Outcome{Code: job.OK, ExitCode: 200}, job.Outcome{Code: job.Error, ExitCode: 500, Error: "broken"}
	for name, begin := range map[string]func(*testing.T) *fixture{"lease": abandoned, "runner lost": lost} {
		t.Run(name+", ok", func(t *testing.T) {
			f := begin(t)
			for range 2 { // the repeat succeeds
				if r := end(f, ok); r.Refusal != job.Granted || r.Status != job.Completed {
					t.Fatalf("%+v", r)
				}
			}
			if doc := f.is(f.id, job.Completed, 1); len(doc.Attempts) != 0 || doc.Claim != f.claim || doc.Runner != "r" {
				t.Errorf("%+v", doc)
			}
		})
		t.Run(name+", error", func(t *testing.T) {
			f := begin(t)
			if r := end(f, bad); r.Refusal != job.Granted || r.Status != job.Deferred {
				t.Fatalf("%+v", r)
			}
			doc := f.is(f.id, job.Deferred, 1)
			if len(doc.Attempts) != 1 || doc.Attempts[0].Why != job.Reported || doc.Attempts[0].Error != "broken" {
				t.Errorf("%+v", doc)
			}
			testkit.Equal(t, end(f, ok).Refusal, job.OutcomeDiffers, "another outcome")
		})
		t.Run(name+", of all of the claim", func(t *testing.T) {
			f := begin(t)
			for range 2 {
				if e := f.Apply(job.Complete{Claim: f.claim, All: &ok}).(*applied.Ended); e.All != 1 || e.Refusal != job.Granted {
					t.Fatalf("%+v", e)
				}
			}
			f.is(f.id, job.Completed, 1)
		})
		t.Run(name+", refused", func(t *testing.T) {
			for what, c := range map[string]struct {
				before  func(f *fixture)
				outcome job.Outcome
				want    job.Refusal
			}{
				"another claim has it": {func(f *fixture) {
					f.at += 100_000
					f.Apply(job.Tick{})
					f.Apply(plainClaim("q", 3))
				}, ok, job.ClaimLost},
				"it is cancelled": {func(f *fixture) { f.Apply(job.Move{Op: job.Cancel, Job: f.id}) }, ok, job.ClaimLost},
				"it was redriven": {func(f *fixture) {
					f.Apply(job.Move{Op: job.Cancel, Job: f.id})
					f.Apply(job.Move{Op: job.Redrive, Job: f.id})
				}, ok, job.ClaimLost},
				"it is given back": {func(*fixture) {}, job.Outcome{Code: job.Unget}, job.ClaimLost},
			} {
				f := begin(t)
				c.before(f)
				testkit.Equal(t, end(f, c.outcome).Refusal, c.want, what)
			}
		})
		t.Run(name+", told to the runner", func(t *testing.T) {
			f := begin(t)
			tickled := f.Apply(job.Tickle{Claim: f.claim, Progress: -1}).(*applied.Tickled)
			if tickled.Refusal != job.ClaimLost || len(tickled.Lost) != 1 || tickled.Lost[0].Refusal != job.ClaimLost {
				t.Errorf("%+v", tickled)
			}
		})
		t.Run(name+", checked", func(t *testing.T) {
			f := begin(t)
			end(f, ok)
			mustCommit(t, f.s)
			sound(t, f.s)
		})
	}
	t.Run("a run that was given back has no late outcome", func(t *testing.T) {
		f := lost(t)
		f.at += 100_000
		f.Apply(job.Tick{})
		f.claim = f.Apply(plainClaim("r", 1)).(*applied.Claimed).Claim
		end(f, job.Outcome{Code: job.Unget})
		testkit.Equal(t, end(f, ok).Refusal, job.ClaimLost)
	})
}

// TestAllIsNotForNamedJobs: a job with a separate outcome in a request does not get the outcome for the whole claim,
// even if the separate outcome is refused. The job may be active or wait again.
func TestAllIsNotForNamedJobs(t *testing.T) {
	all := job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}
	t.Run("late", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(4, func(c *job.Create) { c.Groups[0].LeaseMs = 1000 })
		claim := c.Apply(plainClaim("r", 4)).(*applied.Claimed).Claim
		c.at += 2000
		c.Apply(job.Tick{})
		unget := job.Outcome{ID: id.WithLine(1), Code: job.Unget, DelayMs: -1}
		got := c.Apply(job.Complete{Claim: claim, All: &all, Outcomes: []job.Outcome{unget}}).(*applied.Ended)
		if got.All != 3 || got.Results[0].Refusal != job.ClaimLost {
			t.Fatalf("%+v", got)
		}
		for line, status := range []job.Status{job.Completed, job.Pending, job.Completed, job.Completed} {
			c.is(id.WithLine(line), status, 1)
		}
	})
	t.Run("active", func(t *testing.T) {
		c := newCompleting(t)
		id := c.Create(3, func(c *job.Create) { c.Groups[0].Hops = job.MaxHops })
		claim := c.Apply(plainClaim("r", 3)).(*applied.Claimed).Claim
		chains := job.Outcome{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1, Then: oneChained("", "x", "p")}
		got := c.Apply(job.Complete{Claim: claim, All: &all, Outcomes: []job.Outcome{chains}}).(*applied.Ended)
		if got.All != 2 || got.Results[0].Refusal != job.TooManyHops {
			t.Fatalf("%+v", got)
		}
		c.is(id, job.Active, 1)
	})
}

// TestDamagedRunIsNotReportedLate: a job was set aside because its payload could not be read. Its next run starts from
// the beginning, and the runner of the previous run cannot end it.
func TestDamagedRunIsNotReportedLate(t *testing.T) {
	runAt := int64(startAt + 5000)
	for name, run := range map[string]func(id job.ID) job.Command{
		"run":   func(id job.ID) job.Command { return job.Move{Op: job.Run, Job: id} },
		"patch": func(id job.ID) job.Command { return job.Patch{Job: id, RunAt: &runAt} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCompleting(t)
			id := c.Create(1, nil)
			claim := c.Apply(plainClaim("r", 1)).(*applied.Claimed).Claim
			c.Apply(job.Complete{Claim: claim, Outcomes: []job.Outcome{{ID: id, Code: job.Damaged, DelayMs: -1}}})
			c.Apply(run(id))
			if got := c.Apply(job.Complete{Claim: claim, Outcomes: []job.Outcome{outcomeOf(id, job.OK)}}).(*applied.Ended).Results[0]; got.Refusal != job.ClaimLost {
				t.Errorf("%+v", got)
			}
		})
	}
}
