package machine

import (
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// The first job of a queue creates it. A queue without jobs is deleted by request, or after a time that a command
// names. Numbers of queues are never used again, because rows of batches with jobs in several queues may still name
// them.

// makeQueue returns the queue of a client and type. It creates the queue if necessary.
func (a *Applying) makeQueue(client, typ string) *memory.Queue {
	if q := a.AllQueues.ByName[row.QueueName{client, typ}]; q != nil {
		return q
	}
	name := row.QueueName{strings.Clone(client), strings.Clone(typ)} // so that it does not keep the text of the command in memory
	q := &memory.Queue{Id: a.Meta.NextQueue, QueueName: name, CreatedAt: a.Now.At, Shown: &memory.ShownQueue{}}
	a.Meta.NextQueue++
	a.AllQueues.Add(q)
	a.Touch(&q.Dirty, q)
	a.reviseIdle(q)
	return q
}

// reviseIdle records since when a queue has been idle, after its jobs or settings have changed.
func (a *Applying) reviseIdle(q *memory.Queue) {
	idle := q.Empty() && !q.Configured()
	if idle == (q.IdleAt != 0) {
		return
	}
	a.touchQueue(q)
	if idle {
		q.IdleAt = a.Now.At
		a.AllQueues.Idle.Set(q)
	} else {
		a.AllQueues.Idle.Delete(q)
		q.IdleAt = 0
	}
}

// deleteQueue deletes a queue without jobs, paused or not.
func (a *Applying) deleteQueue(cmd job.DeleteQueue) *applied.QueueDeleted {
	q := a.AllQueues.ByName[row.QueueName{cmd.Client, cmd.Type}]
	switch {
	case q == nil:
		return &applied.QueueDeleted{Refusal: job.QueueNotFound}
	case !q.Empty():
		return &applied.QueueDeleted{Refusal: job.QueueNotEmpty}
	}
	a.removeQueue(q)
	return &applied.QueueDeleted{}
}

// deleteIdleQueues deletes as many idle queues as one command may delete.
func (a *Applying) deleteIdleQueues(cmd job.DeleteIdleQueues) *applied.IdleQueuesDeleted {
	result := &applied.IdleQueuesDeleted{}
	for q := a.AllQueues.Idle.Oldest(); q != nil && q.IdleAt+cmd.IdleMs <= a.Now.At && result.Queues < a.Rules.CommandRows; q = a.AllQueues.Idle.Oldest() {
		a.removeQueue(q)
		result.Queues++
	}
	return result
}

// removeQueue deletes a queue without jobs. Only its own row, and the rows of batches that once had jobs in it, can
// still name it.
func (a *Applying) removeQueue(q *memory.Queue) {
	a.touchQueue(q)
	a.AllQueues.Remove(q)
	q.Gone = true
}
