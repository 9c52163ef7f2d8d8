package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// play lets a world's server live a few times, looks at everything after each start and before each end that is not a crash, and at
// last has all work done. It returns the first violation.
func (w *world) play() (err error) {
	defer func() {
		if err = errors.Join(err, w.book.s.Close()); err != nil {
			w.log("failed: %v", err)
		}
	}()
	lives := 2 + w.random.IntN(4)
	for n := range lives {
		if err := w.live(n, w.plan(false)); err != nil {
			return err
		}
		if n+1 < lives && w.random.IntN(4) == 0 {
			time.Sleep(time.Duration(w.random.IntN(20_000)) * time.Millisecond) // nobody serves
		}
	}
	return w.live(lives, w.plan(true))
}

// live is one life.
func (w *world) live(n int, p plan) error {
	w.log("life %d: %+v", n, p)
	s, err := w.start(n, p)
	if err != nil || s == nil {
		return err
	}
	if s.ready() {
		s.renewed()
		err = s.look(true)
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
	return errors.Join(err, s.bury(), w.failed())
}

// ready waits until the server serves, and reports whether it does. One whose disk always fails never does; its life ends as planned.
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

// renewed notes that the start has given all leases that still ran when the life before ended their full length again, from when the
// server was opened.
func (s *server) renewed() {
	a, ended := s.w.account, s.w.endedAt.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(ingest.Receipt{Seq: s.engine.Queries().Applied(), At: s.openedAt}, fmt.Sprintf("start %d", s.number), func(u *audit) error {
		for _, l := range u.jobs {
			if !l.free && l.deadline > ended {
				l.deadline = max(l.deadline, s.openedAt+l.leaseMs)
			}
		}
		return nil
	})
}

// serve lets users at the server until the plan says that it is over, and looks at everything once in between.
func (s *server) serve() error {
	var users sync.WaitGroup
	for i := range s.w.producers {
		users.Go(func() { s.produce(i) })
	}
	for i, r := range s.w.runners {
		users.Go(func() { s.run(10+i, r) })
	}
	users.Go(func() { s.operate(20) })

	first := time.Duration(s.w.random.Int64N(int64(s.plan.after)))
	s.pass(first)
	err := s.look(false)
	s.pass(s.plan.after - first)
	if s.plan.ending == stopped && s.w.random.IntN(2) == 0 { // with nobody there
		close(s.quiet)
		users.Wait()
		err = errors.Join(err, s.look(false))
	}
	if s.plan.ending == stopped {
		s.stop()
	} else {
		s.end(s.plan.ending)
	}
	s.cancel() // requests that still wait are answered, to nobody
	users.Wait()
	return err
}

// pass lets time pass, or less when the server's life ends.
func (s *server) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.gone:
	}
}

// look holds the server's state against the journal, and against what its users know.
func (s *server) look(all bool) error {
	settle()
	if s.isGone() {
		return nil
	}
	w := s.w
	err := w.book.compare(s.engine)
	if err == nil {
		err = s.reread(all)
	}
	if err == nil {
		err = s.cutIsCovered()
	}
	if s.isGone() {
		return nil // it was cut short
	}
	w.account.figures.Checks++
	if err != nil {
		return fmt.Errorf("life %d: %w", s.number, err)
	}
	return nil
}

// cutIsCovered looks whether the journal still has all that the store would need if the power were lost now: no volume may have left whose
// records are not on the store's disk.
func (s *server) cutIsCovered() error {
	first := s.engine.Stats().Journal.First
	if first <= 1 {
		return nil
	}
	o := s.w.storeOptions(s.w.mem.CrashClone(vfs.CrashCloneCfg{})) // nothing that was not synced
	durable, err := store.Peek(ingest.StoreDir(s.w.root()), o)
	if err != nil {
		return fmt.Errorf("what the store has on disk: %w", err)
	}
	s.w.account.figures.Cuts++
	return covered(first, durable.Applied)
}

func covered(first, durable uint64) error {
	if first > durable+1 {
		return fmt.Errorf("the journal begins at %d, and the store has %d on disk: what is between was cut too early", first, durable)
	}
	return nil
}

// list returns the documents of all jobs.
func (s *server) list() (map[job.ID]job.Job, error) {
	docs := map[job.ID]job.Job{}
	for f := (store.Filter{Limit: 1000, Parts: store.Everything}); ; {
		page, next, err := s.engine.Queries().List(f)
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		for _, doc := range page {
			if bytes.Compare(doc.ID[:], f.After[:]) <= 0 {
				return nil, fmt.Errorf("list: job %v comes behind %v", doc.ID, f.After)
			}
			docs[doc.ID], f.After = doc, doc.ID
		}
		if next.IsZero() {
			return docs, nil
		}
		f.After = next
	}
}

// reread reads every job that was acknowledged, from the list of all and some by their ids; or only some by their ids.
func (s *server) reread(all bool) error {
	a := s.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.upTo = s.w.book.s.Applied()
	if err := a.lookAtSweeps(s.w.book.s); err != nil {
		return err
	}
	u, err := a.audit()
	if err != nil {
		return err
	}
	listed := map[job.ID]job.Job{}
	if all {
		if listed, err = s.list(); err != nil {
			return err
		}
	}
	st, now := s.engine.Queries(), s.engine.Now()
	for _, tag := range a.tags() {
		b := a.batches[tag]
		if b.fate != stored {
			continue
		}
		if b.journal == 0 {
			return fmt.Errorf("create %s was acknowledged as batch %v and is not in the journal", tag, b.id)
		}
		for line := range b.payloads {
			doc, err := listed[b.id.WithLine(line)], error(nil)
			switch some := s.w.random.IntN(4) == 0; {
			case some, all && doc.ID.IsZero():
				doc, err = st.Job(b.id.WithLine(line))
			case !all:
				continue
			}
			if errors.Is(err, job.NotFound) && u.mayBePurged(b, line, now) {
				continue
			}
			if errors.Is(err, job.NotFound) {
				a.figures.Lost++
			}
			if err != nil {
				return fmt.Errorf("job %v of create %s was acknowledged: %w; what is known of it: %+v", b.id.WithLine(line), tag, err, *u.of(b.id.WithLine(line)))
			}
			if doc.ID != b.id.WithLine(line) {
				return fmt.Errorf("job %v answers to the id %v", doc.ID, b.id.WithLine(line))
			}
			if err := u.look(&doc); err != nil {
				return err
			}
			a.figures.Read++
		}
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

// unfinished returns a job that is not at its end.
func (s *server) unfinished() (doc job.Job) {
	a := s.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, tag := range a.tags() {
		for line := range a.batches[tag].payloads {
			doc, err := s.engine.Queries().Job(a.batches[tag].id.WithLine(line))
			if err == nil && !doc.Status.Terminal() {
				return doc
			}
		}
	}
	return doc
}

// finish has all work done on a machine in which nothing fails any more: everything that was acknowledged comes to its end.
func (s *server) finish() error {
	ctx := context.Background()
	a := s.w.account
	for _, client := range []string{"acme", "default"} {
		for _, typ := range []string{"resize", "mail", movedType, briefType} {
			answer, receipt, err := s.engine.Pause(ctx, job.Pause{Client: client, Type: typ})
			if err != nil {
				return fmt.Errorf("resume: %w", err)
			}
			a.answered(receipt, job.Pause{Client: client, Type: typ}, answer.Refusal, nil)
		}
	}
	if _, receipt, err := s.engine.Switch(ctx, job.Switch{}); err != nil {
		return fmt.Errorf("start: %w", err)
	} else {
		a.answered(receipt, job.Switch{}, job.Granted, nil)
	}
	if err := s.runAside(ctx); err != nil {
		return err
	}
	// Leases, backoffs and run_at are some seconds; a minute of nothing to do, in journal time, is an end that never comes.
	idle, turn := 0, 0
	for idle < 240 {
		counts := s.engine.Queries().Totals().Counts
		if counts[job.Deferred]+counts[job.Pending]+counts[job.Active] == 0 {
			break
		}
		c := job.Claim{Runner: "finisher", Max: 100, MaxBytes: job.MaxClaimBytes, Types: []string{"resize", "mail", briefType}}
		if turn++; turn%2 == 0 {
			c.Types = []string{movedType}
		}
		claimed, docs, receipt, err := s.engine.Claim(ctx, c, 500*time.Millisecond)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if err := a.claimed(receipt, c, claimed, docs); err != nil {
			return err
		}
		if len(docs) == 0 {
			idle++
			continue
		}
		idle = 0
		end := job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}
		answer, receipt, err := s.engine.Complete(ctx, end)
		if err != nil {
			return fmt.Errorf("complete: %w", err)
		}
		if err := a.completed(receipt, end, answer); err != nil {
			return err
		}
	}
	if counts := s.engine.Queries().Totals().Counts; counts[job.Deferred]+counts[job.Pending]+counts[job.Active] > 0 {
		return fmt.Errorf("work that nobody can have: %v, such as %+v, at %d with %+v", counts, s.unfinished(), s.engine.Now(), s.engine.Stats())
	}
	if err := s.deleteQueues(ctx); err != nil {
		return err
	}
	return s.look(true)
}

// runAside runs all jobs that are set aside.
func (s *server) runAside(ctx context.Context) error {
	if err := s.engine.CatchUp(ctx, 0); err != nil {
		return fmt.Errorf("list deferred jobs: %w", err)
	}
	for f := (store.Filter{Status: job.Deferred, Limit: 1000, Parts: store.Details}); ; {
		docs, next, err := s.engine.Queries().List(f)
		if err != nil {
			return fmt.Errorf("list deferred jobs: %w", err)
		}
		for i := range docs {
			if docs[i].Code != job.Damaged {
				continue
			}
			m := job.Move{Op: job.Run, Job: docs[i].ID}
			moved, receipt, err := s.engine.Move(ctx, m)
			if err != nil {
				return fmt.Errorf("run: %w", err)
			}
			s.w.account.movedOne(receipt, m, moved)
		}
		if f.After = next; next.IsZero() {
			return nil
		}
	}
}

// deleteQueues deletes the queues whose jobs have all been purged by now.
func (s *server) deleteQueues(ctx context.Context) error {
	time.Sleep(10 * time.Second) // ten times their retention
	for _, client := range []string{"acme", "default"} {
		d := job.DeleteQueue{Client: client, Type: briefType}
		answer, receipt, err := s.engine.DeleteQueue(ctx, d)
		if err != nil {
			return fmt.Errorf("delete queue: %w", err)
		}
		if answer.Refusal != job.Granted && answer.Refusal != job.QueueNotFound {
			return fmt.Errorf("queue %s/%s, whose jobs are to be purged by now, cannot be deleted: %w", client, briefType, answer.Refusal)
		}
		s.w.account.queueDeleted(receipt, d, answer.Refusal)
	}
	return nil
}
