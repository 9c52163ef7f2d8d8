package ingest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

const beat = registry.DefaultHeartbeat

func heartbeat(t *testing.T, e *Engine, id, instance string) {
	t.Helper()
	_, every := testkit.Must2(e.Heartbeat(t.Context(), id, registry.Info{Instance: instance}, false))(t)
	testkit.MustEqual(t, every, beat, "heartbeats come every")
}

// TestLostRunner: the jobs of a runner that misses three heartbeats are pending again immediately, although their lease
// is an hour. Later requests of the lost instance are refused, and another instance gets the jobs.
func TestLostRunner(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var told []registry.Runner
		e, stop := startWith(t, Options{Dir: dir, OnLost: func(r registry.Runner) { told = append(told, r) }})
		defer stop()
		ctx := t.Context()
		c := lines(3000) // more than one command returns
		c.Groups[0].LeaseMs = 3_600_000
		testkit.Must2(e.Create(ctx, c))(t)
		heartbeat(t, e, "r1", "first")
		heartbeat(t, e, "r2", "other")
		held, jobs := mustClaim(t, e, claimOf(1000))
		testkit.MustEqual(t, len(jobs), 1000, "jobs")
		for range 12 { // some in separate rows
			mustClaim(t, e, claimOf(100))
		}
		for range 4 {
			time.Sleep(beat)
			heartbeat(t, e, "r1", "first")
			heartbeat(t, e, "r2", "other")
		}
		silent := time.Now()
		for e.Stats().Runners.Lost == 0 {
			heartbeat(t, e, "r2", "other")
			time.Sleep(time.Second)
			d := time.Since(silent)
			testkit.MustHold(t, d <= 3*beat+2*time.Second, "not lost after", d)
		}
		d := time.Since(silent)
		testkit.Holds(t, d >= 3*beat, "lost after", d)
		synctest.Wait()
		if s := e.Stats(); s.Jobs["active"] != 0 || s.Jobs["pending"]+s.Jobs["deferred"] != 3000 || s.Jobs["deferred"] < 1000 || s.Runners != (registry.Counts{Alive: 1, Dead: 1, Lost: 1}) {
			t.Errorf("jobs %v, runners %+v", s.Jobs, s.Runners)
		}
		testkit.Holds(t, len(told) == 1 && told[0].ID == "r1" && told[0].Instance == "first" &&
			told[0].State == registry.Dead && told[0].End == registry.Lost, "OnLost", told)
		doc := status(t, e, jobs[0].ID)
		testkit.Holds(t, len(doc.Attempts) == 1 && doc.Attempts[0].Why == job.RunnerLost &&
			doc.Attempts[0].Error == "its runner was lost" && doc.RunAttempts == 1, "the job is", doc)
		testkit.Fails2(e.Heartbeat(t.Context(), "r1", registry.Info{Instance: "first"}, true))(t, registry.ErrLost)
		if held, _, err := e.Tickle(ctx, job.Tickle{Claim: held.Claim, Progress: -1}); err != nil || held.Refusal != job.ClaimLost {
			t.Errorf("a tickle of the lost instance: %+v, %v", held, err)
		}
		ended, _, err := e.Complete(ctx, job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}}})
		if err != nil || ended.Results[0].Status != job.Completed { // nobody has claimed the job since
			t.Errorf("a late completion of the lost instance: %+v, %v", ended, err)
		}
		heartbeat(t, e, "r1", "second")
		time.Sleep(5 * time.Second) // the backoffs
		_, jobs, _, err = e.Claim(ctx, claimOf(1000), 0)
		testkit.Holds(t, err == nil && len(jobs) >= 200 && jobs[0].RunAttempts == 2, "the new instance got", len(jobs), "jobs", err)
	})
}

// TestLossWaitsForClaims: if a runner is lost while its claim has got jobs but no answer, these jobs lose no attempt,
// since no answer names them. The loss waits for the claim, at most for endPatience.
func TestLossWaitsForClaims(t *testing.T) {
	for _, test := range []struct {
		name     string
		answered time.Duration // after the runner is overdue
		lease    time.Duration // of another claim of the runner; if not 0, it ends while the first claim is in progress
		attempts int
	}{{"in time", endPatience / 2, 0, 0}, {"in time after a silence", endPatience / 2, beat / 2, 0}, {"too late", 2 * endPatience, 0, 1}} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, e *Engine) {
				testkit.Must2(e.Create(t.Context(), lines(1)))(t)
				heartbeat(t, e, "r1", "first")
				time.Sleep(2 * beat)
				c := claimOf(1) // which begins its jobs
				if test.lease > 0 {
					other := lines(1)
					other.Groups[0].Type = "other"
					testkit.Must2(e.Create(t.Context(), other))(t)
					short := c
					short.Types, short.LeaseMs = []string{"other"}, test.lease.Milliseconds()
					_, jobs, _, err := e.Claim(t.Context(), short, 0)
					testkit.MustHold(t, err == nil && len(jobs) == 1, jobs, err)
				}
				c.LeaseMs = 3_600_000
				c.Types = []string{lines(1).Groups[0].Type}
				claimed, jobs, _, err := e.ClaimAdmitted(t.Context(), c, 0, func(int64) error { time.Sleep(beat + test.answered); return nil })
				testkit.NoError(t, err)
				testkit.Equal(t, len(jobs), 0, "jobs of a runner that is overdue", claimed)
				time.Sleep(time.Minute)
				testkit.Equal(t, e.Stats().Runners.Lost, 1, "runners lost")
				c.Runner = "r2"
				_, others, _, err := e.Claim(t.Context(), c, 0)
				testkit.Holds(t, err == nil && len(others) == 1 && len(others[0].Attempts) == test.attempts, "another runner got", others, err)
			})
		})
	}
}

// TestHeartbeatPreventsLoss: a runner is not lost if its heartbeats are late, but arrive before the third is missing.
func TestHeartbeatPreventsLoss(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		for range 20 {
			heartbeat(t, e, "r1", "i")
			time.Sleep(3*beat - time.Second)
		}
		n := e.Stats().Runners
		testkit.Holds(t, n.Lost == 0 && n.Alive == 1, n)
	})
}

// TestGoodbyePreventsLoss: a runner that said goodbye is not declared lost.
func TestGoodbyePreventsLoss(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		heartbeat(t, e, "r1", "i")
		testkit.NoError(t, e.Goodbye(t.Context(), "r1", "i"))
		time.Sleep(10 * beat)
		testkit.Equal(t, e.Stats().Runners, registry.Counts{Dead: 1})
	})
}

// TestNoLossAfterAStop: time in which the process was suspended does not count as silence of runners.
func TestNoLossAfterAStop(t *testing.T) {
	for _, c := range []struct {
		name  string
		awake time.Duration // planned end of the sleep before the turn, from its beginning
		found int64         // number of stops that the watch has found
	}{{"in its sleep", maxSleep - 10*beat, 0}, {"elsewhere", time.Second, 1}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, e *Engine) {
				k := timekeeper{e: e, term: 1, stall: stallWatch{began: time.Now()}}
				heartbeat(t, e, "r1", "i")
				e.refuse(ErrNotReady) // pauses the running timekeeper; the test calls another timekeeper
				time.Sleep(10 * beat)
				e.state.Store(&stateNote{})
				k.stall.found.Add(c.found)
				k.stall.beat.Store(int64(time.Since(k.stall.began)))
				k.turn(t.Context(), time.Now().Add(c.awake))
				time.Sleep(3*beat - time.Second)
				testkit.Equal(t, e.Stats().Runners.Lost, 0, "runners lost before three heartbeats were missing after the stop")
				time.Sleep(2 * time.Second)
				testkit.Equal(t, e.Stats().Runners.Lost, 1, "runners lost")
			})
		})
	}
}

// TestNoLossWhileTheJournalFails: while the journal takes no commands, no runner is lost. Afterwards, three heartbeats
// must be missing again.
func TestNoLossWhileTheJournalFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		fail := func(f func() error) error {
			if broken.Load() {
				return syscall.EIO
			}
			return f()
		}
		e, stop := startWith(t, Options{Dir: dir, Journal: journal.Options{Hooks: journal.Hooks{
			Sync:     func(l *wal.Log) error { return fail(l.Sync) },
			SyncFile: func(f *os.File) error { return fail(f.Sync) },
		}}})
		defer stop()
		heartbeat(t, e, "r1", "i")
		broken.Store(true)
		testkit.Fails2(e.Create(t.Context(), lines(1)))(t)
		time.Sleep(10 * beat)
		n := e.Stats().Runners.Lost
		testkit.Holds(t, n == 0 && e.Ready() != nil, n, "runners lost, ready", e.Ready())
		broken.Store(false)
		for e.Ready() != nil {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(3*beat - 2*time.Second)
		testkit.Equal(t, e.Stats().Runners.Lost, 0, "runners lost before three heartbeats were missing")
		time.Sleep(3 * time.Second)
		testkit.Equal(t, e.Stats().Runners.Lost, 1, "runners lost")
	})
}

// TestManyLostRunners: many runners are lost at the same time, except a runner that still sends a heartbeat.
func TestManyLostRunners(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		for i := range 300 {
			heartbeat(t, e, fmt.Sprint("r", i), "i")
		}
		time.Sleep(beat)
		heartbeat(t, e, "r150", "i")
		time.Sleep(2*beat + 10*time.Second)
		testkit.Equal(t, e.Stats().Runners, registry.Counts{Alive: 1, Dead: 299, Lost: 299})
	})
}

// TestLossWaitsForStrayClaims: if a claim's caller hung up before the claim was applied, the claim is released before the
// loss of its runner is proposed, since no answer named its jobs.
func TestLossWaitsForStrayClaims(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int64 // how long the applier is busy after an end
		e, stop := startWith(t, Options{Dir: dir, OnRunEnds: func([]job.RunEnd) { time.Sleep(time.Duration(busy.Load())) }})
		defer stop()
		testkit.Must2(e.Create(t.Context(), lines(2)))(t)
		c := claimOf(1) // which begins its jobs
		c.LeaseMs = 3_600_000
		other := c
		other.Runner = "r2"
		claimed, jobs := mustClaim(t, e, other)
		testkit.MustEqual(t, len(jobs), 1)
		heartbeat(t, e, "r1", "first")
		time.Sleep(3*beat - time.Second)
		busy.Store(int64(3 * time.Second))
		go func() {
			if _, _, err := e.Complete(context.Background(), job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}}}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second/2)
		defer hangUp()
		_, _, _, err := e.Claim(ctx, c, 0)
		testkit.Holds(t, err != nil, "the claim is applied")
		time.Sleep(time.Minute)
		busy.Store(0)
		testkit.Equal(t, e.Stats().Runners.Lost, 1, "runners lost")
		if _, jobs, _, err := e.Claim(t.Context(), other, 0); err != nil || len(jobs) != 1 || len(jobs[0].Attempts) != 0 {
			t.Errorf("another runner got %+v, %v", jobs, err)
		}
	})
}

// TestSilences: each silence of a runner changes its number, ends the runner's earlier claims, and reports when all of
// them are answered, even if there are more runners than are remembered.
func TestSilences(t *testing.T) {
	s := newSilences()
	before, other := s.number("r"), s.number("other")
	waiting, alsoWaiting, ofOther := s.begin("r"), s.begin("r"), s.begin("other")
	s.answer(s.begin("r"))
	testkit.Holds(t, !waiting.isSilent(), "the claims of a runner end although it is not silent")
	answered := s.note("r")
	testkit.Holds(t, waiting.isSilent() && alsoWaiting.isSilent() &&
		!ofOther.isSilent(), "the claims of another runner end, or those of the silent one do not")
	testkit.Holds(t, s.number("r") != before &&
		s.number("other") == other, "the numbers are", s.number("r"), "and", s.number("other"), "and were", before, "and", other)
	later := s.begin("r") // of a client that has shown life
	testkit.Holds(t, !later.isSilent(), "a claim ends that began after the silence")
	s.answer(waiting)
	testkit.Holds(t, !isClosed(answered), "two claims were under way, and one answer counts for both")
	s.answer(alsoWaiting)
	testkit.Holds(t, isClosed(answered), "all claims before the silence are answered, and it does not say so")
	s.answer(later)
	testkit.Holds(t, isClosed(s.note("nobody")), "a runner without claims has unanswered ones")

	// A second silence also waits for the claims before the first, but not for later claims.
	first, second := s.begin("twice"), (*runnerClaims)(nil)
	s.note("twice")
	second = s.begin("twice")
	answered = s.note("twice")
	third := s.note("twice") // no claim began in between
	after := s.begin("twice")
	s.answer(second)
	testkit.Holds(t, !isClosed(answered) &&
		!isClosed(third), "a claim from before the first of several silences is under way, and a later one does not wait for it")
	if s.answer(first); !isClosed(answered) || !isClosed(third) {
		t.Error("all claims before several silences are answered, and the last one does not say so")
	}
	s.answer(after)

	last := s.number("r")
	for i := range 3 * maxSilences {
		s.note(fmt.Sprint("runner ", i))
		s.answer(s.begin(fmt.Sprint("client ", i)))
		testkit.MustHold(t, len(s.runners) <= maxSilences &&
			len(s.claims) <= maxSilences+1, len(s.runners), "silences and the claims of", len(s.claims), "runners are remembered")
	}
	now := s.number("r")
	testkit.Holds(t, now >= last && s.number("runner 0") != 0, "the number of a forgotten runner went from", last, "to", now)
	s.note("other")
	testkit.Holds(t, ofOther.isSilent(), "a claim that still waits is forgotten")
	s.answer(ofOther)
}

// runEndsOf collects the ends of runs that an engine reports.
type runEndsOf struct {
	mu   sync.Mutex
	list []job.RunEnd
}

func (r *runEndsOf) add(ends []job.RunEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, ends...)
}

func (r *runEndsOf) all() []job.RunEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// TestRunEndsAreReportedOnce: an engine reports the end of a run before it answers the command that ended it. An engine
// that starts with a log that has the command does not report it again, but reports later ends.
func TestRunEndsAreReportedOnce(t *testing.T) {
	ctx := t.Context()
	begin := func(l *memoryLog) (*Engine, *runEndsOf, func()) {
		var ends runEndsOf
		l.lead(1)
		e := testkit.Must(Open(Options{Dir: t.TempDir(), OnRunEnds: ends.add, OpenLog: func(LogOptions) (Log, error) { return l, nil }}))(t)
		return e, &ends, serve(t, e)
	}
	first := newMemoryLog()
	e, ends, end := begin(first)
	testkit.Must2(e.Create(ctx, lines(10)))(t)
	claimed, _ := mustClaim(t, e, claimOf(4))
	testkit.MustEqual(t, len(ends.all()), 0)
	testkit.Must2(e.Complete(ctx, completeOf(claimed.Claim)))(t)
	if got := ends.all(); len(got) != 1 || got[0].Jobs != 4 || got[0].Outcome != "ok" || got[0].Claim != claimed.Claim || got[0].Runner != "r1" {
		t.Errorf("%+v", got)
	}
	end()

	second := newMemoryLog()
	second.records = slices.Clone(first.records)
	e, ends, end = begin(second) // its store is empty, so it applies everything
	defer end()
	testkit.Equal(t, len(ends.all()), 0, "after a start")
	claimed, _ = mustClaim(t, e, claimOf(4))
	testkit.Must2(e.Complete(ctx, completeOf(claimed.Claim)))(t)
	got := ends.all()
	testkit.Holds(t, len(got) == 1 && got[0].Claim == claimed.Claim, got)
}

// TestBatchEndsAreReportedOnce is TestRunEndsAreReportedOnce for batches.
func TestBatchEndsAreReportedOnce(t *testing.T) {
	ctx := t.Context()
	var ends []job.BatchEnd // read after the engine has stopped
	begin := func(l *memoryLog) (*Engine, func()) {
		ends = nil
		l.lead(1)
		e, err := Open(Options{Dir: t.TempDir(), OnBatchEnds: func(list []job.BatchEnd) { ends = append(ends, list...) }, OpenLog: func(LogOptions) (Log, error) { return l, nil }})
		testkit.NoError(t, err)
		return e, serve(t, e)
	}
	first := newMemoryLog()
	e, end := begin(first)
	create := lines(3)
	create.Submission = &job.Submission{OnFailure: job.CancelRest}
	made, _ := testkit.Must2(e.Create(ctx, create))(t)
	claimed, _ := mustClaim(t, e, claimOf(1))
	cmd := job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: made.Job(0), Code: job.Fail, ExitCode: 400, DelayMs: -1}}}
	testkit.Must2(e.Complete(ctx, cmd))(t)
	end()
	testkit.Holds(t, len(ends) == 1 && ends[0].ID == made.Batch && ends[0].Status == job.BatchFailed &&
		ends[0].Unfinished == 2 && ends[0].EndedAt >= ends[0].CreatedAt, ends)

	second := newMemoryLog()
	second.records = slices.Clone(first.records)
	_, end = begin(second) // its store is empty, so it applies everything
	end()
	testkit.Equal(t, len(ends), 0, "after a start")
}

// TestReadThatBeginsDuringTheReplay: a read that waits for the end of the log is answered when the log is replayed, even
// if no further command arrives.
func TestReadThatBeginsDuringTheReplay(t *testing.T) {
	open := func(dir string) *Engine { return testkit.Must(Open(Options{Dir: dir}))(t) }
	first, second := t.TempDir(), t.TempDir()
	e := open(first)
	end := serve(t, e)
	var last Receipt
	for range 20 {
		_, last = testkit.Must2(e.Create(t.Context(), lines(10)))(t)
	}
	testkit.NoError(t, os.CopyFS(JournalDir(second), os.DirFS(JournalDir(first)))) // as if the process was killed
	end()

	e = open(second)
	read := make(chan error, 1)
	go func() { read <- e.CatchUp(t.Context(), last.Seq) }()
	end = serve(t, e)
	defer end()
	testkit.Check(t, <-read)
}
