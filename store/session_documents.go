package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// SessionDocument returns the document of a session, or job.SessionNotFound if it does not exist.
func (q *Queries) SessionDocument(id job.ID) (_ Session, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	n := q.live.readSessionOf(v, id)
	if n == nil {
		return Session{}, job.SessionNotFound
	}
	numbers := map[int]uint64{}
	prefix := seqKey(slotTable, n.seq)
	v.Scan(prefix, lsm.After(prefix), func(key string, value []byte) bool {
		numbers[slotOfKey(key)], _ = decodeSlot(value)
		return true
	})
	return n.document(numbers), nil
}
