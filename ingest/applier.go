package ingest

import (
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// maxCommitBytes is the size at which a Pebble batch is committed. A larger one would not be faster, and the first
// commands in it would wait longer for their answers.
const maxCommitBytes = 4 << 20

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
	result, err := applyRecord(e.store, r)
	took := time.Since(began)
	if r.Verb == (job.Tick{}).Verb() {
		e.counters.tickTook.Store(int64(took))
	}
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

// applyGroups applies groups, commits them and answers their commands. If it fails, it answers all remaining commands
// with the error.
func (e *Engine) applyGroups(groups [][]journal.Record) (err error) {
	var records []*journal.Record
	for _, group := range groups {
		for i := range group {
			records = append(records, &group[i])
		}
	}
	results := make([]store.Result, len(records))
	answered := 0
	defer func() {
		if err != nil {
			for _, r := range records[answered:] {
				answerApplied(r, nil, err)
			}
		}
	}()
	for i, r := range records {
		if results[i], err = e.applyLive(r); err != nil {
			return err
		}
		if e.store.Pending() < maxCommitBytes && i < len(records)-1 {
			continue
		}
		if err = e.commit(); err != nil {
			return err
		}
		e.commits.count.Add(1)
		committed := time.Now()
		for ; answered <= i; answered++ {
			if answerApplied(records[answered], results[answered], nil) {
				e.giveBack(results[answered])
			}
		}
		e.commits.applied.send()
		signal(e.time.due)
		readied, all := e.store.TakeReadied()
		e.parked.gained(readied)
		if all {
			e.parked.gainedAnywhere()
		}
		e.stepped(time.Since(committed))
	}
	return nil
}
