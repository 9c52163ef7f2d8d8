package ingest

import (
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

const (
	// maxUncommitted is the time after which applied commands are committed and answered even if more commands wait to be
	// applied. A commit costs some ten microseconds in addition to its rows.
	maxUncommitted = 2 * time.Millisecond
	// A body of largeRecord bytes or more may take milliseconds to apply. The commands before it are answered first.
	largeRecord = 64 << 10
)

// applyRecord applies one record of the log. A running server, a start and a rebuild all apply commands with this
// function. The command is always the one decoded from the journaled text. A running server has decoded it when the
// command was proposed, to check the text.
func applyRecord(s *store.Store, r *journal.Record) (applied.Result, error) {
	w, ok := r.Tag.(*waiter)
	if !ok || w.cmd == nil {
		by, cmd, err := job.DecodeRecord(r.Verb, r.Fields, r.Body)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", r.Seq, err)
		}
		w = &waiter{cmd: cmd, by: &by}
	}
	place := (*job.Place)(r.Place)
	if place == nil {
		place = &job.Place{}
	}
	return s.ApplyRecord(r.Seq, r.At, place, w.by, w.cmd)
}

// applyLive is applyRecord for a running server. It measures how long ticks take, because the size of the next tick
// depends on it.
func (e *Engine) applyLive(r *journal.Record) (applied.Result, error) {
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

// stepped records how long a step of the applier took: applying one command, or answering after a commit.
func (e *Engine) stepped(took time.Duration) {
	if int64(took) > e.counters.longestStep.Load() { // no other goroutine increases it
		e.counters.longestStep.Store(int64(took))
	}
}

// apply is the applier. It applies durable groups in order until the apply queue is closed.
func (e *Engine) apply() error {
	for groups := e.applyQueue.take(); groups != nil; groups = e.applyQueue.take() {
		err := e.applyGroups(groups)
		for _, group := range groups {
			e.applyQueue.done(group)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uncommitted are applied records whose commands are answered after the next commit.
type uncommitted struct {
	records []*journal.Record
	results []applied.Result
	since   time.Time // when the first of them was begun
}

// applyGroups applies groups, commits them and answers their commands. If that takes long, it commits several times,
// because no command should wait for the answers to many others. If it fails, it answers all remaining commands with the
// error.
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
			var result applied.Result
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

// reportEnds reports the ends of the committed runs and batches. It drops the ends from commands that the log had when
// the engine started, because an earlier process has reported them. Of nodes that share a log, the leader reports runs.
func (e *Engine) reportEnds() {
	reports := e.reportsEnds.Load()
	if e.o.OnRunEnds != nil {
		if ends := e.store.TakeRunEnds(); len(ends) > 0 && reports && e.Leads() {
			e.o.OnRunEnds(ends)
		}
	}
	if e.o.OnBatchEnds != nil {
		if ends := e.store.TakeBatchEnds(); len(ends) > 0 && reports {
			e.o.OnBatchEnds(ends)
		}
	}
}

// observeQueues starts the counts of QueueFigures. Only the applier may call it, or Run before it starts the applier.
func (e *Engine) observeQueues() {
	if e.o.MetricsQueues > 0 {
		e.store.ObserveQueues(e.o.MetricsQueues, e.log.Now())
		e.talliedAfter = e.store.Applied()
	}
}

// forgetOldTallies restarts the counts at 0 once the state includes all commands that the log had when the engine
// started, if some of those were applied after Run started the counts.
func (e *Engine) forgetOldTallies() {
	if !e.talliesAreNew && e.reportsEnds.Load() {
		if e.talliesAreNew = true; e.store.Applied() > e.talliedAfter {
			e.observeQueues()
		}
	}
}

// commitApplied commits the applied commands and answers them.
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
		if e.shared != nil && r.Tag == nil && r.Verb == (job.LoseRunner{}).Verb() {
			e.lostElsewhere(r)
		}
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
