package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// Operators move jobs of one type only, so that all others are held to the strict rules of audit.go. Of the moved ones this is known: their
// payloads are what was posted, no more attempts than allowed are made, none is held by two claims, and what was answered as cancelled
// is not handed out before somebody asked for it again. That nothing else happens to them is what the book tells: the same journal makes
// the same rows.
const movedType = "swept"

// moved makes a batch one that operators may move, with all the attributes that time has an effect on.
func (u *user) moved(b *batch) {
	b.moved = true
	now := u.s.engine.Now()
	for i := range b.create.Groups {
		g := &b.create.Groups[i]
		g.Type = movedType
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

// move does to jobs what an operator may.
func (u *user) move() {
	a := u.w.account
	a.mu.Lock()
	var batches []*batch
	for _, tag := range a.tags() {
		if b := a.batches[tag]; b.moved && b.fate == stored {
			batches = append(batches, b)
		}
	}
	a.mu.Unlock()
	if len(batches) == 0 {
		return
	}
	b := batches[u.random.IntN(len(batches))]
	id := b.id.WithLine(u.random.IntN(len(b.payloads)))
	if u.random.IntN(5) == 0 {
		u.patch(id)
		return
	}
	m := job.Move{Op: pick(u.random, job.Cancel, job.Cancel, job.Redrive, job.Redrive, job.Run, job.Delete)}
	switch n := u.random.IntN(10); {
	case n < 6 || m.Op == job.Run:
		m.Job = id
	case n < 8:
		m.Batch = b.id
	default:
		m.Client, m.Type = pick(u.random, "acme", "default"), movedType
	}
	if takes := m.Op.Takes(); m.Job.IsZero() && u.random.IntN(2) == 0 {
		m.Status = takes[u.random.IntN(len(takes))]
	}
	if m.Op != job.Cancel || m.Job.IsZero() { // whatever becomes of it, it may have been carried out
		a.asked(m, b)
	}
	var one store.Moved
	var many store.Swept
	var receipt ingest.Receipt
	err := u.ask(func(ctx context.Context) (err error) {
		if m.Job.IsZero() {
			many, receipt, err = u.s.engine.MoveAll(ctx, m)
		} else {
			one, receipt, err = u.s.engine.Move(ctx, m)
		}
		return err
	})
	u.unexpected(m.Verb(), err)
	u.s.log("%s %v %v %s/%s %v: %v, %+v %+v, %v", m.Verb(), m.Job, m.Batch, m.Client, m.Type, m.Status, receipt, one, many, err)
	if err == nil && m.Op == job.Cancel && !m.Job.IsZero() && one.Refusal == job.Granted {
		if one.Status != job.Cancelled {
			u.w.violation(fmt.Errorf("cancel of %v is answered with %v", m.Job, one.Status))
		}
		a.mu.Lock()
		a.note(receipt, fmt.Sprintf("cancel %v", m.Job), func(v *audit) error {
			v.cancelled[m.Job] = receipt.Seq
			return nil
		})
		a.mu.Unlock()
	}
}

func (u *user) patch(id job.ID) {
	p := job.Patch{Job: id}
	priority, runAt := u.random.IntN(job.MaxPriority+1), u.s.engine.Now()+int64(u.random.IntN(2000))
	if p.Priority = &priority; u.random.IntN(2) == 0 {
		p.RunAt = &runAt
	}
	err := u.ask(func(ctx context.Context) error {
		_, _, err := u.s.engine.Patch(ctx, p)
		return err
	})
	u.unexpected("patch", err)
}

// throw stops all handing out for a while, and starts it again.
func (u *user) throw() {
	set := func(stopped bool) {
		var receipt ingest.Receipt
		err := u.ask(func(ctx context.Context) (err error) {
			_, receipt, err = u.s.engine.Switch(ctx, job.Switch{Stopped: stopped})
			return err
		})
		u.unexpected("switch", err)
		u.s.log("stopped %v: %v, %v", stopped, receipt, err)
		if err == nil {
			u.w.account.thrown(receipt, stopped)
		} else if !notStored(err) {
			u.w.account.mu.Lock()
			u.w.account.unsureSwitch = true
			u.w.account.mu.Unlock()
		}
	}
	set(true)
	u.rest(time.Second)
	set(false)
}

// thrown notes the answer to a stop or start.
func (a *account) thrown(r ingest.Receipt, stopped bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(r, fmt.Sprintf("stopped %v", stopped), func(u *audit) error {
		u.stopped = stopped
		return nil
	})
}

// asked notes that jobs may be pending again, or gone, from now on: what was said of their being cancelled no longer holds.
func (a *account) asked(m job.Move, b *batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !m.Job.IsZero():
		a.askedFor[m.Job] = true
	case !m.Batch.IsZero():
		a.askedFor[b.id] = true
	default:
		a.askedFor[job.ID{}] = true // of any batch
	}
}

// handedOutMoved is handOut for a job that operators move.
func (u *audit) handedOutMoved(r ingest.Receipt, doc *job.Job) error {
	if doc.RunAttempts > doc.MaxAttempts {
		return fmt.Errorf("job %v runs %d times of %d", doc.ID, doc.RunAttempts, doc.MaxAttempts)
	}
	asked := u.a.askedFor
	if seq := u.cancelled[doc.ID]; seq != 0 && !asked[doc.ID] && !asked[doc.Batch] && !asked[job.ID{}] {
		return fmt.Errorf("job %v is handed out after it was answered as cancelled, at %d", doc.ID, seq)
	}
	if u.stopped && !u.a.unsureSwitch {
		return fmt.Errorf("job %v is handed out while all are stopped", doc.ID)
	}
	return nil
}
