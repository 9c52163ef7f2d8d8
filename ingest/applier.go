package ingest

import (
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

const (
	// maxUncommitted is the time after which commands that were applied are committed and answered, although others
	// wait to be applied. A commit costs some ten microseconds in addition to its rows.
	maxUncommitted = 2 * time.Millisecond
	// largeRecord is the size of a body that may take milliseconds to apply. The commands before it are answered first.
	largeRecord = 64 << 10
)

// applyRecord applies one record of the log. A running server, a start and a rebuild all apply commands by this
// function. The command is always one that was decoded from the journaled text. A running server has done so when the
// command was proposed, to check the text.
func applyRecord(s *store.Store, r *journal.Record) (store.Result, error) {
	if w, ok := r.Tag.(*waiter); ok && w.cmd != nil {
		return s.Apply(r.Seq, r.At, w.cmd)
	}
	cmd, err := job.Decode(r.Verb, r.Fields, r.Body)
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", r.Seq, err)
	}
	return s.Apply(r.Seq, r.At, cmd)
}

// applyLive is applyRecord for the records of a running server. It measures how long ticks take, because the size of
// the next tick depends on it.
func (e *Engine) applyLive(r *journal.Record) (store.Result, error) {
	began := time.Now()
	e.commits.command.Store(began.UnixNano())
	result, err := applyRecord(e.store, r)
	e.commits.command.Store(0)
	if w, ok := r.Tag.(*waiter); ok {
		w.settle(true)
	}
	took := time.Since(began)
	if r.Verb == (job.Tick{}).Verb() {
		e.counters.tickTook.Store(int64(took))
	}
	e.counters.commands.add(r.Verb, took)
	e.history.spent(took)
	e.stepped(took)
	return result, err
}

// stepped notes how long a step of the applier took. A step is a command, or the answers after a commit.
func (e *Engine) stepped(took time.Duration) {
	if int64(took) > e.counters.longestStep.Load() { // no other goroutine increases it
		e.counters.longestStep.Store(int64(took))
	}
}

// apply is the applier. It applies durable groups in order, until the hand-over is closed.
func (e *Engine) apply() error {
	for groups := e.handover.take(); groups != nil; groups = e.handover.take() {
		err := e.applyGroups(groups)
		for _, group := range groups {
			e.handover.done(group)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uncommitted are records that are applied, and whose commands are answered after the next commit.
type uncommitted struct {
	records []*journal.Record
	results []store.Result
	since   time.Time // when the first of them began to be applied
}

// applyGroups applies groups, commits them and answers their commands. It commits before all of them are applied if that
// takes long, because no command should wait for the answers to many others. If it fails, it answers all remaining
// commands with the error.
func (e *Engine) applyGroups(groups [][]journal.Record) (err error) {
	var u uncommitted
	defer func() {
		for _, r := range u.records {
			answerApplied(r, nil, err)
		}
	}()
	for n, group := range groups {
		for i := range group {
			r := &group[i]
			if err != nil {
				u.records = append(u.records, r)
				continue
			}
			if len(u.records) > 0 && len(r.Body) >= largeRecord {
				err = e.commitApplied(&u)
			}
			if len(u.records) == 0 {
				u.since = time.Now()
				e.forgetOldTallies()
			}
			u.records = append(u.records, r)
			if err != nil {
				continue
			}
			var result store.Result
			if result, err = e.applyLive(r); err != nil {
				continue
			}
			u.results = append(u.results, result)
			last := n == len(groups)-1 && i == len(group)-1
			if last || e.store.CommitDue() || time.Since(u.since) >= maxUncommitted {
				err = e.commitApplied(&u)
			}
		}
	}
	return err
}

// reportEnds reports the ends of the runs and batches that were committed. It drops those of commands that the log had when
// the engine started: an earlier process has reported them.
func (e *Engine) reportEnds() {
	reports := e.reportsEnds.Load()
	if e.o.OnRunEnds != nil {
		if ends := e.store.TakeRunEnds(); len(ends) > 0 && reports {
			e.o.OnRunEnds(ends)
		}
	}
	if e.o.OnBatchEnds != nil {
		if ends := e.store.TakeBatchEnds(); len(ends) > 0 && reports {
			e.o.OnBatchEnds(ends)
		}
	}
}

// observeQueues begins to count what happens to the jobs of queues. Only the applier may call it, or Run before it starts
// the applier.
func (e *Engine) observeQueues() {
	if e.o.MetricsQueues > 0 {
		e.store.ObserveQueues(e.o.MetricsQueues, e.log.Now())
		e.talliedAfter = e.store.Applied()
	}
}

// forgetOldTallies begins to count again at 0 when the state includes what the log had when the engine started, if a
// part of that was applied after Run had begun to count.
func (e *Engine) forgetOldTallies() {
	if !e.talliesAreNew && e.reportsEnds.Load() {
		if e.talliesAreNew = true; e.store.Applied() > e.talliedAfter {
			e.observeQueues()
		}
	}
}

// commitApplied commits what was applied and answers the commands.
func (e *Engine) commitApplied(u *uncommitted) error {
	if err := e.commit(); err != nil {
		return err
	}
	e.commits.count.Add(1)
	e.reportEnds()
	committed := time.Now()
	for _, runner := range e.store.TakeSilent() { // before the answers to their claims, and before their jobs are offered
		e.silences.note(runner)
	}
	for i, r := range u.records {
		if answerApplied(r, u.results[i], nil) {
			e.giveBackLeft(r.Tag.(*waiter), u.results[i])
		}
	}
	clear(u.results)
	u.records, u.results = u.records[:0], u.results[:0]
	e.commits.applied.send()
	signal(e.time.due)
	readied, all := e.store.TakeReadied()
	e.parked.committed(readied, all)
	e.stepped(time.Since(committed))
	return nil
}
