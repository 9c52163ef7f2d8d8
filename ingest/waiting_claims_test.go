package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store/applied"
)

// countRecords counts the records of a verb in the log.
func countRecords(t *testing.T, e *Engine, verb string) (n int) {
	t.Helper()
	for r, err := range e.log.Records(1) {
		testkit.NoError(t, err)
		if r.Verb == verb {
			n++
		}
	}
	return n
}

// TestOneClaimRecordAJob: 600 runners wait, and each waits again after it has completed a job, while four producers
// create single jobs. Each job takes about one claim record, and at most 3.3 records in total.
func TestOneClaimRecordAJob(t *testing.T) {
	const runners, producers, jobs = 600, 4, 400
	bubble(t, func(t *testing.T, e *Engine) {
		ctx, end := context.WithCancel(t.Context())
		var done atomic.Int64
		var all sync.WaitGroup
		for i := range runners {
			all.Go(func() {
				for {
					c := claimOf(1)
					c.Runner = runnerName(i)
					claimed, got, _, err := e.Claim(ctx, c, time.Hour)
					if ctx.Err() != nil {
						return
					}
					if err != nil || len(got) != 1 {
						t.Errorf("%d jobs, %v", len(got), err)
						return
					}
					if _, _, err := e.Complete(ctx, completeOf(claimed.Claim)); err != nil {
						t.Error(err)
						return
					}
					done.Add(1)
				}
			})
		}
		synctest.Wait()
		before := e.Stats().Applied
		for range producers {
			all.Go(func() {
				for range jobs / producers {
					_, _, err := e.Create(ctx, single())
					testkit.Check(t, err)
				}
			})
		}
		synctest.Wait()
		testkit.Equal(t, done.Load(), jobs, "jobs are completed")
		records, claims := e.Stats().Applied-before, countRecords(t, e, "claim")
		t.Logf("%.2f records a job, %.2f claims", float64(records)/jobs, float64(claims)/jobs)
		testkit.Holds(t, records*10 <= jobs*33, records, "records for", jobs, "jobs")
		end()
		all.Wait()
	})
}

// TestClaimsFollowCreates blocks an fsync. The create of a job, and the claim that waits for the job, share the next
// group of the log.
func TestClaimsFollowCreates(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var holds atomic.Bool
		released := make(chan struct{})
		e, stop := startWith(t, Options{Dir: dir, Journal: journal.Options{Hooks: journal.Hooks{Sync: func(l *wal.Log) error {
			if holds.Load() {
				<-released
			}
			return l.Sync()
		}}}})
		got := park(t, e, nil, []string{"b"})
		time.Sleep(time.Second) // the log is idle
		synctest.Wait()
		before := e.log.Status().Groups
		holds.Store(true)
		for _, typ := range []string{"a", "b"} { // the first waits for its fsync, the second for its group
			go func() { _, _, err := e.Create(t.Context(), joinable(typ, job.LineFrame, "x")); testkit.Check(t, err) }()
			synctest.Wait()
		}
		testkit.Equal(t, e.parked.n.Load(), 0, "the claim still waits")
		holds.Store(false)
		close(released)
		testkit.Equal(t, <-got, 1, "jobs of the claim")
		testkit.Equal(t, e.log.Status().Groups-before, 2, "groups: the first create, and the second with the claim")
		stop()
	})
}

// TestClaimOfACreateThatFails: the claim was woken for a job that was never stored. It keeps waiting in its place, and
// gets the next job.
func TestClaimOfACreateThatFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		e, stop := startWith(t, Options{Dir: dir, Journal: journal.Options{Hooks: journal.Hooks{Sync: func(l *wal.Log) error {
			if fails.Swap(false) {
				return errors.New("no disk")
			}
			return l.Sync()
		}}}})
		first, second := park(t, e, nil, nil), park(t, e, nil, nil)
		fails.Store(true)
		testkit.Fails2(e.Create(t.Context(), single()))(t, ErrNotStored)
		time.Sleep(10 * time.Second) // the log is repaired
		synctest.Wait()
		testkit.MustEqual(t, e.parked.n.Load(), 2, "claims are parked")
		testkit.Must2(e.Create(t.Context(), single()))(t)
		synctest.Wait()
		select {
		case n := <-first:
			testkit.Equal(t, n, 1, "jobs of the first claim")
		default:
			t.Error("the first claim has lost its place")
		}
		<-second
		stop()
	})
}

// TestNoClaimWaitsForAnOpenJob carries out random schedules. Whenever all is quiet, no claim waits while a job that it
// accepts is pending, and no offer is left.
func TestNoClaimWaitsForAnOpenJob(t *testing.T) {
	seeds, steps := 12, 120
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, e *Engine) {
				s := &schedule{t: t, e: e, rnd: rand.New(rand.NewPCG(uint64(seed), 28)), waiting: map[*waitingClaim]bool{}}
				for range steps {
					for range 1 + s.rnd.IntN(4) {
						s.step()
					}
					s.quiet()
				}
				s.end()
			})
		})
	}
}

// schedule is a random schedule of requests, several of which run in parallel.
type schedule struct {
	t    *testing.T
	e    *Engine
	rnd  *rand.Rand
	keys int
	all  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	waiting map[*waitingClaim]bool
	held    []heldJob
	ended   []job.ID
}

type waitingClaim struct {
	job.Claim
	cancel context.CancelFunc
	stop   chan struct{}
	ends   bool // the claim was cancelled or stopped
}

type heldJob struct{ claim, id job.ID }

var scheduleNames = []string{"a", "b", "c"}

func (s *schedule) some(list []string) (names []string) {
	for _, name := range list {
		if s.rnd.IntN(2) == 0 {
			names = append(names, name)
		}
	}
	return names
}

func (s *schedule) group() job.Group {
	g := lines(1).Groups[0]
	g.Client, g.Type = scheduleNames[s.rnd.IntN(3)], scheduleNames[s.rnd.IntN(3)]
	g.Priority, g.LeaseMs = s.rnd.IntN(3), 2000
	switch s.rnd.IntN(8) {
	case 0:
		g.RunAt = s.e.Now() + s.rnd.Int64N(5000)
	case 1:
		g.ExpiresAt = s.e.Now() + 1 + s.rnd.Int64N(3000)
	}
	return g
}

// step begins one request.
func (s *schedule) step() {
	ctx := s.t.Context()
	switch s.rnd.IntN(14) {
	case 0, 1, 2, 3:
		s.claim()
	case 4, 5, 6: // single jobs, which may share a record
		c := single()
		c.Groups[0] = s.group()
		s.run(func() error { _, _, err := s.e.Create(ctx, c); return err })
	case 7: // a batch, or with keys
		n := 1 + s.rnd.IntN(5)
		c := lines(n)
		c.Groups[0] = s.group()
		c.Groups[0].Lines = n
		if s.rnd.IntN(2) == 0 {
			s.keys++
			c.Once = job.Once{Scope: "create test", Key: fmt.Sprint(s.keys)}
		}
		s.run(func() error { _, _, err := s.e.Create(ctx, c); return err })
	case 8:
		p := job.Pause{Client: scheduleNames[s.rnd.IntN(3)], Type: scheduleNames[s.rnd.IntN(3)], Paused: s.rnd.IntN(3) == 0}
		s.run(func() error { _, _, err := s.e.Pause(ctx, p); return err })
	case 9:
		stopped := s.rnd.IntN(3) == 0
		s.run(func() error { _, _, err := s.e.Switch(ctx, job.Switch{Stopped: stopped}); return err })
	case 10:
		// Jobs become due, expire, and are abandoned.
		time.Sleep(time.Duration(s.rnd.IntN(3000)) * time.Millisecond) // fake time: schedules are played in bubbles
	case 11:
		s.leave()
	case 12:
		s.finish()
	case 13:
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ended) > 0 {
			m := job.Move{Op: job.Redrive, Job: s.ended[s.rnd.IntN(len(s.ended))]}
			s.run(func() error { _, _, err := s.e.Move(ctx, m); return err })
		}
	}
}

func (s *schedule) run(f func() error) { s.all.Go(func() { testkit.Check(s.t, f(), "request") }) }

func (s *schedule) claim() {
	ctx, cancel := context.WithCancel(s.t.Context())
	w := &waitingClaim{Claim: claimOf(1 + s.rnd.IntN(3)), cancel: cancel, stop: make(chan struct{})}
	w.LeaseMs = 1000 + s.rnd.Int64N(3000)
	switch s.rnd.IntN(5) {
	case 0: // all
	case 1: // a wide interest
		w.Clients, w.Types = append(names("c", 20), s.some(scheduleNames)...), append(names("t", 20), s.some(scheduleNames)...)
	default:
		w.Clients, w.Types = s.some(scheduleNames), s.some(scheduleNames)
	}
	if s.rnd.IntN(4) == 0 {
		s.keys++
		w.Once = job.Once{Scope: "claim test", Key: fmt.Sprint(s.keys)}
	}
	wait := time.Duration(s.rnd.IntN(20)) * time.Second
	kind := s.rnd.IntN(4)
	var complete []job.Complete
	if h, ok := s.takeHeld(); ok && kind == 0 {
		complete = []job.Complete{completeOf(h.claim)}
	}
	s.mu.Lock()
	s.waiting[w] = true
	s.mu.Unlock()
	s.all.Go(func() {
		claimed, jobs, err := w.carryOut(ctx, s.e, kind, complete, wait)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, w)
		testkit.Holds(s.t, err == nil || w.ends, "claim", err)
		for i := range jobs {
			s.held = append(s.held, heldJob{claimed.Claim, jobs[i].ID})
		}
	})
}

// carryOut claims in one of the ways in which a caller can.
func (w *waitingClaim) carryOut(ctx context.Context, e *Engine, kind int, complete []job.Complete, wait time.Duration) (claimed applied.Claimed, jobs []job.Job, err error) {
	var handed []runs.Run
	switch kind {
	case 0:
		var x *Exchange
		if x, err = e.Exchange(ctx, complete, w.Claim); err == nil {
			_, _, err = x.Ended(ctx)
		}
		if err != nil {
			return claimed, nil, err
		}
		claimed, handed, _, err = x.Claimed(ctx, wait, admitAll)
	case 1:
		claimed, handed, _, err = e.ClaimUntil(ctx, w.Claim, w.stop, admitAll)
	default:
		claimed, handed, _, err = e.ClaimAdmitted(ctx, w.Claim, wait, admitAll)
	}
	if err == nil {
		jobs, err = runs.Documents(handed)
	}
	return claimed, jobs, err
}

// leave ends the wait of a random claim.
func (s *schedule) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiting {
		if !w.ends {
			w.ends = true
			if s.rnd.IntN(2) == 0 {
				w.cancel()
			} else {
				close(w.stop)
			}
			return
		}
	}
}

func (s *schedule) takeHeld() (h heldJob, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) == 0 {
		return h, false
	}
	i := s.rnd.IntN(len(s.held))
	h = s.held[i]
	s.held = slices.Delete(s.held, i, i+1)
	s.ended = append(s.ended, h.id)
	return h, true
}

// finish ends a run: the job is completed, returned, or waits for another attempt.
func (s *schedule) finish() {
	h, ok := s.takeHeld()
	if !ok {
		return
	}
	o := job.Outcome{ID: h.id, Code: job.OK, ExitCode: 200, DelayMs: -1}
	switch s.rnd.IntN(3) {
	case 0:
		o.Code, o.ExitCode = job.Unget, 0
	case 1:
		o.Code, o.ExitCode = job.Retry, 100
	}
	s.run(func() error {
		_, _, err := s.e.Complete(s.t.Context(), job.Complete{Claim: h.claim, Outcomes: []job.Outcome{o}})
		return err
	})
}

// quiet waits until all requests have ended or wait for jobs, and checks the invariant.
func (s *schedule) quiet() {
	synctest.Wait()
	l := s.e.parked
	l.mu.Lock()
	testkit.Holds(s.t, len(l.offered) <= 0 && len(l.coming) <= 0 && len(l.looks) <= 0 &&
		!l.lookAll, "offered", l.offered, "coming", l.coming, "looks", l.looks, l.lookAll, "although all is quiet")
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiting {
		testkit.MustHold(s.t, !s.e.store.Available(w.Clients, w.Types), "a claim waits, and there are jobs for it", w.Clients, w.Types)
	}
}

// end ends all claims.
func (s *schedule) end() {
	s.mu.Lock()
	for w := range s.waiting {
		w.ends = true
		w.cancel()
	}
	s.mu.Unlock()
	s.all.Wait()
	testkit.Equal(s.t, s.e.parked.n.Load(), 0, "claims are parked")
}
