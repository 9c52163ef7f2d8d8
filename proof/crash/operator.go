package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/daybookq/daybook/job"
)

// move sends the cancel or redrive of one job.
func (u *user) move(ctx context.Context, k kind, id job.ID) (*reply, error) {
	r, err := u.send(ctx, http.MethodPost, "/jobs/"+id.String()+map[kind]string{cancelledOne: "/cancel", redrivenOne: "/redrive"}[k], "", nil)
	if err != nil {
		return nil, err
	}
	e := event{call: r.call, ret: r.ret, kind: k, attempts: -1}
	switch {
	case r.open():
		e.answer = lost
	case r.ok():
		e.answer = done
	case r.problem.Code == "job_ended" || r.problem.Code == "job_not_ended":
		e.answer = stale
	case r.status == http.StatusNotFound:
		e.answer, e.kind = absent, observed
	default:
		return r, nil // not stored
	}
	u.h.add(id, e)
	if e.answer == done {
		u.readAfter(id, r)
	}
	return r, nil
}

// moveAll sends the cancel or redrive of the jobs of a batch or, without a batch, of the queue. If this continues as a
// sweep, moveAll waits until the sweep is finished: each job is moved at some time until then.
func (u *user) moveAll(ctx context.Context, k kind, p *post, from status) (*reply, error) {
	path := "/queues/default/" + u.queue
	if p != nil {
		path = "/batches/" + p.first.WithLine(0).String()
	}
	if k == redrivenAll {
		path += "/redrive?status=" + statusNames[from]
	} else {
		path += "/cancel"
	}
	r, err := u.send(ctx, http.MethodPost, path, "", nil)
	if err != nil {
		return nil, err
	}
	if p != nil && p.alone() {
		if r.ok() || r.status == http.StatusAccepted {
			u.h.problem("%s: %d %.200q: the job of post %s belongs to no batch", path, r.status, r.body, p.tag)
		}
		return r, nil
	}
	e := event{call: r.call, ret: r.ret, kind: k, attempts: -1, status: from}
	switch {
	case r.open(): // a sweep survives the server that received the request
		e.answer, e.ret = sweeping, never
	case r.status == http.StatusAccepted:
		var doc struct {
			SweepID job.ID `json:"sweep_id"`
		}
		if err := json.Unmarshal(r.body, &doc); err != nil || doc.SweepID.IsZero() {
			u.h.problem("%s: %.200q: %v", path, r.body, err)
		}
		e.ret = u.finished(ctx, doc.SweepID)
		u.h.tally(func(t *tally) { t.Sweeps++ })
	case !r.ok():
		return r, nil // not stored, or not found: a read of the jobs shows which
	}
	if p == nil {
		u.h.mu.Lock()
		u.h.wholeQueue = append(u.h.wholeQueue, e)
		u.h.mu.Unlock()
		return r, nil
	}
	for line := range p.lines {
		u.h.add(p.id(line), e)
	}
	return r, nil
}

// finished waits until a sweep is finished, and returns the time at which this was known, or never if it did not finish.
func (u *user) finished(ctx context.Context, id job.ID) int64 {
	for ctx.Err() == nil {
		r, err := u.send(ctx, http.MethodGet, "/sweeps/"+id.String(), "", nil)
		if err == nil && r.ok() {
			var doc struct {
				FinishedAt *int64 `json:"finished_at"`
			}
			if err := json.Unmarshal(r.body, &doc); err != nil {
				u.h.problem("sweep %s: %.200q: %v", id, r.body, err)
				return never
			}
			if doc.FinishedAt != nil {
				return r.ret
			}
		} else if err == nil && r.status == http.StatusNotFound {
			u.h.problem("sweep %s was acknowledged and is not there", id)
			return never
		}
		pause(ctx, 10*time.Millisecond)
	}
	return never
}

// ofQueue lists the operations on the whole queue that may concern a post. They change jobs that existed when they were
// requested.
func (h *history) ofQueue(p *post) (list []event) {
	for _, e := range h.wholeQueue {
		if e.ret < p.call || p.chained { // chained jobs are in another queue
			continue
		}
		e.unsure = !p.acknowledged || p.ret >= e.call
		list = append(list, e)
	}
	return list
}

// operate cancels and redrives jobs, batches and the queue.
func (c *crowd) operate(i int) {
	rng := c.rng("operator", i)
	for c.ctx.Err() == nil {
		pause(c.ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		p := c.anyPost(rng)
		if p == nil {
			continue
		}
		ask := func() (*reply, error) { return c.u.move(c.ctx, cancelledOne, p.id(rng.IntN(p.lines))) }
		from := []status{cancelled, failed}[rng.IntN(2)]
		switch n := rng.IntN(200); {
		case n < 90:
		case n < 165:
			ask = func() (*reply, error) { return c.u.move(c.ctx, redrivenOne, p.id(rng.IntN(p.lines))) }
		case n < 178:
			ask = func() (*reply, error) { return c.u.moveAll(c.ctx, cancelledAll, p, nowhere) }
		case n < 196:
			ask = func() (*reply, error) { return c.u.moveAll(c.ctx, redrivenAll, p, from) }
		case n < 198:
			ask = func() (*reply, error) { return c.u.moveAll(c.ctx, cancelledAll, nil, nowhere) }
		default:
			ask = func() (*reply, error) { return c.u.moveAll(c.ctx, redrivenAll, nil, from) }
		}
		if _, err := ask(); err != nil {
			pause(c.ctx, retryPause)
		}
	}
}

// anyPost returns one of the latest posts that are known to be stored.
func (c *crowd) anyPost(rng *rand.Rand) *post {
	id := c.recall(rng)
	if id.IsZero() {
		return nil
	}
	c.u.h.mu.Lock()
	defer c.u.h.mu.Unlock()
	return c.u.h.postOf(id)
}

// afterMove returns the states that a job in state s may have after a cancel or redrive.
func (m *jobModel) afterMove(s state, e *event) []state {
	ended := s.status == completed || s.status == failed || s.status == cancelled
	if s.status == nowhere && e.unsure {
		return []state{s}
	}
	if s.status == nowhere || e.answer == absent {
		return nil
	}
	none, again := state{status: cancelled, attempts: s.attempts, offspring: s.offspring}, state{status: pending, offspring: s.offspring}
	switch e.kind {
	case cancelledOne:
		switch {
		case s.status == cancelled && e.answer != stale:
			return []state{s}
		case ended != (e.answer == stale): // refused if and only if the job had ended
			return nil
		case ended:
			return []state{s}
		}
		return []state{none}
	case redrivenOne:
		switch {
		case ended != (e.answer != stale):
			return nil
		case !ended:
			return []state{s}
		}
		return []state{again}
	case cancelledAll:
		switch {
		case ended:
			return []state{s}
		case e.unsure:
			return []state{s, none}
		}
		return []state{none}
	case redrivenAll: // it skips jobs that changed since it was requested
		if s.status != e.status {
			return []state{s}
		}
		return []state{s, again}
	}
	panic(fmt.Sprintf("event kind %d", e.kind))
}
