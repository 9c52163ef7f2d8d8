package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// runner is the state of a runner while it holds jobs, and for some time after.
type runner struct {
	name      string
	claims    int
	held      int
	open      []uint64 // open claims, in the order of their seqs, up to rules.listedClaims; further claims have rows
	tickledAt int64    // when it last tickled everything that it holds
	promise   job.Promise
	// idleSince is when the runner ceased to hold jobs; 0 while it holds some. A runner that holds no job is treated
	// like an unknown runner, except that its row stays for a while. Most runners claim again at once, and if their
	// row's key were deleted and set again many times a second, every read of it would walk over all these versions.
	idleSince int64
	timerAt   int64 // time of its timer row, at or before the time when the row may go; 0: no timer row
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

// readRunner returns the stored state of a runner. A runner without a row is empty.
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
