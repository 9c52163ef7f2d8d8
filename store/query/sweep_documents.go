package query

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Sweep returns the document of a sweep, or job.SweepNotFound if it does not exist.
func (q *Queries) Sweep(id job.ID) (doc document.Sweep, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	w := memory.RowOf(q.live.Seqs(id), id, func(seq uint64) *row.Sweep {
		value := v.Get(row.SeqKey(row.SweepTable, seq))
		if value == nil {
			return nil
		}
		return row.DecodeSweep(seq, value)
	})
	if w == nil {
		return document.Sweep{}, job.SweepNotFound
	}
	return w.Document(), nil
}

// Sweeps returns the documents of all running sweeps, and of the newest of the sweeps that ended lately, job.MaxPage in
// all, oldest first.
func (q *Queries) Sweeps() (docs []document.Sweep, err error) {
	defer lsm.Catch(&err)
	q.live.Read()
	var seqs []uint64 // of the running sweeps, which may be older than many that have ended
	for _, w := range q.live.Running {
		seqs = append(seqs, w.Seq)
	}
	q.live.Mu.RUnlock()
	v := q.db.View()
	defer v.Close()
	room := job.MaxPage - len(seqs)
	v.ScanDown(string(row.SweepTable), string(row.SweepTable+1), func(key string, _ []byte) bool {
		if seq := row.SeqOfKey(key); room > 0 && !slices.Contains(seqs, seq) {
			seqs = append(seqs, seq)
			room--
		}
		return room > 0
	})
	slices.Sort(seqs)
	for _, seq := range seqs {
		if value := v.Get(row.SeqKey(row.SweepTable, seq)); value != nil { // a sweep that has just begun has no row yet
			docs = append(docs, row.DecodeSweep(seq, value).Document())
		}
	}
	return docs, nil
}
