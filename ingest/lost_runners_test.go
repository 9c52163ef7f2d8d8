package ingest

import (
	"fmt"
	"os"
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
	_, every := testkit.Must2(e.Heartbeat(id, registry.Info{Instance: instance}, false))(t)
	testkit.MustEqual(t, every, beat, "heartbeat: every")
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
		if len(told) != 1 || told[0].ID != "r1" || told[0].Instance != "first" || told[0].State != registry.Dead || told[0].End != registry.Lost {
			t.Errorf("OnLost: %+v", told)
		}
		doc := status(t, e, jobs[0].ID)
		if len(doc.Attempts) != 1 || doc.Attempts[0].Why != job.RunnerLost || doc.Attempts[0].Error != "its runner was lost" || doc.RunAttempts != 1 {
			t.Errorf("the job is %+v", doc)
		}
		testkit.Fails2(e.Heartbeat("r1", registry.Info{Instance: "first"}, true))(t, registry.ErrLost)
		if held, _, err := e.Tickle(ctx, job.Tickle{Claim: held.Claim, Progress: -1}); err != nil || held.Refusal != job.ClaimLost {
			t.Errorf("a tickle of the lost instance: %+v, %v", held, err)
		}
		ended, _, err := e.Complete(ctx, job.Complete{Claim: held.Claim, Outcomes: []job.Outcome{{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}}})
		if err != nil || ended.Results[0].Status != job.Completed { // nobody has claimed the job since
			t.Errorf("a late completion of the lost instance: %+v, %v", ended, err)
		}
		heartbeat(t, e, "r1", "second")
		time.Sleep(5 * time.Second) // the backoffs
		if _, jobs, _, err := e.Claim(ctx, claimOf(1000), 0); err != nil || len(jobs) < 200 || jobs[0].RunAttempts != 2 {
			t.Errorf("the new instance got %d jobs, %v", len(jobs), err)
		}
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
					if _, jobs, _, err := e.Claim(t.Context(), short, 0); err != nil || len(jobs) != 1 {
						t.Fatalf("%+v, %v", jobs, err)
					}
				}
				c.LeaseMs = 3_600_000
				c.Types = []string{lines(1).Groups[0].Type}
				claimed, jobs, _, err := e.ClaimAdmitted(t.Context(), c, 0, func(int64) error {
					time.Sleep(beat + test.answered)
					return nil
				})
				testkit.NoError(t, err)
				testkit.Equal(t, len(jobs), 0, "a runner that is overdue, jobs", claimed)
				time.Sleep(time.Minute)
				testkit.Equal(t, e.Stats().Runners.Lost, 1, "runners lost")
				c.Runner = "r2"
				if _, jobs, _, err := e.Claim(t.Context(), c, 0); err != nil || len(jobs) != 1 || len(jobs[0].Attempts) != test.attempts {
					t.Errorf("another runner got %+v, %v", jobs, err)
				}
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
		testkit.NoError(t, e.Goodbye("r1", "i"))
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
		if n := e.Stats().Runners.Lost; n != 0 || e.Ready() == nil {
			t.Errorf("%d runners lost, ready: %v", n, e.Ready())
		}
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
