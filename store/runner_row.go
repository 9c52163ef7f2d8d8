package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// runner is what is known of a runner while it holds something, and its row for some time after.
type runner struct {
	name      string
	claims    int
	held      int
	open      []uint64 // open claims, in the order of their seqs, up to rules.listedClaims; the others have rows
	tickledAt int64    // of the last tickle of all it holds
	promise   job.Promise
	// idleSince is when it last came to hold nothing; 0 while it holds something. A runner that holds nothing is as one
	// that was never seen, but for its row: it stays for a while, since most runners claim again at once, and a key
	// that is deleted and set again many times a second makes every read of it walk over all those versions.
	idleSince int64
	timerAt   int64 // time of its timer row, at or before the end of that while; 0: no timer row
	dirty     bool  // on the machine's list of unwritten rows
	gone      bool  // its row has been deleted
}

func (r *runner) encode() []byte {
	e := make(lsm.Encoder, 0, 40)
	e.Uint(uint64(r.claims))
	e.Uint(uint64(r.held))
	e.Int(r.tickledAt)
	e.Int(r.promise.From)
	e.Int(r.promise.Until)
	e.Uint(r.promise.Seq)
	e.Int(r.idleSince)
	e.Int(r.timerAt)
	e.Uint(uint64(len(r.open)))
	for _, seq := range r.open {
		e.Uint(seq)
	}
	return e
}

func decodeRunner(name string, value []byte) *runner {
	d := lsm.Decoder(value)
	r := &runner{name: name, claims: int(d.Uint()), held: int(d.Uint()), tickledAt: d.Int(),
		promise: job.Promise{From: d.Int(), Until: d.Int(), Seq: d.Uint()}, idleSince: d.Int(), timerAt: d.Int()}
	if n := d.Count(1); n > 0 {
		r.open = make([]uint64, n)
	}
	for i := range r.open {
		r.open[i] = d.Uint()
	}
	return r
}

// readRunner returns what is stored of a runner; nothing of one that has no row.
func readRunner(r lsm.Rows, name string) *runner {
	if value := r.Get(runnerKey(runnerTable, name)); value != nil {
		return decodeRunner(name, value)
	}
	return &runner{name: name}
}

// size is about how many bytes of memory a runner takes with its place in the cache.
func (r *runner) size() int { return 350 + 2*len(r.name) + 8*cap(r.open) }

func (r *runner) flush(o *lsm.Overlay) {
	r.dirty = false
	if !r.gone {
		o.Set(runnerKey(runnerTable, r.name), r.encode())
	}
}
