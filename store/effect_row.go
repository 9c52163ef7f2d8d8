package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// effect is one move of a range of lines.
type effect struct {
	run      Run
	from, to job.Status
	reason   reason
}

// reason says why lines moved.
type reason byte

const (
	reasonCreated reason = iota + 1
	reasonClaimed
	reasonEnded
	reasonAbandoned
	reasonDue
	reasonPurged
	reasonCancelled
	reasonExpired
	reasonTimedOut
	reasonRedriven
	reasonStarted // by request, early
	reasonPatched
	reasonDeleted
	reasonGraced // its time-out was extended
)

// effectsRow is a row of effects. It has the effects of several commands, since most commands move few lines. Its key
// is the seq of the first command.
type effectsRow struct {
	seq   uint64
	at    int64 // of the first command
	value lsm.Encoder
	dirty bool // it has changed since it was written
}

// begin begins the row. The next command adds its effects.
func (r *effectsRow) begin(now job.Now) {
	r.seq, r.at = now.Seq, now.At
	r.value = make(lsm.Encoder, 0, 256)
	r.value.Int(now.At)
}

// add adds the effects of a command.
func (r *effectsRow) add(now job.Now, effects []effect) {
	e := &r.value
	e.Uint(now.Seq - r.seq)
	e.Uint(uint64(now.At - r.at))
	e.Uint(uint64(len(effects)))
	for _, x := range effects {
		e.Uint(now.Seq - x.run.Batch)
		e.Uint(uint64(x.run.First))
		e.Uint(uint64(x.run.Last - x.run.First))
		e.Uint(uint64(x.from))
		e.Uint(uint64(x.to))
		e.Uint(uint64(x.reason))
	}
}

// flush writes the row. Later commands append to the value, after the part that the overlay has. The overlay copies
// that part when it is committed.
func (r *effectsRow) flush(o *lsm.Overlay) {
	r.dirty = false
	o.Set(seqKey(effectTable, r.seq), r.value)
}

// eachEffects calls visit with the effects of each command of a row.
func eachEffects(seq uint64, value []byte, visit func(now job.Now, effects []effect)) {
	d := lsm.Decoder(value)
	for at := d.Int(); len(d) > 0; {
		now := job.Now{Seq: seq + d.Uint(), At: at + int64(d.Uint())}
		effects := make([]effect, d.Count(6))
		for i := range effects {
			batch, first, length := now.Seq-d.Uint(), uint32(d.Uint()), uint32(d.Uint())
			effects[i] = effect{Run{batch, first, first + length}, job.Status(d.Uint()), job.Status(d.Uint()), reason(d.Uint())}
		}
		visit(now, effects)
	}
}

// counts reports whether moves for a reason are counted.
func (r reason) counts() bool {
	switch r {
	case reasonCreated, reasonClaimed, reasonEnded, reasonAbandoned, reasonTimedOut, reasonCancelled, reasonExpired, reasonRedriven, reasonDeleted:
		return true
	}
	return false
}
