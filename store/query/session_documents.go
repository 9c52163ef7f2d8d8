package query

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// SessionDocument returns the document of a session, or job.SessionNotFound if it does not exist.
func (q *Queries) SessionDocument(id job.ID) (_ document.Session, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	n := q.live.ReadSessionOf(v, id)
	if n == nil {
		return document.Session{}, job.SessionNotFound
	}
	numbers := map[int]uint64{}
	prefix := row.SeqKey(row.SlotTable, n.Seq)
	v.Scan(prefix, lsm.After(prefix), func(key string, value []byte) bool {
		numbers[row.SlotOfKey(key)], _ = row.DecodeSlot(value)
		return true
	})
	return n.Document(numbers), nil
}
