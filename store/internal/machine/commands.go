package machine

import (
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Apply carries out a command.
func (a *Applying) Apply(cmd job.Command) applied.Result {
	a.cause.Verb = cmd.Verb()
	result := a.carryOut(cmd)
	a.audit(cmd, result)
	return result
}

func (a *Applying) carryOut(cmd job.Command) applied.Result {
	switch cmd := cmd.(type) {
	case *job.Create:
		if made := a.Create(cmd); made != nil {
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
	case job.PutDocument:
		return a.putDocument(cmd)
	case job.DeleteDocument:
		return a.deleteDocument(cmd)
	case job.LoseRunner:
		return a.loseRunner(cmd)
	case job.Tick:
		a.tick(cmd)
	case job.Grace:
		a.Meta.GraceAt = a.Now.At
	case job.SetLevel:
		if newest := row.NewestLevel(); cmd.Level > newest {
			lsm.Fail("raise level", fmt.Errorf("level %d, and this program knows %d: %w", cmd.Level, newest, row.ErrNewerFormat))
		}
		a.Meta.Level = max(a.Meta.Level, cmd.Level)
		a.followLevel()
	case job.SetHistory:
		a.setHistory(cmd)
	case job.SetMember, job.Announce, job.Mark: // see Store.ApplyPlaced
	default:
		panic(fmt.Sprintf("store: no way to apply %T", cmd))
	}
	return nil
}

// End ends a command after its last change. Claims that hold no job any more lose their timer and their row by runner,
// claims that no line names are deleted, and queues whose heads moved are placed again.
func (a *Applying) End() {
	a.settleSubmissions()
	a.openOwn()
	a.settleClaims()
	a.resizeCells()
	for _, q := range a.moved {
		q.Moved = false
		if q.Misplaced {
			a.AllQueues.Place(q, &a.O)
		}
		for l := q.Lanes; l != nil; l = l.Next {
			a.resizeLane(q, l)
		}
		q.DropEmptyLanes()
	}
	clear(a.moved)
	a.moved = a.moved[:0]
	a.settleTimers()
	a.trimDistinct()
	a.writeEffects()
	a.Meta.Cursor, a.Meta.At = a.Now.Seq, a.Now.At
}

// BeginEpoch records the first command of an epoch. Epoch 0 began before all commands and is not recorded.
func (a *Applying) BeginEpoch() {
	number := job.EpochOf(a.Now.Seq)
	if number == a.Meta.Epoch() {
		return
	}
	a.Meta.Epochs = append(a.Meta.Epochs[:len(a.Meta.Epochs):len(a.Meta.Epochs)], row.Epoch{number, a.Now.At})
	a.PublishEpochs()
}
