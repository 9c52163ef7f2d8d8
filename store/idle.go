package store

import (
	"cmp"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/job"
)

// Queues without jobs are deleted, by request or after a time that a command names. Their numbers are never used again, since rows of
// batches of which other queues' jobs are left may still name them.

// idleQueues orders the queues that have neither jobs nor settings by the time since when.
type idleQueues struct{ *queueSet }

func newIdleQueues() idleQueues {
	return idleQueues{btree.NewBTreeGOptions(func(a, b *queue) bool {
		return cmp.Or(cmp.Compare(a.idleAt, b.idleAt), cmp.Compare(a.id, b.id)) < 0
	}, btree.Options{NoLocks: true, Degree: 16})}
}

// oldest returns the queue that has been idle for the longest time, or nil.
func (x idleQueues) oldest() *queue {
	q, _ := x.Min()
	return q
}

// configured reports whether somebody has set anything about q. What is configured stays, though it have no jobs.
func (q *queue) configured() bool { return q.paused }

// reviseIdle notes since when a queue has been idle, after its jobs or settings have changed.
func (s *Store) reviseIdle(q *queue) {
	idle := q.jobs == 0 && !q.configured()
	if idle == (q.idleAt != 0) {
		return
	}
	if idle {
		q.idleAt = s.now.At
		s.queues.idle.Set(q)
	} else {
		s.queues.idle.Delete(q)
		q.idleAt = 0
	}
	s.touch(&q.dirty, q)
}

// deleteQueue deletes a queue without jobs, paused or not.
func (s *Store) deleteQueue(cmd job.DeleteQueue) *QueueDeleted {
	q := s.queues.byName[queueName{cmd.Client, cmd.Type}]
	switch {
	case q == nil:
		return &QueueDeleted{Refusal: job.QueueNotFound}
	case q.jobs > 0:
		return &QueueDeleted{Refusal: job.QueueNotEmpty}
	}
	s.dropQueue(q)
	return &QueueDeleted{}
}

// deleteIdleQueues deletes as many idle queues as one command may.
func (s *Store) deleteIdleQueues(cmd job.DeleteIdleQueues) *IdleQueuesDeleted {
	result := &IdleQueuesDeleted{}
	for q := s.queues.idle.oldest(); q != nil && q.idleAt+cmd.IdleMs <= s.now.At && result.Queues < s.rules.commandRows; q = s.queues.idle.oldest() {
		s.dropQueue(q)
		result.Queues++
	}
	return result
}

// dropQueue forgets a queue that has no jobs. No row names it then, except its own and those of batches that it once had jobs in.
func (s *Store) dropQueue(q *queue) {
	s.queues.remove(q)
	q.gone = true
	s.touch(&q.dirty, q)
}

// remove takes a queue without jobs out of everything that finds it.
func (qs *queues) remove(q *queue) {
	if q.idleAt != 0 {
		qs.idle.Delete(q)
	}
	delete(qs.byID, q.id)
	delete(qs.byName, queueName{q.client, q.typ})
	qs.names.Delete(q)
}

// IdleSince returns the time, unix ms, since when the queue has been idle that has been so for the longest time; 0 without one.
func (s *Store) IdleSince() int64 { return s.idleSince.Load() }
