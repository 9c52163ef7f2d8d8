package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// movedType is the only type without attributes of batches whose jobs operators move. So users know how all other jobs end.
const movedType = "swept"

// briefType is the type of queues with few jobs, which are purged soon, so that the queues can be deleted.
const briefType = "brief"

// makeMovable lets operators move the jobs of a batch, and gives the batch attributes that depend on time.
func (u *user) makeMovable(b *batch) {
	b.moved = true
	now := u.s.engine.Now()
	for i := range b.create.Groups {
		g := &b.create.Groups[i]
		g.Type, g.OnComplete = movedType, ""
		if u.random.IntN(3) == 0 {
			g.ExpiresAt = max(now, g.RunAt) + 1 + int64(u.random.IntN(5000))
		}
		if u.random.IntN(3) == 0 {
			g.TimeoutMs = int64(1000 + u.random.IntN(4000))
		}
	}
	if u.random.IntN(2) == 0 {
		for line := range b.create.Lines() {
			if u.random.IntN(2) == 0 {
				b.create.Unique = append(b.create.Unique, job.UniqueKey{Line: line, Key: fmt.Sprintf("key-%d", u.random.IntN(8))})
			}
		}
	}
}

// move makes one of the changes that an operator may make to jobs.
func (u *user) move() {
	a := u.w.account
	a.mu.Lock()
	var batches []*batch
	for _, tag := range a.tags() {
		if b := a.batches[tag]; b.moved && b.result == stored && len(b.payloads) > 0 {
			batches = append(batches, b)
		}
	}
	a.mu.Unlock()
	if len(batches) == 0 {
		return
	}
	b := batches[u.random.IntN(len(batches))]
	id := b.job(u.random.IntN(len(b.payloads)))
	if u.random.IntN(5) == 0 {
		u.patch(id)
		return
	}
	m := job.Move{Op: pick(u.random, job.Cancel, job.Cancel, job.Redrive, job.Redrive, job.Run, job.Delete)}
	switch n := u.random.IntN(10); {
	case n < 5 || m.Op == job.Run || b.of != nil && n < 9: // few sweeps over whole batches with attributes, which must also end in other ways
		m.Job = id
	case n < 7 || b.of != nil && u.random.IntN(2) == 0:
		m.Batch = b.shown()
	default:
		m.Client, m.Type = u.client(), b.groups[0].Type
		if u.key != nil {
			m.Type = movedType // overreach has the queues for which the key is not
		}
	}
	// Only fill ends a batch with attributes as a whole.
	if takes := m.Op.Takes(); m.Job.IsZero() && (u.random.IntN(2) == 0 || b.of != nil && !m.Batch.IsZero()) {
		m.Status = takes[u.random.IntN(len(takes))]
	}
	var one applied.Moved
	var many applied.Swept
	var receipt ingest.Receipt
	err := u.request(func(ctx context.Context) (err error) {
		if m.Job.IsZero() {
			many, receipt, err = u.s.engine.MoveAll(ctx, m)
		} else {
			one, receipt, err = u.s.engine.Move(ctx, m)
		}
		return err
	})
	u.unexpected(m.Verb(), err)
	u.s.log("%s %v %v %s/%s %v: %v, %+v %+v, %v", m.Verb(), m.Job, m.Batch, m.Client, m.Type, m.Status, receipt, one, many, err)
	switch {
	case err != nil:
	case m.Job.IsZero():
		a.answered(u.key, receipt, m, &many)
	default:
		a.answered(u.key, receipt, m, &one)
	}
}

func (u *user) patch(id job.ID) {
	p := job.Patch{Job: id}
	priority, attempts, runAt := u.random.IntN(job.MaxPriority+1), 1+u.random.IntN(6), u.s.engine.Now()+int64(u.random.IntN(2000))
	if p.Priority = &priority; u.random.IntN(2) == 0 {
		p.RunAt = &runAt
	}
	if u.random.IntN(4) == 0 {
		p.MaxAttempts = &attempts
	}
	answer, receipt, err := send(u, u.s.engine.Patch, p)
	u.unexpected("patch", err)
	if err == nil {
		u.w.account.answered(u.key, receipt, p, &answer)
	}
}

// stopAll stops all claims for a while, and allows them again.
func (u *user) stopAll() {
	set := func(stopped bool) {
		c := job.Switch{Stopped: stopped}
		var answer applied.Switched
		var receipt ingest.Receipt
		err := u.request(func(ctx context.Context) (err error) {
			answer, receipt, err = u.s.engine.Switch(ctx, c)
			return err
		})
		u.unexpected("switch", err)
		u.s.log("stopped %v: %v, %v", stopped, receipt, err)
		if err == nil {
			u.w.account.answered(u.key, receipt, c, &answer)
		}
	}
	set(true)
	u.rest(time.Second)
	set(false)
}
