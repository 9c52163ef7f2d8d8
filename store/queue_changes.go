package store

import (
	"strings"

	"github.com/daybookq/daybook/job"
)

// The first job of a queue creates it. A queue without jobs is deleted by request, or after a time that a command
// names. Numbers of queues are never used again, because rows of batches with jobs in several queues may still name
// them.

// makeQueue returns the queue of a client and type. It creates the queue if necessary.
func (a *applying) makeQueue(client, typ string) *queue {
	if q := a.queues.byName[queueName{client, typ}]; q != nil {
		return q
	}
	name := queueName{strings.Clone(client), strings.Clone(typ)} // so that it does not keep the text of the command in memory
	q := &queue{id: a.meta.nextQueue, queueName: name, createdAt: a.now.At, shown: &shownQueue{}}
	a.meta.nextQueue++
	a.queues.add(q)
	a.touch(&q.dirty, q)
	a.reviseIdle(q)
	return q
}

// reviseIdle records since when a queue has been idle, after its jobs or settings have changed.
func (a *applying) reviseIdle(q *queue) {
	idle := q.empty() && !q.configured()
	if idle == (q.idleAt != 0) {
		return
	}
	a.touchQueue(q)
	if idle {
		q.idleAt = a.now.At
		a.queues.idle.Set(q)
	} else {
		a.queues.idle.Delete(q)
		q.idleAt = 0
	}
}

// deleteQueue deletes a queue without jobs, paused or not.
func (a *applying) deleteQueue(cmd job.DeleteQueue) *QueueDeleted {
	q := a.queues.byName[queueName{cmd.Client, cmd.Type}]
	switch {
	case q == nil:
		return &QueueDeleted{Refusal: job.QueueNotFound}
	case !q.empty():
		return &QueueDeleted{Refusal: job.QueueNotEmpty}
	}
	a.removeQueue(q)
	return &QueueDeleted{}
}

// deleteIdleQueues deletes as many idle queues as one command may delete.
func (a *applying) deleteIdleQueues(cmd job.DeleteIdleQueues) *IdleQueuesDeleted {
	result := &IdleQueuesDeleted{}
	for q := a.queues.idle.oldest(); q != nil && q.idleAt+cmd.IdleMs <= a.now.At && result.Queues < a.rules.commandRows; q = a.queues.idle.oldest() {
		a.removeQueue(q)
		result.Queues++
	}
	return result
}

// removeQueue deletes a queue without jobs. Only its own row, and the rows of batches that once had jobs in it, can
// still name it.
func (a *applying) removeQueue(q *queue) {
	a.touchQueue(q)
	a.queues.remove(q)
	q.gone = true
}
