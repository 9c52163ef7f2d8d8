package crash

import (
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/client"
)

// The rows of an errand's queues and session.

func (e *errands) newQueue() {
	e.queues++
	e.queue = e.name + "-" + text(e.queues)
}

// deleteQueue deletes the queue, which is empty. It must be gone afterwards.
func (e *errands) deleteQueue() []row {
	return append([]row{{
		verb: "delete the queue", removes: e.mayBeIdle,
		request: func(c call) (any, error) {
			return nil, c.DeleteQueue(c, ownClient, e.queue)
		},
	}}, e.queueIsGone(func() string { return e.queue }))
}

// mayBeIdle reports whether the queue has been without jobs for so long that the server may have deleted it.
func (e *errands) mayBeIdle() bool { return e.h.now()-e.emptied > int64(queueIdle-idleSlack) }

func (e *errands) queueIsGone(queue func() string) row {
	return row{
		verb:    "read a queue that was deleted",
		request: func(c call) (any, error) { return c.Queue(c, ownClient, queue()) },
		answer:  notFound,
	}
}

// countQueue reads the queue. It must have this number of jobs, all of them ended.
func (e *errands) countQueue(jobs int) row {
	return row{
		verb: "read the queue",
		request: func(c call) (any, error) {
			doc, err := c.Queue(c, ownClient, e.queue)
			if jobs == 0 && notFound.is(err) && e.mayBeIdle() {
				return counted(&client.Queue{}), nil
			}
			return counted(&doc), err
		},
		answer: completedJobs(jobs),
	}
}

// counted returns the part of a queue's document that errands predict.
func counted(doc *client.Queue) any {
	sum := int64(0)
	for _, n := range doc.Counts {
		sum += n
	}
	return map[string]any{"jobs": sum, "completed": doc.Counts["completed"], "paused": doc.Paused}
}

func completedJobs(n int) fields { return fields{"jobs": n, "completed": n, "paused": false} }

// idleQueue is a queue without jobs that --queue-idle is to delete.
type idleQueue struct {
	queue string
	since int64 // it became empty after this time
}

// leaveQueue leaves the queue to --queue-idle.
func (e *errands) leaveQueue() row {
	return own("leave the queue to --queue-idle", func(context.Context) error {
		e.idle = append(e.idle, idleQueue{e.queue, e.emptied})
		e.newQueue()
		return nil
	})
}

// checkIdleQueue reads a queue that --queue-idle is to delete. The queue must exist until it has been idle for that time,
// and must not exist later. With wait, it waits until the queue is deleted.
func (e *errands) checkIdleQueue(wait bool) row {
	return own("read an idle queue", func(ctx context.Context) error {
		if len(e.idle) == 0 {
			return nil
		}
		q := e.idle[0]
		for began := time.Now(); ; pause(ctx, 100*time.Millisecond) {
			doc, err := e.c.Queue(ctx, ownClient, q.queue)
			idle := time.Duration(e.h.now() - q.since)
			switch {
			case errors.Is(err, client.ErrNotFound) && idle < queueIdle-idleSlack:
				return impossiblef("queue %s no longer exists %v after it had a job", q.queue, idle)
			case errors.Is(err, client.ErrNotFound):
				e.idle, e.deleted = e.idle[1:], append(e.deleted, q.queue)
				e.h.tally(func(t *tally) { t.IdleQueues++ })
				return nil
			case err != nil:
				return err
			}
			if is, must := show(counted(&doc), completedJobs(0)), show(completedJobs(0), completedJobs(0)); is != must {
				return impossiblef("queue %s must have %s, and has %s", q.queue, must, is)
			}
			if !wait {
				e.idle = append(e.idle[1:], q) // the next check reads another queue
				return nil
			}
			if time.Since(began) > queueIdle+maxWait {
				return undecided("queue %s has been idle for %v and is still there", q.queue, idle)
			}
		}
	})
}

func (e *errands) openSession() row {
	return row{
		verb: "open a session",
		request: func(c call) (any, error) {
			s, err := c.OpenSession(c, e.name)
			if err == nil {
				e.session, e.last = s, map[int]uint64{}
			}
			return s, err
		},
	}
}

// checkSession reads the document of the session. Each slot must have the number of its last answered request.
func (e *errands) checkSession() row {
	return row{
		verb: "read the session",
		request: func(c call) (any, error) {
			doc, err := c.Session(c, e.session.ID)
			last := map[int]uint64{}
			for _, slot := range doc.Slots {
				last[slot.Slot] = slot.Number
			}
			return map[string]any{"session": doc.ID, "runner": doc.RunnerID, "carried out": last}, err
		},
		answer: func() any { return fields{"session": e.session.ID, "runner": e.name, "carried out": e.last} },
	}
}

// endSession ends the session. The server must then refuse its requests.
func (e *errands) endSession() []row {
	return []row{
		{
			verb:    "end the session",
			request: func(c call) (any, error) { return nil, e.session.End(c) },
		},
		{
			verb:    "read a session that was ended",
			request: func(c call) (any, error) { return c.Session(c, e.session.ID) },
			answer:  noSession,
		},
		{
			verb: "create in a session that was ended",
			request: func(c call) (any, error) {
				n := client.Number{Session: e.session.ID, Number: e.last[0] + 1}
				return c.Numbered(n).Create(c, e.newJob(e.name+" never", false))
			},
			answer: noSession,
		},
	}
}
