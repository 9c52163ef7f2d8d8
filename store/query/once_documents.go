package query

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
)

// lookBack calls look with the past of the last commit. now is the journal's time, unix ms.
func (q *Queries) lookBack(now int64, look func(p machine.Past)) (err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	var keys []row.KeyGeneration
	if value := v.Get(row.MetaKey); value != nil { // q.meta may be ahead of the view
		m := row.DecodeMeta(value)
		keys = m.Keys
	}
	look(machine.Past{
		keys, v, now,
		func(id job.ID) *row.Session { return q.live.ReadSessionOf(v, id) },
		func(name row.SlotName) *row.Slot { return row.ReadSlot(v, name) },
		func(seq uint64) *row.Claim { return row.ReadClaim(v, seq) },
	})
	return nil
}

// MadeBefore looks for an earlier create with the same key or number, as of the last commit. It returns the result of
// that create, or the reason why the server must refuse the new one. It returns nil if there was no such create. now
// is the journal's time, unix ms.
func (q *Queries) MadeBefore(o *job.Once, now int64) (made *applied.Made, err error) {
	err = q.lookBack(now, func(p machine.Past) { made = p.Made(o) })
	return made, err
}

// ClaimedBefore is MadeBefore for a claim.
func (q *Queries) ClaimedBefore(o *job.Once, now int64) (c *applied.Claimed, err error) {
	err = q.lookBack(now, func(p machine.Past) { c, _ = p.Claimed(o) })
	return c, err
}

// EndedBefore is MadeBefore for a completion.
func (q *Queries) EndedBefore(cmd *job.Complete, now int64) (ended *applied.Ended, err error) {
	err = q.lookBack(now, func(p machine.Past) { ended, _ = p.Ended(cmd) })
	return ended, err
}

// SessionBytes returns the owner of a session, and about how many bytes the rows of the owner's sessions have.
func (q *Queries) SessionBytes(session job.ID) (owner string, bytes uint64, err error) {
	err = q.lookBack(0, func(p machine.Past) {
		if n := p.Session(session); n != nil {
			owner, bytes = n.Owner, row.ReadSessionOwner(p.Rows, n.Owner).Bytes
		}
	})
	return owner, bytes, err
}

// SessionsOf returns how many open sessions an owner has.
func (q *Queries) SessionsOf(owner string) (sessions int64, err error) {
	err = q.lookBack(0, func(p machine.Past) { sessions = int64(row.ReadSessionOwner(p.Rows, owner).Sessions) })
	return sessions, err
}

// SessionInScope reports whether there is a session, and whether an actor may use it.
func (q *Queries) SessionInScope(by *job.Actor, session job.ID) (in, there bool, err error) {
	err = q.lookBack(0, func(p machine.Past) {
		if n := p.Session(session); n != nil {
			in, there = n.For(by), true
		}
	})
	return in, there, err
}

// KeysOf counts the idempotency keys of an owner.
func (q *Queries) KeysOf(owner string) (of row.KeyOwner, err error) {
	err = q.lookBack(0, func(p machine.Past) {
		for _, g := range p.Keys {
			has := row.ReadKeyOwner(p.Rows, row.OwnerKey(g.Number, owner))
			of.Keys += has.Keys
			of.Bytes += has.Bytes
		}
	})
	return of, err
}
