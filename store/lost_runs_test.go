package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
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
			testkit.Holds(t, len(doc.Attempts) == 1 && doc.Attempts[0].Why == job.RunnerLost &&
				doc.Attempts[0].Runner == "r" && doc.Attempts[0].Error == job.LostText && doc.RunAt > startAt, "job", line, doc)
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
	doc := c.is(first, job.Failed, 2)
	testkit.Holds(t, doc.Why == job.RunnerLost && len(doc.Attempts) == 2, doc)
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
				r := end(f, ok)
				testkit.MustHold(t, r.Refusal == job.Granted && r.Status == job.Completed, r)
			}
			doc := f.is(f.id, job.Completed, 1)
			testkit.Holds(t, len(doc.Attempts) == 0 && doc.Claim == f.claim && doc.Runner == "r", doc)
		})
		t.Run(name+", error", func(t *testing.T) {
			f := begin(t)
			r := end(f, bad)
			testkit.MustHold(t, r.Refusal == job.Granted && r.Status == job.Deferred, r)
			doc := f.is(f.id, job.Deferred, 1)
			testkit.Holds(t, len(doc.Attempts) == 1 && doc.Attempts[0].Why == job.Reported && doc.Attempts[0].Error == "broken", doc)
			testkit.Equal(t, end(f, ok).Refusal, job.OutcomeDiffers, "another outcome")
		})
		t.Run(name+", of all of the claim", func(t *testing.T) {
			f := begin(t)
			for range 2 {
				e := f.Apply(job.Complete{Claim: f.claim, All: &ok}).(*applied.Ended)
				testkit.MustHold(t, e.All == 1 && e.Refusal == job.Granted, e)
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
			testkit.Holds(t, tickled.Refusal == job.ClaimLost && len(tickled.Lost) == 1 && tickled.Lost[0].Refusal == job.ClaimLost, tickled)
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
		testkit.MustEqual(t, got.All, 3, got)
		testkit.MustEqual(t, got.Results[0].Refusal, job.ClaimLost, got)
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
		testkit.MustEqual(t, got.All, 2, got)
		testkit.MustEqual(t, got.Results[0].Refusal, job.TooManyHops, got)
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
			got := c.Apply(job.Complete{Claim: claim, Outcomes: []job.Outcome{outcomeOf(id, job.OK)}}).(*applied.Ended).Results[0]
			testkit.Equal(t, got.Refusal, job.ClaimLost, got)
		})
	}
}

// TestCancelledIsTold: the runner of a cancelled job is notified by the answer to its next request.
func TestCancelledIsTold(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 3, 3))
	c := mustApply(t, s, 2, 0, plainClaim("r", 3)).(*applied.Claimed)
	first, last := jobID(0, 1, 0), jobID(0, 1, 2)
	mustApply(t, s, 3, 1, job.Move{Op: job.Cancel, Job: first})
	seq := uint64(3)
	tickle := func(tk job.Tickle, at int64) *applied.Tickled {
		seq++
		tk.Progress = -1
		return mustApply(t, s, seq, at, tk).(*applied.Tickled)
	}
	told := func(what string, got *applied.Tickled, held int, refusal job.Refusal, lost ...job.ID) {
		t.Helper()
		var ids []job.ID
		for _, l := range got.Lost {
			testkit.Equal(t, l.Refusal, job.WasCancelled, what)
			ids = append(ids, l.ID)
		}
		testkit.Holds(t, got.Held == held && got.Refusal == refusal &&
			fmt.Sprint(ids) == fmt.Sprint(lost), what, got, "want", held, "held", lost, "lost")
	}
	told("claim", tickle(job.Tickle{Claim: c.Claim}, 10), 2, job.Granted, first)
	told("runner", tickle(job.Tickle{Runner: "r"}, 11), 2, job.Granted, first)
	told("job", tickle(job.Tickle{IDs: []job.ID{first}}, 12), 0, job.Granted, first)
	seq++
	ended := mustApply(t, s, seq, 13, job.Complete{Claim: c.Claim, Outcomes: []job.Outcome{{ID: first, Code: job.OK, ExitCode: 200, DelayMs: -1}}}).(*applied.Ended)
	testkit.Equal(t, ended.Results[0].Refusal, job.WasCancelled)
	seq++
	mustApply(t, s, seq, 14, job.Move{Op: job.Cancel, Batch: first.WithLine(0)})
	told("runner of nothing", tickle(job.Tickle{Runner: "r"}, 15), 0, job.ClaimLost, first, first.WithLine(1), last)
	told("claim of nothing", tickle(job.Tickle{Claim: c.Claim}, 16), 0, job.WasCancelled, first, first.WithLine(1), last)
	seq++
	ended = mustApply(t, s, seq, 17, job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}).(*applied.Ended)
	testkit.Equal(t, ended.Refusal, job.WasCancelled, "completion of all")
	told("runner, much later", tickle(job.Tickle{Runner: "r"}, 20+job.NoticeMs), 0, job.ClaimLost)
	mustCommit(t, s)
	doc, err := s.Job(first)
	testkit.Holds(t, err == nil && doc.Status == job.Cancelled && doc.Why == job.Asked && doc.Claim == c.Claim && len(doc.Attempts) == 1 &&
		doc.Attempts[0].Why == job.Asked, doc, err)
}

// TestRunEndsOfRandomCommands: an observer gets the end of each run exactly once: in the command whose effects say that
// its job is no longer active, or that a run of a waiting job has ended. A store with an observer has the same keys and
// values as a store without one.
func TestRunEndsOfRandomCommands(t *testing.T) {
	outcomes, batchEnds := map[string]int{}, map[job.BatchStatus]int{}
	for seed := uint64(1); seed <= seedsOr(*sameSeedsFlag, 24, 12); seed++ {
		g := newGenerator(seed)
		g.length *= 3
		live := playLive(t, seed, g)
		ends := live.s.TakeRunEnds()
		testkit.Holds(t, len(ends) == 0, "seed", seed, "without an observer there are", len(ends), "ends")
		options := otherCaches(g.options, rand.New(rand.NewPCG(seed, 1)))
		options.FS = vfs.NewMem()
		observed := &player{options: options, replay: newReplay()}
		observed.s = testkit.Must(Open("store", options))(t)
		observed.s.ObserveRunEnds()
		observed.s.ObserveBatchEnds()
		ended := map[job.ID]bool{}
		for _, st := range live.log {
			testkit.Must(observed.s.ApplyRecord(st.seq, st.at, &job.Place{}, &st.by, st.cmd))(t)
			ends, batches := slices.Clone(observed.s.TakeRunEnds()), observed.s.TakeBatchEnds()
			testkit.NoError(t, observed.s.Commit())
			for _, e := range batches {
				testkit.MustHold(t, !ended[e.ID], "seed", seed, st, "batch", e.ID, "ends again")
				ended[e.ID] = true
				doc, err := observed.s.Batch(e.ID)
				if errors.Is(err, job.BatchNotFound) { // it ended when it was deleted
					continue
				}
				if err != nil || doc.Status != e.Status || doc.EndedAt != e.EndedAt || doc.CreatedAt != e.CreatedAt || doc.Submission.Client != e.Client || doc.Submission.Type != e.Type || e.EndedAt != st.at {
					t.Fatalf("seed %d: %v: %+v, and the batch is %+v (%v)", seed, st, e, doc, err)
				}
				batchEnds[e.Status]++
			}
			got, want := linesOfEnds(ends), linesOfEndedRuns(observed.s.Effects())
			testkit.MustHold(t, slices.Equal(got, want), "seed", seed, st, "runs that ended", got, "lines whose runs have ended", want)
			for _, e := range ends {
				outcomes[e.Outcome] += e.Jobs
				own := e.Claim == job.NewID(e.EndedAt, st.seq, 0) // the run began in this command, which no runner sent
				if own {
					outcomes["unclaimed"] += e.Jobs
				}
				testkit.MustHold(t, e.Attempt >= 1 && own == (e.Runner == "") && (!own || e.StartedAt == e.EndedAt) && e.Client != "" && e.Type != "" &&
					e.StartedAt >= startAt && e.EndedAt >= e.StartedAt && !e.Claim.IsZero() && e.Status != job.Active, "seed", seed, st, e)
			}
		}
		for status := job.BatchCompleted; int(status) < job.NumBatchStatus; status++ {
			docs, _ := testkit.Must2(observed.s.Batches(query.BatchFilter{Status: status, Limit: job.MaxPage}))(t)
			for i := range docs {
				testkit.MustHold(t, docs[i].Submission == nil || ended[docs[i].ID], "seed", seed, "nobody heard of the end of batch", docs[i])
			}
		}
		testkit.Check(t, sameStores(live.s, observed.s), "seed", seed)
		testkit.Check(t, live.s.Close())
		testkit.Check(t, observed.s.Close())
	}
	for _, outcome := range []string{"ok", "failed", "retry", "error", "unget", "unclaimed", job.RunAbandoned, job.RunCancelled, job.RunDeleted} {
		testkit.Holds(t, outcomes[outcome] != 0, "no run ended as", outcome, "there were", outcomes)
	}
	for status := job.BatchCompleted; int(status) < job.NumBatchStatus; status++ {
		testkit.Holds(t, batchEnds[status] != 0, "no batch ended as", status, "there were", batchEnds)
	}
}

func linesOfEnds(ends []job.RunEnd) (lines []string) {
	for _, e := range ends {
		for i := range e.Jobs {
			id := e.First.WithLine(e.First.Line() + i)
			lines = append(lines, fmt.Sprintf("%d/%d to %v", id.LowSeq(), id.Line(), e.Status))
		}
	}
	return lines
}

func linesOfEndedRuns(effects []row.Effect) (lines []string) {
	for _, e := range effects {
		for line := e.Run.First; (e.From == job.Active && e.To != job.Active || e.Reason == job.ReasonEnded) && line <= e.Run.Last; line++ {
			lines = append(lines, fmt.Sprintf("%d/%d to %v", job.NewID(0, e.Run.Batch, 0).LowSeq(), line, e.To))
		}
	}
	return lines
}

func TestBriefError(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{strings.Repeat("x", job.MaxRunEndError), strings.Repeat("x", job.MaxRunEndError)},
		{strings.Repeat("x", job.MaxRunEndError+1), strings.Repeat("x", job.MaxRunEndError)},
		{strings.Repeat("x", job.MaxRunEndError-1) + "ü", strings.Repeat("x", job.MaxRunEndError-1)},
	} {
		testkit.Equal(t, memory.BriefError(c.text), c.want, len(c.text), "bytes become")
	}
}

// TestOwnLeaseAfterAPromise: a tickle of the runner promised a late end, and a later tickle of the claim ends the
// promise. A job with its own lease is then abandoned when that lease ends, not when the promise would have ended.
func TestOwnLeaseAfterAPromise(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 2, 3))
	claim := mustApply(t, s, 2, 0, plainClaim("r", 2)).(*applied.Claimed).Claim
	own := jobID(0, 1, 0)
	mustApply(t, s, 3, 0, job.Tickle{IDs: []job.ID{own}, Claim: claim, LeaseMs: 1000, Progress: -1})
	mustApply(t, s, 4, 500, job.Tickle{Runner: "r", LeaseMs: 60_000, Progress: -1})
	mustApply(t, s, 5, 2000, job.Tick{})
	status := func(at int64) job.Status {
		t.Helper()
		mustCommit(t, s)
		doc := testkit.Must(s.Job(own))(t)
		sound(t, s, "at", at)
		return doc.Status
	}
	testkit.MustEqual(t, status(2000), job.Active, "while the promise")
	mustApply(t, s, 6, 3000, job.Tickle{Claim: claim, Progress: -1})
	status(3000)
	testkit.Equal(t, s.NextDue(), startAt+4000)
	mustApply(t, s, 7, 4000, job.Tick{})
	testkit.Equal(t, status(4000), job.Pending, "after its own lease")
}

// lifecycle claims up to n jobs for a runner and completes them, with a commit after each command. It returns the next
// seq.
func lifecycle(t testing.TB, s *Store, seq uint64, at int64, runner string, n int) uint64 {
	t.Helper()
	c := mustApply(t, s, seq, at, plainClaim(runner, n)).(*applied.Claimed)
	testkit.MustHold(t, c.Jobs() != 0, "nothing to claim")
	mustCommit(t, s)
	mustStore(t, s, seq+1, at, job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
	return seq + 2
}

// stepsToRead returns how many entries Pebble reads to find a key, or that it does not exist.
func stepsToRead(t testing.TB, s *Store, key string) int {
	t.Helper()
	v := s.db.View()
	defer v.Close()
	v.Get(key)
	stats := v.Stats()
	return stats.ForwardStepCount[pebble.InternalIterCall] + stats.ForwardSeekCount[pebble.InternalIterCall]
}

// TestRunnerRowStaysBetweenClaims: if the row of a runner were deleted and set again, each read of it would walk over
// all these versions until Pebble flushes.
func TestRunnerRowStaysBetweenClaims(t *testing.T) {
	s := mustOpen(t, Options{})
	const rounds = 2000
	mustApply(t, s, 1, 0, plainCreate("a", "x", rounds, 5))
	seq := uint64(2)
	for range rounds {
		seq = lifecycle(t, s, seq, 1, "r", 1)
	}
	steps := stepsToRead(t, s, row.RunnerKey(row.RunnerTable, "r"))
	testkit.Holds(t, steps <= 10, "reading a runner that claimed", rounds, "times takes", steps, "steps")
	timers := 0
	for _, entry := range dump(s) {
		if entry.key[0] == row.TimerTable && entry.key[9] == row.RunnerTimer {
			timers++
		}
	}
	testkit.Equal(t, timers, 1)
	list, more, err := s.Runners("", 10)
	testkit.Holds(t, len(list) == 0 && !more && err == nil, "runners that hold something", list, more, err)
}

// TestIdleRunnersAreForgotten: the row of a runner that does not return is deleted a minute later. The row of a runner
// that does return stays.
func TestIdleRunnersAreForgotten(t *testing.T) {
	s := mustOpen(t, Options{})
	const runners = 300 // more than a tick handles
	mustApply(t, s, 1, 0, plainCreate("a", "x", 1000, 5))
	seq := uint64(2)
	for i := range runners {
		seq = lifecycle(t, s, seq, 1, fmt.Sprintf("r%d", i), 1)
	}
	seq = lifecycle(t, s, seq, machine.RunnerIdleMs/2, "r7", 1)
	rows := func() (names []string) {
		for _, entry := range dump(s) {
			if entry.key[0] == row.RunnerTable {
				names = append(names, row.RunnerOfKey(entry.key))
			}
		}
		return names
	}
	tickAt := func(at int64) {
		for i := 0; i < 10 && s.NextDue() != 0 && s.NextDue() <= startAt+at; i++ {
			mustStore(t, s, seq, at, job.Tick{})
			seq++
		}
	}
	tickAt(machine.RunnerIdleMs)
	testkit.Equal(t, len(rows()), runners)
	tickAt(machine.RunnerIdleMs + 1)
	got := rows()
	testkit.Holds(t, len(got) == 1 && got[0] == "r7", "rows of", got, "want r7's alone")
	claim := mustStore(t, s, seq, machine.RunnerIdleMs+2, plainClaim("r7", 1)).(*applied.Claimed)
	seq++
	tickAt(machine.RunnerIdleMs*3/2 + 2) // it holds a job
	testkit.Equal(t, len(rows()), 1)
	mustStore(t, s, seq, machine.RunnerIdleMs*3/2+3, job.Complete{Claim: claim.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
	seq++
	tickAt(machine.RunnerIdleMs*5/2 + 3)
	testkit.Equal(t, len(rows()), 0)
}
