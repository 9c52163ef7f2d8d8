package crash

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/daybookq/daybook/client"
)

// This file has the steps of an errand that concern its queues and its session.

// deleteQueue deletes the queue, which is empty.
func (e *errands) deleteQueue() step {
	s := e.removes("delete the queue", func(ctx context.Context) error { return e.once.DeleteQueue(ctx, ownClient, e.queue) }, e.mayBeIdle, func() {})
	return step{s.what, func(ctx context.Context) error {
		if err := s.do(ctx); err != nil {
			return err
		}
		e.todo = append([]step{e.todo[0], e.queueIsGone(e.queue)}, e.todo[1:]...)
		return nil
	}}
}

// mayBeIdle reports whether the queue has been without jobs for so long that the server may have deleted it.
func (e *errands) mayBeIdle() bool { return e.h.now()-e.emptied > int64(queueIdle-idleSlack) }

func (e *errands) queueIsGone(queue string) step {
	return step{"read a queue that was deleted", func(ctx context.Context) error {
		doc, err := e.c.Queue(ctx, ownClient, queue)
		if err == nil {
			return impossiblef("queue %s was deleted and exists again: %+v", queue, doc)
		}
		if errors.Is(err, client.ErrNotFound) {
			return nil
		}
		return err
	}}
}

// countQueue reads the queue. It must have this number of jobs, all of them ended.
func (e *errands) countQueue(jobs int64) step {
	return step{"read the queue", func(ctx context.Context) error {
		doc, err := e.c.Queue(ctx, ownClient, e.queue)
		if errors.Is(err, client.ErrNotFound) {
			if jobs == 0 && e.mayBeIdle() {
				return nil
			}
			return impossiblef("queue %s no longer exists", e.queue)
		}
		if err != nil {
			return err
		}
		return counts(&doc, jobs)
	}}
}

func counts(doc *client.Queue, jobs int64) error {
	sum := int64(0)
	for n := range maps.Values(doc.Counts) {
		sum += n
	}
	if sum != jobs || doc.Counts["completed"] != jobs || doc.Paused {
		return impossiblef("queue %s must have %d completed jobs and no others: %+v", doc.Type, jobs, *doc)
	}
	return nil
}

// checkIdleQueue reads a queue that --queue-idle is to delete. The queue must exist until it has been idle for that time,
// and must not exist later. With wait, the step waits until the queue is deleted.
func (e *errands) checkIdleQueue(wait bool) step {
	return step{"read an idle queue", func(ctx context.Context) error {
		if len(e.idle) == 0 {
			return nil
		}
		q := e.idle[0]
		for began := time.Now(); ; {
			doc, err := e.c.Queue(ctx, ownClient, q.queue)
			idle := time.Duration(e.h.now() - q.since)
			switch {
			case errors.Is(err, client.ErrNotFound) && idle < queueIdle-idleSlack:
				return impossiblef("queue %s no longer exists %v after it had a job", q.queue, idle)
			case errors.Is(err, client.ErrNotFound):
				e.idle, e.deleted = e.idle[1:], append(e.deleted, q.queue)
				e.h.mu.Lock()
				e.h.count.IdleQueues++
				e.h.mu.Unlock()
				return nil
			case err != nil:
				return err
			}
			if err := counts(&doc, 0); err != nil {
				return err
			}
			if !wait {
				e.idle = append(e.idle[1:], q) // the next check reads another queue
				return nil
			}
			if time.Since(began) > queueIdle+maxWait {
				return undecided("queue %s has been idle for %v and is still there", q.queue, idle)
			}
			pause(ctx, 100*time.Millisecond)
		}
	}}
}

func (e *errands) openSession() step {
	return step{"open a session", func(ctx context.Context) error {
		s, err := e.c.OpenSession(ctx, e.name)
		if err != nil {
			return err
		}
		e.session, e.last = s, map[int]uint64{}
		return nil
	}}
}

// checkSession reads the document of the session. Each slot must have the number of its last answered request.
func (e *errands) checkSession() step {
	return step{"read the session", func(ctx context.Context) error {
		doc, err := e.c.Session(ctx, e.session.ID)
		if err != nil {
			return err
		}
		last := map[int]uint64{}
		for _, slot := range doc.Slots {
			last[slot.Slot] = slot.Number
		}
		if doc.ID != e.session.ID || doc.RunnerID != e.name || !maps.Equal(last, e.last) {
			return impossiblef("session %s has carried out %v, and is %+v", e.session.ID, e.last, doc)
		}
		return nil
	}}
}

// endSession ends the session. The server must then refuse its requests.
func (e *errands) endSession() step {
	return step{"end the session", func(ctx context.Context) error {
		if err := e.session.End(ctx); err != nil {
			return err
		}
		if doc, err := e.c.Session(ctx, e.session.ID); err == nil {
			return impossiblef("session %s was ended, and is %+v", e.session.ID, doc)
		} else if !errors.Is(err, client.ErrSessionNotFound) {
			return err
		}
		n := client.Number{Session: e.session.ID, Number: e.last[0] + 1}
		if doc, err := e.c.Numbered(n).Create(ctx, e.newJob(e.name+" never", false)); err == nil {
			return impossiblef("session %s was ended, and job %s was made in it", e.session.ID, doc.ID)
		} else if !errors.Is(err, client.ErrSessionNotFound) {
			return err
		}
		return nil
	}}
}
