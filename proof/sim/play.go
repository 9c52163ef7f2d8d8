package sim

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/store"
)

// play runs the lives of a world. It verifies the state after each start and before each end that is not a crash. At the
// end, all jobs must end. It returns the first violation.
func (w *world) play() (err error) {
	defer func() {
		if err = errors.Join(err, w.reference.s.Close()); err != nil {
			w.log("failed: %v", err)
		}
	}()
	lives := 2 + w.random.IntN(4)
	for n := range lives {
		if err := w.live(n, w.plan(false)); err != nil {
			return err
		}
		if n+1 < lives && w.random.IntN(4) == 0 {
			time.Sleep(time.Duration(w.random.IntN(20_000)) * time.Millisecond) // no server runs at this time
		}
	}
	return w.live(lives, w.plan(true))
}

// live runs one life.
func (w *world) live(n int, p plan) error {
	w.log("life %d: %+v", n, p)
	s, err := w.start(n, p)
	if err != nil || s == nil {
		return err
	}
	if s.ready() {
		err = s.verify()
	}
	if err == nil && !s.isGone() {
		if p.after == time.Hour {
			if err = s.finish(); err == nil {
				s.stop()
			}
		} else {
			err = s.serve()
		}
	}
	return errors.Join(err, s.cleanUp(), w.failed())
}

// ready waits until the server serves, and reports whether it does. If the disk always fails, the server never serves,
// and its life ends as planned.
func (s *server) ready() bool {
	for began := time.Now(); !s.isGone(); {
		if s.engine.Ready() == nil {
			return true
		}
		if time.Sleep(time.Millisecond); time.Since(began) > time.Minute {
			if s.injected() == 0 {
				s.w.violation(fmt.Errorf("life %d: not ready after a minute: %w", s.number, s.engine.Ready()))
			}
			s.end(killed)
		}
	}
	return false
}

// serve lets users send requests until the plan ends the life, and verifies the state once in between.
func (s *server) serve() error {
	var users sync.WaitGroup
	for i := range s.w.producers {
		users.Go(func() { s.produce(i) })
	}
	for i, r := range s.w.runners {
		users.Go(func() { s.run(10+i, r) })
	}
	open := make([]*stream, len(s.w.streams))
	for i, r := range s.w.streams {
		open[i] = &stream{user: s.user(50 + i), r: r}
		users.Go(open[i].run)
	}
	s.engine.WhenLost(func(runner string) (returned <-chan struct{}) {
		if t := streamOf(open, runner); t != nil {
			return t.lose()
		}
		return nil
	})
	for i, t := range s.w.tenants {
		users.Go(func() { s.rent(60+i, t) })
	}
	users.Go(func() { s.operate(20) })
	users.Go(func() { s.fill(40) })
	for i := range loners {
		users.Go(func() { s.produceAlone(30 + i) })
	}

	first := time.Duration(s.w.random.Int64N(int64(s.plan.after)))
	s.pass(first)
	err := s.verify()
	s.pass(s.plan.after - first)
	if s.plan.ending == stopped && s.w.random.IntN(2) == 0 { // without users
		close(s.quiet)
		users.Wait()
		err = errors.Join(err, s.verify())
	}
	if s.plan.ending == stopped {
		s.stop()
	} else {
		s.end(s.plan.ending)
	}
	s.cancel() // waiting requests end now, and nobody reads their answers
	users.Wait()
	return err
}

// pass lets time pass until d is over or the life ends.
func (s *server) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.gone:
	}
}

// verify compares the server's state with the journal and with the users' knowledge.
func (s *server) verify() error {
	settle()
	if s.isGone() {
		return nil
	}
	w := s.w
	err := w.reference.compare(s.engine)
	if err == nil {
		err = w.reference.checkAccount()
	}
	if err == nil {
		err = s.cutIsCovered()
	}
	if s.isGone() {
		return nil // the life has ended, so the checks prove nothing
	}
	w.account.figures.Checks++
	if err != nil {
		return fmt.Errorf("life %d: %w", s.number, err)
	}
	return nil
}

// cutIsCovered checks that the journal still has everything that the store would need if the power were lost now. The
// server may remove a volume only when the store's disk has its records.
func (s *server) cutIsCovered() error {
	first := s.engine.Stats().Journal.First
	if first <= 1 {
		return nil
	}
	o := s.w.storeOptions(s.w.mem.CrashClone(vfs.CrashCloneCfg{})) // without anything that was not synced
	durable, err := store.Peek(ingest.StoreDir(s.w.root()), o)
	if err != nil {
		return fmt.Errorf("peek at the store on disk: %w", err)
	}
	s.w.account.figures.Cuts++
	return covered(first, durable.Applied)
}

func covered(first, durable uint64) error {
	if first > durable+1 {
		return fmt.Errorf("the journal begins at %d, and the store has only %d on disk: the records between were cut too early", first, durable)
	}
	return nil
}

func (a *account) tags() []string {
	tags := make([]string, 0, len(a.batches))
	for tag := range a.batches {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	return tags
}
