package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// Sweep returns the document of a sweep, or job.SweepNotFound if it does not exist.
func (q *Queries) Sweep(id job.ID) (doc Sweep, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	w := rowOf(q.live.seqs(id), id, func(seq uint64) *sweep {
		value := v.Get(seqKey(sweepTable, seq))
		if value == nil {
			return nil
		}
		return decodeSweep(seq, value)
	})
	if w == nil {
		return Sweep{}, job.SweepNotFound
	}
	return w.document(), nil
}

// Sweeps returns the documents of all running sweeps, and of the newest of the sweeps that ended lately, job.MaxPage in
// all, oldest first.
func (q *Queries) Sweeps() (docs []Sweep, err error) {
	defer lsm.Catch(&err)
	q.live.read()
	var seqs []uint64 // of the running sweeps, which may be older than many that have ended
	for _, w := range q.live.running {
		seqs = append(seqs, w.Seq)
	}
	q.live.mu.RUnlock()
	v := q.db.View()
	defer v.Close()
	room := job.MaxPage - len(seqs)
	v.ScanDown(string(sweepTable), string(sweepTable+1), func(key string, _ []byte) bool {
		if seq := seqOfKey(key); room > 0 && !slices.Contains(seqs, seq) {
			seqs = append(seqs, seq)
			room--
		}
		return room > 0
	})
	slices.Sort(seqs)
	for _, seq := range seqs {
		if value := v.Get(seqKey(sweepTable, seq)); value != nil { // a sweep that has just begun has no row yet
			docs = append(docs, decodeSweep(seq, value).document())
		}
	}
	return docs, nil
}
