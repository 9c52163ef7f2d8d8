package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// lookBack calls look with the past of the last commit. now is the journal's time, unix ms.
func (q *Queries) lookBack(now int64, look func(p past)) (err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	var keys []keyGeneration
	if value := v.Get(metaKey); value != nil { // q.meta may be ahead of the view
		m := decodeMeta(value)
		keys = m.keys
	}
	look(past{
		keys, v, now,
		func(id job.ID) *session { return q.live.readSessionOf(v, id) },
		func(name slotName) *slot { return readSlot(v, name) },
		func(seq uint64) *claim { return readClaim(v, seq) },
	})
	return nil
}

// MadeBefore looks for an earlier create with the same key or number, as of the last commit. It returns the result of
// that create, or why the new one may not be carried out, or nil if neither. now is the journal's time, unix ms.
func (q *Queries) MadeBefore(o *job.Once, now int64) (made *Made, err error) {
	err = q.lookBack(now, func(p past) { made = p.made(o) })
	return made, err
}

// ClaimedBefore is MadeBefore for a claim.
func (q *Queries) ClaimedBefore(o *job.Once, now int64) (c *Claimed, err error) {
	err = q.lookBack(now, func(p past) { c, _ = p.claimed(o) })
	return c, err
}

// EndedBefore is MadeBefore for a completion.
func (q *Queries) EndedBefore(cmd *job.Complete, now int64) (ended *Ended, err error) {
	err = q.lookBack(now, func(p past) { ended, _ = p.ended(cmd) })
	return ended, err
}

// SessionBytes returns the runner of a session, and about how many bytes the rows of the runner's sessions have.
func (q *Queries) SessionBytes(session job.ID) (runner string, bytes uint64, err error) {
	err = q.lookBack(0, func(p past) {
		if n := p.session(session); n != nil {
			runner, bytes = n.runner, readSessionOwner(p.rows, n.runner).bytes
		}
	})
	return runner, bytes, err
}

// KeyBytes returns how many bytes the idempotency keys of a key's owner take.
func (q *Queries) KeyBytes(o *job.Once) (bytes uint64, err error) {
	err = q.lookBack(0, func(p past) {
		for _, g := range p.keys {
			bytes += decodeOwner(p.rows.Get(ownerKey(g.number, o.Owner())))
		}
	})
	return bytes, err
}
