package query

import (
	"cmp"
	"math"
	"slices"

	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// AuditFilter says which commands of the audit a list shows. A zero field matches all.
type AuditFilter struct {
	After         uint64 // a seq
	By, Verb      string
	Since, Before int64 // unix ms; Before is exclusive
	Limit         int   // at least 1
}

// Audit returns commands of operators and admins that are kept, in their order. It may look at all that are kept: 64 MiB.
func (q *Queries) Audit(f AuditFilter) (list []document.Audited, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	if f.After == math.MaxUint64 {
		return nil, nil
	}
	for _, table := range row.AuditTables {
		most := len(list)
		if most += f.Limit; most < 0 {
			most = math.MaxInt
		}
		v.Scan(row.SeqKey(table, f.After+1), string(table+1), func(key string, value []byte) bool {
			a := row.DecodeAudited(row.SeqOfKey(key), value)
			if f.Before != 0 && a.At >= f.Before { // times never decrease
				return false
			}
			if a.At >= f.Since && (f.By == "" || a.By == f.By) && (f.Verb == "" || a.Verb == f.Verb) {
				list = append(list, a)
			}
			return len(list) < most
		})
	}
	slices.SortFunc(list, func(a, b document.Audited) int { return cmp.Compare(a.Seq, b.Seq) })
	return list[:min(len(list), f.Limit)], nil
}
