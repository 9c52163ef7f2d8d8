package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

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
