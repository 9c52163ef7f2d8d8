package store

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/stallfs"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// stalledStore returns a store with a commit that Pebble holds back until resume is called, and the last seq committed
// before it.
func stalledStore(t *testing.T) (s *Store, committed uint64, resume func()) {
	t.Helper()
	gate := make(chan struct{})
	s = testkit.Must(Open("store", Options{Journal: testJournal, FS: stallfs.New(gate), MemtableBytes: stallfs.MemtableBytes}))(t)
	var done atomic.Uint64
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() {
		for seq := uint64(1); !stop.Load(); seq++ {
			_, err := s.Apply(seq, startAt, plainCreate("a", "x", 10, 1000))
			if err := errors.Join(err, s.Commit()); err != nil {
				ended <- err
				return
			}
			done.Store(seq)
		}
		ended <- nil
	}()
	const quiet = 20                                                                    // looks in which nothing was committed: a second, since a busy machine may commit late
	for before, same := uint64(0), 0; same < quiet; time.Sleep(50 * time.Millisecond) { // real time: nothing signals that a commit is held back
		if now := done.Load(); now > 0 && now == before {
			same++
		} else {
			before, same = now, 0
		}
	}
	resumed := false
	resume = func() {
		if !resumed {
			resumed = true
			stop.Store(true)
			close(gate)
			testkit.Check(t, <-ended)
		}
	}
	t.Cleanup(func() { resume(); testkit.Check(t, s.Close()) })
	return s, done.Load(), resume
}

// mustReturn fails the test if f does not return soon although Pebble holds back a commit.
func mustReturn(t *testing.T, what string, f func() error) error {
	t.Helper()
	returned := make(chan error, 1)
	go func() { returned <- f() }()
	select {
	case err := <-returned:
		return err
	case <-time.After(5 * time.Second):
		t.Errorf("%s does not return while Pebble holds a commit back", what)
		return nil
	}
}

func TestQueriesGoOnWhilePebbleStalls(t *testing.T) {
	s, committed, _ := stalledStore(t)
	id := job.NewID(startAt, 1, 0)
	once := &job.Once{Scope: "create", Key: "k"}
	for what, query := range map[string]func() error{
		"QueueExists":   func() error { s.QueueExists("a", "x"); return nil },
		"QueueOf":       func() error { _, _, err := s.QueueOf(id); return err },
		"Available":     func() error { s.Available(nil, nil); return nil },
		"Journal":       func() error { s.Journal(); return nil },
		"At":            func() error { s.At(); return nil },
		"Level":         func() error { s.Level(); return nil },
		"Totals":        func() error { s.Totals(); return nil },
		"DiskBytes":     func() error { s.DiskBytes(); return nil },
		"WaitingTypes":  func() error { _, _, err := s.WaitingTypes(&job.Scope{}, "", "", 10); return err },
		"Job":           func() error { _, err := s.Job(id); return err },
		"Batch":         func() error { _, err := s.Batch(id); return err },
		"Queue":         func() error { _, err := s.Queue("a", "x"); return err },
		"Queues":        func() error { _, _, err := s.Queues(&job.Scope{}, "", "", "", 10); return err },
		"List":          func() error { _, _, err := s.List(query.Filter{Limit: 10, Client: "a"}); return err },
		"Runners":       func() error { _, _, err := s.Runners("", 10); return err },
		"Sweeps":        func() error { _, err := s.Sweeps(); return err },
		"MadeBefore":    func() error { _, err := s.MadeBefore(once, startAt); return err },
		"ClaimedBefore": func() error { _, err := s.ClaimedBefore(once, startAt); return err },
		"Durable":       func() error { _, err := s.Durable(); return err },
		"Flush":         func() error { return s.Flush() },
	} {
		testkit.Check(t, mustReturn(t, what, query), what)
	}
	testkit.Equal(t, s.Applied(), committed, "queries see")
}

func TestFlushAndCloseAreBoundedWhilePebbleStalls(t *testing.T) {
	s, _, resume := stalledStore(t)
	var failed *row.Error
	err := mustReturn(t, "FlushWithin", func() error { return s.FlushWithin(10 * time.Millisecond) })
	testkit.Holds(t, errors.As(err, &failed) && failed.Op == "flush", "flush", err)
	err = mustReturn(t, "CloseWithin", func() error { return s.CloseWithin(10 * time.Millisecond) })
	testkit.Holds(t, errors.As(err, &failed) && failed.Op == "close", "close", err)
	testkit.Fails(s.Job(job.NewID(startAt, 1, 0)))(t, row.ErrClosed) // a query of a store that is being closed
	resume()
	testkit.Check(t, s.Close())
	testkit.Failed(t, s.FlushWithin(time.Second), row.ErrClosed) // flush after close
}

// TestQueuesShowWhatIsCommitted: documents of queues have the counters of the last commit, like all other queries.
func TestQueuesShowWhatIsCommitted(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 3, 5))
	testkit.Fails(s.Queue("a", "x"))(t, job.QueueNotFound) // a queue that is not committed
	docs, more, err := s.Queues(&job.Scope{}, "", "", "", 10)
	testkit.Holds(t, len(docs) == 0 && !more && err == nil, "queues that are not committed", docs, more, err)
	mustCommit(t, s)
	want := testkit.Must(s.Queue("a", "x"))(t)
	testkit.MustHold(t, want.Counts[job.Pending] == 3 && want.PendingSince == startAt, want)
	mustApply(t, s, 2, 1, plainClaim("r", 2))
	mustApply(t, s, 3, 1, job.Pause{Client: "a", Type: "x", Paused: true})
	mustApply(t, s, 4, 1, plainCreate("a", "y", 1, 5))
	testkit.Equal(t, testkit.Must(s.Queue("a", "x"))(t), want, "before the commit")
	docs, _, err = s.Queues(&job.Scope{}, "", "", "", 10)
	testkit.Holds(t, len(docs) == 1 && docs[0] == want && err == nil, "before the commit", docs, err, "want", want)
	mustCommit(t, s)
	got := testkit.Must(s.Queue("a", "x"))(t)
	testkit.Holds(t, got.Counts[job.Pending] == 1 && got.Counts[job.Active] == 2 && got.Paused, "after the commit", got)
}

// TestQueriesGiveUpWhileACommandIsStuck: a command that waits for an unresponsive disk holds the lock of the queues.
// Queries that need the queues fail after a while, and other queries continue. When the command has ended, all queries
// work again.
func TestQueriesGiveUpWhileACommandIsStuck(t *testing.T) {
	stuck, resume := make(chan struct{}), make(chan struct{})
	s := mustOpen(t, Options{Patience: time.Millisecond, BeforeApply: func(seq uint64) {
		if seq == 2 {
			close(stuck)
			<-resume
		}
	}})
	mustStore(t, s, 1, 0, plainCreate("a", "x", 3, 5))
	applied := make(chan error, 1)
	go func() { _, err := s.Apply(2, startAt, plainClaim("r", 1)); applied <- err }()
	<-stuck
	for range 2 { // the second time without waiting
		for what, query := range map[string]func() error{
			"Queue":        func() error { _, err := s.Queue("a", "x"); return err },
			"Queues":       func() error { _, _, err := s.Queues(&job.Scope{}, "", "", "", 10); return err },
			"WaitingTypes": func() error { _, _, err := s.WaitingTypes(&job.Scope{}, "", "", 10); return err },
			"Job":          func() error { _, err := s.Job(jobID(0, 1, 0)); return err },
			"List":         func() error { _, _, err := s.List(query.Filter{Limit: 10, Client: "a"}); return err },
			"Sweeps":       func() error { _, err := s.Sweeps(); return err },
		} {
			err := query()
			testkit.Holds(t, errors.Is(err, row.ErrBusy) && !errors.Is(err, row.ErrDamaged), what, err)
		}
		exists, _, use := s.QueueExists("a", "x")
		pending, _ := s.Queries.Pending("a", "x")
		testkit.Holds(t, !exists && use == s.Totals().QueueUse && use.Queues == 1 && pending == 0 &&
			!s.Available(nil, nil) && s.Level() == 0, "exists", exists, "of", use, "pending", pending)
		s.Ready(nil, nil, func(string, string, int64) bool { t.Error("a queue is ready"); return false })
		testkit.Must(s.Batch(jobID(0, 1, 0)))(t)
	}
	close(resume)
	testkit.NoError(t, <-applied)
	testkit.Must(s.Queue("a", "x"))(t)
	testkit.Holds(t, s.Available(nil, nil), "after the command")
}
