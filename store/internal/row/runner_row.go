package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Runner is the state of a runner while it holds jobs, and for some time after.
type Runner struct {
	Name      string
	Claims    int
	Held      int
	Open      []uint64 // open claims, in the order of their seqs, up to rules.ListedClaims; further claims have rows
	TickledAt int64    // when it last tickled everything that it holds
	Promise   job.Promise
	// IdleSince is when the runner ceased to hold jobs; 0 while it holds some. A runner that holds no job is treated
	// like an unknown runner, except that its row stays for a while. Most runners claim again at once, and if their
	// row's key were deleted and set again many times a second, every read of it would walk over all these versions.
	IdleSince int64
	TimerAt   int64 // time of its timer row, at or before the time when the row may go; 0: no timer row
	Dirty     bool  // on the machine's list of unwritten rows
	Gone      bool  // its row has been deleted
}

func (r *Runner) Encode() []byte {
	e := make(lsm.Encoder, 0, 40)
	e.Uint(uint64(r.Claims))
	e.Uint(uint64(r.Held))
	e.Int(r.TickledAt)
	e.Int(r.Promise.From)
	e.Int(r.Promise.Until)
	e.Uint(r.Promise.Seq)
	e.Int(r.IdleSince)
	e.Int(r.TimerAt)
	e.Uint(uint64(len(r.Open)))
	for _, seq := range r.Open {
		e.Uint(seq)
	}
	return e
}

func DecodeRunner(name string, value []byte) *Runner {
	d := lsm.Decoder(value)
	r := &Runner{Name: name, Claims: int(d.Uint()), Held: int(d.Uint()), TickledAt: d.Int(),
		Promise: job.Promise{From: d.Int(), Until: d.Int(), Seq: d.Uint()}, IdleSince: d.Int(), TimerAt: d.Int()}
	if n := d.Count(1); n > 0 {
		r.Open = make([]uint64, n)
	}
	for i := range r.Open {
		r.Open[i] = d.Uint()
	}
	return r
}

// ReadRunner returns the stored state of a runner. A runner without a row is empty.
func ReadRunner(r lsm.Rows, name string) *Runner {
	if value := r.Get(RunnerKey(RunnerTable, name)); value != nil {
		return DecodeRunner(name, value)
	}
	return &Runner{Name: name}
}

// Size is about how many bytes of memory a runner takes with its place in the cache.
func (r *Runner) Size() int { return 350 + 2*len(r.Name) + 8*cap(r.Open) }

func (r *Runner) Flush(o *lsm.Overlay) {
	r.Dirty = false
	if !r.Gone {
		o.Set(RunnerKey(RunnerTable, r.Name), r.Encode())
	}
}
