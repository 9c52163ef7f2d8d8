package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Effect is one move of a range of lines.
type Effect struct {
	Run      Run
	From, To job.Status
	Reason   job.Reason
}

// EffectsRow is a row of effects. It has the effects of several commands, since most commands move few lines. Its key
// is the seq of the first command.
type EffectsRow struct {
	Seq   uint64
	At    int64 // of the first command
	Value lsm.Encoder
	Dirty bool // it has changed since it was written
}

// Begin begins the row. The next command adds its effects.
func (r *EffectsRow) Begin(now job.Now) {
	r.Seq, r.At = now.Seq, now.At
	r.Value = make(lsm.Encoder, 0, 256)
	r.Value.Int(now.At)
}

// Add adds the effects of a command.
func (r *EffectsRow) Add(now job.Now, effects []Effect) {
	e := &r.Value
	e.Uint(now.Seq - r.Seq)
	e.Uint(uint64(now.At - r.At))
	e.Uint(uint64(len(effects)))
	for _, x := range effects {
		e.Uint(now.Seq - x.Run.Batch)
		e.Uint(uint64(x.Run.First))
		e.Uint(uint64(x.Run.Last - x.Run.First))
		e.Uint(uint64(x.From))
		e.Uint(uint64(x.To))
		e.Uint(uint64(x.Reason))
	}
}

// Flush writes the row. Later commands append to the value, after the part that the overlay has. The overlay copies
// that part when it is committed.
func (r *EffectsRow) Flush(o *lsm.Overlay) {
	r.Dirty = false
	o.Set(SeqKey(EffectTable, r.Seq), r.Value)
}

// EachEffects calls visit with the effects of each command of a row.
func EachEffects(seq uint64, value []byte, visit func(now job.Now, effects []Effect)) {
	d := lsm.Decoder(value)
	for at := d.Int(); len(d) > 0; {
		now := job.Now{Seq: seq + d.Uint(), At: at + int64(d.Uint())}
		effects := make([]Effect, d.Count(6))
		for i := range effects {
			batch, first, length := now.Seq-d.Uint(), uint32(d.Uint()), uint32(d.Uint())
			effects[i] = Effect{Run{batch, first, first + length}, job.Status(d.Uint()), job.Status(d.Uint()), job.Reason(d.Uint())}
		}
		visit(now, effects)
	}
}
