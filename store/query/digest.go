package query

import (
	"hash/crc64"

	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// EachRow calls visit with all keys and values, in order, until it returns false, for comparing stores. The value is
// valid during the visit.
func (q *Queries) EachRow(visit func(key string, value []byte) bool) (err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	v.Scan("\x00", "\xff", visit)
	return nil
}

// Digest hashes all keys and values, and counts the rows of each table. Equal stores have equal digests.
func (q *Queries) Digest() (sum uint64, rows map[string]int64, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	h := crc64.New(crc64.MakeTable(crc64.ECMA))
	rows = map[string]int64{}
	for _, table := range row.Tables {
		v.Scan(string(table), string(table+1), func(key string, value []byte) bool {
			rows[string(table)]++
			e := make(lsm.Encoder, 0, 64)
			e.Text(key)
			e.Bytes(value)
			h.Write(e)
			return true
		})
	}
	return h.Sum64(), rows, nil
}
