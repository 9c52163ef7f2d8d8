package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// Apply carries out one command. It is the only state machine. It is total and deterministic: it reads no clock, random
// source or configuration. Its decisions depend only on the command, the command's seq and time, and the state that
// earlier commands made. So the same journal always leads to the same keys and values. A command at or below the cursor
// has been applied before, and changes nothing. Queries see the effects after Commit.
//
// An error means that the database failed. The store must then be closed.
func (s *Store) Apply(seq uint64, at int64, cmd job.Command) (result Result, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil || seq <= s.meta.cursor {
		return nil, s.broken
	}
	defer func() { s.broken = err }()
	defer lsm.Catch(&err)
	if s.beforeApply != nil {
		s.beforeApply(seq)
	}
	a := s.begin(job.Now{Seq: seq, At: max(at, s.meta.at)})
	result = a.apply(cmd)
	a.end()
	s.pending = true
	return result, nil
}

func (a *applying) apply(cmd job.Command) Result {
	switch cmd := cmd.(type) {
	case *job.Create:
		if made := a.create(cmd); made != nil {
			return made
		}
	case job.Claim:
		return a.claimJobs(cmd)
	case job.Tickle:
		return a.tickle(cmd)
	case job.Complete:
		return a.complete(cmd)
	case job.Pause:
		return a.pause(cmd)
	case job.Switch:
		return a.setSwitch(cmd)
	case job.DeleteQueue:
		return a.deleteQueue(cmd)
	case job.DeleteIdleQueues:
		return a.deleteIdleQueues(cmd)
	case job.Move:
		if cmd.Job.IsZero() {
			return a.startSweep(cmd)
		}
		return a.operate(cmd)
	case job.Patch:
		return a.patch(cmd)
	case job.ChangeBatch:
		return a.changeBatch(cmd)
	case job.OpenSession:
		return a.openSession(cmd)
	case job.EndSession:
		return a.endSession(cmd)
	case job.PutHandler:
		return a.putHandler(cmd)
	case job.DeleteHandler:
		return a.deleteHandler(cmd)
	case job.PutFileset:
		return a.putFileset(cmd)
	case job.DeleteFileset:
		return a.deleteFileset(cmd)
	case job.LoseRunner:
		return a.loseRunner(cmd)
	case job.Tick:
		a.tick(cmd)
	case job.Grace:
		a.meta.graceAt = a.now.At
	case job.SetLevel:
		if cmd.Level > job.Level {
			lsm.Fail("raise level", fmt.Errorf("level %d, and this program knows %d: %w", cmd.Level, job.Level, ErrNewerFormat))
		}
		a.meta.level = max(a.meta.level, cmd.Level)
		a.followLevel()
	case job.Mark:
	default:
		panic(fmt.Sprintf("store: no way to apply %T", cmd))
	}
	return nil
}

// maxPending is the size at which rows should be committed. A larger batch would not be faster, and the answers to its
// first commands would be delayed longer.
const maxPending = 4 << 20

// CommitDue reports whether the caller of Apply should commit before the next command, because many bytes wait to be
// written, or because the caches are full, which only a commit trims. Refused commands write no rows, but fill the
// caches with the rows that they name.
func (s *Store) CommitDue() bool {
	m := s.machine
	return m.o.Bytes() >= maxPending || m.caches.full(m.bounds)
}

// begin begins a command. It reuses the memory of the previous command.
func (s *Store) begin(now job.Now) *applying {
	a := &s.command
	a.machine, a.now, a.due, a.restRows = s.machine, now, 0, s.machine.rules.commandRows
	a.besideRows, a.pointDeletes = 0, maxPointDeletes
	a.beginEpoch()
	return a
}

// end ends a command after its last change. Claims that hold no job any more lose their timer and their row by runner,
// claims that no line names are deleted, and queues whose heads moved are placed again.
func (a *applying) end() {
	a.settleSubmissions()
	a.openOwn()
	a.settleClaims()
	a.resizeCells()
	for _, q := range a.moved {
		q.moved = false
		if q.misplaced {
			a.queues.place(q, &a.o)
		}
		for l := q.lanes; l != nil; l = l.next {
			a.resizeLane(q, l)
		}
		q.dropEmptyLanes()
	}
	clear(a.moved)
	a.moved = a.moved[:0]
	a.settleTimers()
	a.trimDistinct()
	a.writeEffects()
	a.meta.cursor, a.meta.at = a.now.Seq, a.now.At
}

// beginEpoch records the first command of an epoch. Epoch 0 began before all commands and is not recorded.
func (a *applying) beginEpoch() {
	number := job.EpochOf(a.now.Seq)
	if number == a.meta.epoch() {
		return
	}
	a.meta.epochs = append(a.meta.epochs[:len(a.meta.epochs):len(a.meta.epochs)], epoch{number, a.now.At})
	a.publishEpochs()
}
