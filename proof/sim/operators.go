package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/job"
)

// runSetAside runs a job that was set aside as damaged, as an operator does after a rebuild.
func (u *user) runSetAside() {
	a := u.w.account
	a.mu.Lock()
	if len(a.setAside) == 0 {
		a.mu.Unlock()
		return
	}
	i := u.random.IntN(len(a.setAside))
	m := job.Move{Op: job.Run, Job: a.setAside[i]}
	a.setAside = append(a.setAside[:i], a.setAside[i+1:]...)
	a.mu.Unlock()
	moved, receipt, err := send(u, u.s.engine.Move, m)
	u.unexpected(m.Verb(), err)
	u.s.log("%s %v, which was set aside as damaged: %v, %+v, %v", m.Verb(), m.Job, receipt, moved, err)
	if err == nil {
		a.answered(u.key, receipt, m, &moved)
	}
}

// operate pauses and resumes queues, moves jobs, sets the clock, flushes the store, and reads.
func (s *server) operate(id int) {
	u := s.user(id)
	for u.rest(400 * time.Millisecond) {
		switch u.random.IntN(25) {
		case 20, 21:
			u.changeDocument(job.HandlerDocument)
		case 22, 23:
			u.changeDocument(job.FilesetDocument)
		case 24:
			u.changeDocument(pick(u.random, job.KeyDocument, job.LoginDocument, job.QuotaDocument))
		case 5, 6, 7, 8, 9, 10:
			u.move()
		case 11:
			u.stopAll()
		case 14:
			u.runSetAside()
		case 12, 13:
			u.deleteQueue(pick(u.random, "acme", "default"), pick(u.random, "mail", movedType, briefType, briefType, briefType))
		case 2, 3, 4:
			if err := s.engine.Flush(); err != nil {
				u.unexpected("flush", err)
			}
		case 0:
			u.pause(pick(u.random, "acme", "default"), pick(u.random, "resize", "mail", movedType, briefType), u.random.IntN(2) == 0)
		case 1:
			// This is far less than a day, at which a start would be refused.
			s.w.wall.Store(int64(time.Duration(u.random.IntN(14_400)-7200) * time.Second))
			s.log("the wall clock is set %v off", time.Duration(s.w.wall.Load()))
		default:
			u.read()
		}
	}
}

// deleteQueue deletes a queue. The server refuses this while the queue has jobs.
func (u *user) deleteQueue(client, typ string) {
	d := job.DeleteQueue{Client: client, Type: typ}
	answer, receipt, err := send(u, u.s.engine.DeleteQueue, d)
	u.unexpected("delete queue", err)
	u.s.log("%s %s/%s: %v, %v %v", d.Verb(), client, typ, receipt, answer.Refusal, err)
	if err == nil {
		u.w.account.answered(u.key, receipt, d, &answer)
	}
}

func (u *user) pause(client, typ string, paused bool) {
	p := job.Pause{Client: client, Type: typ, Paused: paused}
	answer, receipt, err := send(u, u.s.engine.Pause, p)
	u.unexpected("pause", err)
	u.s.log("%s %s/%s: %v, %v %v", p.Verb(), client, typ, receipt, answer.Refusal, err)
	if err == nil {
		u.w.account.answered(u.key, receipt, p, &answer)
	}
}

// read reads a job whose end was answered. Its document must show that end.
func (u *user) read() {
	a := u.w.account
	a.mu.Lock()
	if len(a.endedJobs) == 0 {
		a.mu.Unlock()
		return
	}
	id := a.endedJobs[u.random.IntN(len(a.endedJobs))]
	want := a.terminal[id]
	a.mu.Unlock()
	var doc job.Job
	err := u.request(func(ctx context.Context) (err error) {
		if err = u.s.engine.CatchUp(ctx, 0); err == nil {
			doc, err = u.s.engine.Queries().Job(id)
		}
		return err
	})
	if errors.Is(err, job.NotFound) {
		return // purged, or lost: verify checks which
	}
	u.unexpected("read", err)
	if err == nil && doc.Status != want {
		u.w.violation(fmt.Errorf("job %v was answered as %v and reads as %+v", id, want, doc))
	}
}
