package sim

import (
	"bytes"
	"fmt"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

// operationRecords are the journal's operations, up to the seq upTo.
type operationRecords struct {
	upTo      uint64
	inJournal map[uint64]string // the verb of each command
	decisions map[uint64]decision
	queues    map[[2]string]uint64 // by client and type: seq of the first create
	sweeps    []openSweep

	completions []completion
}

// Operations are the commands of operators: cancel, redrive, run and delete, patches, pauses, and the stop of all claims.
//
// If an answer is lost, the operator does not know what happened, but the journal still has the command at its place. So
// the audit takes the order from the journal and the decisions from the answers. For a command without an answer it
// allows both decisions.

// decision is the answer to an operation.
type decision int

const (
	undecided decision = iota // no answer: the server may have refused the operation
	granted
	refused
)

// operation is an operator's command that the journal has.
type operation struct {
	seq uint64
	at  int64
	cmd job.Command
}

// journaledOperation records a command of the journal that is not a create. The caller does not hold a.mu.
func (a *account) journaledOperation(r *journal.Record) error {
	switch r.Verb {
	case "complete":
		return a.journaledCompletion(r)
	case "cancel", "redrive", "run", "delete", "patch", "pause", "resume", "stop", "start", "grace", "tick", "deletequeue", "deleteidle", "puthandler", "deletehandler", "putfileset", "deletefileset", "loserunner", "closebatch", "resumebatch":
	default:
		return nil
	}
	cmd, err := job.Decode(r.Verb, r.Fields, bytes.Clone(r.Body)) // the record is valid only now
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.operation(ingest.Receipt{Seq: r.Seq, At: r.At}, cmd)
	return nil
}

// operation records a command at its place in the journal. The caller holds a.mu.
func (a *account) operation(r ingest.Receipt, cmd job.Command) {
	a.inJournal[r.Seq] = cmd.Verb()
	if _, is := cmd.(job.LoseRunner); is {
		a.figures.Losses++
	}
	o := operation{r.Seq, r.At, cmd}
	a.note(r, fmt.Sprintf("%s %+v in the journal", cmd.Verb(), cmd), func(u *audit) error {
		u.operated(o)
		return nil
	})
	a.events[len(a.events)-1].recorded = 1
}

// answered records the answer to an operation. more makes further checks at that place; it may be nil.
func (a *account) answered(r ingest.Receipt, cmd job.Command, refusal job.Refusal, more func(*audit) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.figures.Operations++
	a.decisions[r.Seq] = granted
	if refusal != job.Granted {
		a.decisions[r.Seq] = refused
	}
	a.note(r, fmt.Sprintf("the answer to %s %+v: %v", cmd.Verb(), cmd, refusal), func(u *audit) error {
		if verb := a.inJournal[r.Seq]; verb != cmd.Verb() {
			return fmt.Errorf("%s %+v was answered with record %d, whose verb is %q", cmd.Verb(), cmd, r.Seq, verb)
		}
		if refusal != job.Granted || more == nil {
			return nil
		}
		return more(u)
	})
}

// movedOne records the answer to an operation on one job.
func (a *account) movedOne(r ingest.Receipt, m job.Move, answer applied.Moved) {
	a.answered(r, m, answer.Refusal, func(u *audit) error {
		s := u.movedOf(m.Job)
		if s.deleted != 0 {
			return fmt.Errorf("%v of job %v is granted after it was deleted at %d", m.Op, m.Job, s.deleted)
		}
		switch m.Op {
		case job.Cancel:
			if answer.Status != job.Cancelled {
				return fmt.Errorf("cancel of %v is answered with %v", m.Job, answer.Status)
			}
			s.end = endRecord{seq: r.Seq, at: r.At, from: r.Seq, status: job.Cancelled}
		case job.Redrive:
			s.granted++
			return u.redrivenFilled(r, m.Job)
		case job.Delete:
			s.deleted = r.Seq
		}
		return nil
	})
}

// queueDeleted records the answer to the deletion of a queue. If it was granted, the queue must have been empty.
func (a *account) queueDeleted(r ingest.Receipt, d job.DeleteQueue, refusal job.Refusal) {
	if refusal == job.Granted {
		a.mu.Lock()
		a.figures.Queues++
		a.mu.Unlock()
	}
	a.answered(r, d, refusal, func(u *audit) error {
		u.deletedAt[[2]string{d.Client, d.Type}] = r.Seq
		return nil
	})
}

// movedMany records the answer to an operation on a batch or queue. If the operation continues as a sweep, it has reached
// all jobs only when the sweep is finished.
func (a *account) movedMany(r ingest.Receipt, m job.Move, answer applied.Swept) {
	a.answered(r, m, answer.Refusal, func(u *audit) error {
		if answer.Sweep.IsZero() {
			u.finished(m, r, r.Seq)
		}
		return nil
	})
	if answer.Refusal == job.Granted && !answer.Sweep.IsZero() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.sweeps = append(a.sweeps, openSweep{m, r, answer.Sweep})
	}
}

// openSweep is a sweep that was not finished yet when it was last read.
type openSweep struct {
	move    job.Move
	receipt ingest.Receipt
	id      job.ID
}

// noteFinishedSweeps records which sweeps s has finished. The caller holds a.mu.
func (a *account) noteFinishedSweeps(s *store.Store) error {
	var open []openSweep
	for _, w := range a.sweeps {
		doc, err := s.Sweep(w.id)
		switch {
		case err == job.SweepNotFound: // it ended long ago
		case err != nil:
			return err
		case doc.FinishedAt == 0:
			open = append(open, w)
			continue
		}
		a.figures.Sweeps++
		now := ingest.Receipt{Seq: s.Applied(), At: w.receipt.At}
		a.note(now, fmt.Sprintf("sweep %v is finished: %+v", w.id, w.move), func(u *audit) error {
			u.finished(w.move, w.receipt, now.Seq)
			return nil
		})
	}
	a.sweeps = open
	return nil
}

// finished records that an operation on a batch or queue must have reached all its jobs by seq.
func (u *audit) finished(m job.Move, r ingest.Receipt, seq uint64) {
	if m.Status != 0 || m.Op != job.Cancel && m.Op != job.Delete {
		return // jobs in another status, and jobs that ended since, stay as they are
	}
	o := endRecord{seq: r.Seq, at: r.At, from: seq, status: job.Cancelled}
	if m.Op == job.Delete {
		o.status = job.Purged
	}
	if m.Batch.IsZero() {
		u.endedQueues[[2]string{m.Client, m.Type}] = append(u.endedQueues[[2]string{m.Client, m.Type}], o)
	} else {
		u.endedBatches[m.Batch] = append(u.endedBatches[m.Batch], o)
	}
}

// operated applies an operation at its place in the journal.
func (u *audit) operated(o operation) {
	decided := u.a.decisions[o.seq]
	if decided == refused {
		return
	}
	switch c := o.cmd.(type) {
	case job.Switch:
		u.stopped = c.Stopped
	case job.Pause: // a queue that does not exist cannot be paused
		name := [2]string{c.Client, c.Type}
		if !c.Paused { // also without an answer: if the queue was deleted, it is not paused either
			u.paused[name] = false
		} else if since := u.a.queues[name]; decided == granted || since != 0 && since < o.seq && !u.mayBeGone[name] {
			u.paused[name] = true
		}
	case job.DeleteQueue: // it also ends the pause; without an answer, the server may have refused it
		name := [2]string{c.Client, c.Type}
		u.paused[name], u.mayBeGone[name] = false, true
	case job.DeleteIdleQueues: // it deletes no paused queue
		for name := range u.a.queues {
			u.mayBeGone[name] = true
		}
	case job.PutHandler, job.DeleteHandler:
		u.handlerOperated(o)
	case job.PutFileset, job.DeleteFileset:
		u.filesetOperated(o)
	case job.LoseRunner:
		u.runnerLost(o, c)
	case job.Grace:
		u.graceSeq = o.seq
	case job.Tick:
		u.ticks = append(u.ticks, o.at)
	case job.Patch:
		u.movedOf(c.Job).patch(&c, decided == granted)
	case job.ChangeBatch:
		u.batchChanged(&o, c)
	case job.Move:
		if !c.Batch.IsZero() && c.Status == 0 && c.Op != job.Redrive {
			u.wholeEnded(&o, c)
		}
		switch {
		case c.Op == job.Delete && !c.Job.IsZero():
			u.deletes[c.Job] = true
		case c.Op == job.Delete && !c.Batch.IsZero():
			u.deletes[c.Batch] = true
		case c.Op == job.Delete:
			u.deletedQueues[[2]string{c.Client, c.Type}] = o.seq
		case c.Op == job.Run || c.Op == job.Redrive && !c.Job.IsZero():
			s := u.movedOf(c.Job)
			s.notBefore, s.ran = 0, s.ran || c.Op == job.Run
			if l := u.jobs[c.Job]; l != nil {
				l.setAside = false
			}
			if c.Op == job.Redrive {
				s.ownRedrives = append(s.ownRedrives, o)
			}
		case c.Op == job.Redrive && !c.Batch.IsZero():
			u.batchRedrives[c.Batch] = append(u.batchRedrives[c.Batch], o)
		case c.Op == job.Redrive:
			name := [2]string{c.Client, c.Type}
			u.queueRedrives[name] = append(u.queueRedrives[name], o)
		}
	}
}
