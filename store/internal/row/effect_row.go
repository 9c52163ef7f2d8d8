package row

import (
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Effect is one move of a range of lines.
type Effect struct {
	Run      Run
	From, To job.Status // From is 0 for new jobs
	Reason   job.Reason
	Queue    uint32
	// Claim is the run that begins, continues or ends, and Runner has it: see OfRun. A run that was never claimed has the seq of the
	// completion that reported it, and no runner.
	Claim  uint64
	Runner string
	// Before is the command that moved the lines before this one, if their batch is Separate. It is 0 for new jobs, and for other batches,
	// whose commands EffectIndexTable lists: see Listed.
	Before uint64
	Sweep  uint64 // the sweep that moved the jobs; 0: none
	By     string // the name of the key that created jobs, if their create shares a record with others; "": the key is in the Cause
}

// Cause is the command that made moves.
type Cause struct {
	job.Now
	Verb string
	By   string // the name of the key; "" without one
}

// EffectsRow is a row of effects. It has the effects of several commands, since most commands move few lines. Its key
// is the seq of the first command. Its value has the time of the first command, and then for each command
//
//	seq − the row's   time − the row's   verb   by   number of effects
//
// and for each effect, where [ ] has only the effects that need it,
//
//	seq − batch   (from, to, has lines)   (reason, has before, has sweep, has by)   queue
//	[first   last − first]   [seq − before]   [seq − sweep]   [by]   [seq − claim   runner]
//
// All numbers are varints, so that most take one byte. Effects of the first line alone have no lines. A text (verb, by, runner) is the
// number of an earlier text of the row, or the next number and the text itself; number 0 is the empty text.
type EffectsRow struct {
	Seq   uint64
	At    int64 // of the first command
	Value lsm.Encoder
	Dirty bool              // it has changed since it was written
	texts map[string]uint64 // the numbers of its texts, without the empty one
}

// Flags of an effect, beside its reason.
const (
	hasBy = 1 << iota
	hasSweep
	hasBefore
	reasonShift = iota
)

// minEffectBytes is the length of the shortest effect.
const minEffectBytes = 4

// Begin begins the row. The next command adds its effects.
func (r *EffectsRow) Begin(now job.Now) {
	r.Seq, r.At = now.Seq, now.At
	r.Value = make(lsm.Encoder, 0, 256)
	r.Value.Int(now.At)
	if r.texts == nil {
		r.texts = map[string]uint64{}
	}
	clear(r.texts)
}

func (r *EffectsRow) text(s string) {
	if s == "" {
		r.Value.Uint(0)
		return
	}
	n, known := r.texts[s]
	if !known {
		n = uint64(len(r.texts)) + 1
		r.texts[strings.Clone(s)] = n // the name of a key shares the memory of a whole record
	}
	r.Value.Uint(n)
	if !known {
		r.Value.Text(s)
	}
}

// Add adds the effects of a command.
func (r *EffectsRow) Add(c *Cause, effects []Effect) {
	e := &r.Value
	e.Uint(c.Seq - r.Seq)
	e.Uint(uint64(c.At - r.At))
	r.text(c.Verb)
	r.text(c.By)
	e.Uint(uint64(len(effects)))
	for i := range effects {
		x := &effects[i]
		moved, reason := (uint64(x.From)*uint64(job.NumStatus)+uint64(x.To))<<1, uint64(x.Reason)<<reasonShift
		lines := x.Run.Last > 0
		if lines {
			moved |= 1
		}
		if x.Before != 0 {
			reason |= hasBefore
		}
		if x.Sweep != 0 {
			reason |= hasSweep
		}
		if x.By != "" {
			reason |= hasBy
		}
		e.Uint(c.Seq - x.Run.Batch)
		e.Uint(moved)
		e.Uint(reason)
		e.Uint(uint64(x.Queue))
		if lines {
			e.Uint(uint64(x.Run.First))
			e.Uint(uint64(x.Run.Last - x.Run.First))
		}
		if x.Before != 0 {
			e.Uint(c.Seq - x.Before)
		}
		if x.Sweep != 0 {
			e.Uint(c.Seq - x.Sweep)
		}
		if x.By != "" {
			r.text(x.By)
		}
		if x.OfRun() {
			e.Uint(c.Seq - x.Claim)
			r.text(x.Runner)
		}
	}
}

// OfRun reports whether an effect begins, continues or ends a run. Other effects have neither claim nor runner.
func (x *Effect) OfRun() bool {
	return x.From == job.Active || x.To == job.Active || x.Reason == job.ReasonEnded // also of a run that ended late, or was not claimed
}

// Listed appends the batches that a command moved, each once and in order, without the batch that it created and without those that are
// Separate. For each of them there is a row of EffectIndexTable.
func Listed(batches []uint64, seq uint64, effects []Effect) []uint64 {
	for i := range effects {
		if x := &effects[i]; x.Before == 0 && x.Run.Batch != seq {
			batches = append(batches, x.Run.Batch)
		}
	}
	slices.Sort(batches)
	return slices.Compact(batches)
}

// Flush writes the row. Later commands append to the value, after the part that the overlay has. The overlay copies
// that part when it is committed.
func (r *EffectsRow) Flush(o *lsm.Overlay) {
	r.Dirty = false
	o.Set(SeqKey(EffectTable, r.Seq), r.Value)
}

// OpenEffects returns the row with a key and a value, to which commands can be added.
func OpenEffects(key string, value []byte) EffectsRow {
	r := EffectsRow{Seq: SeqOfKey(key), Value: slices.Clone(lsm.Encoder(value)), texts: map[string]uint64{}}
	at, texts := eachEffects(r.Seq, value, func(*Cause, []Effect) {})
	r.At = at
	for n, s := range texts[1:] {
		r.texts[s] = uint64(n) + 1
	}
	if len(r.texts) != len(texts)-1 || r.texts[""] != 0 {
		lsm.Contradict("decode", "effects of %d have a text twice, or number the empty text", r.Seq)
	}
	return r
}

// EachEffects calls visit with the effects of each command of a row.
func EachEffects(seq uint64, value []byte, visit func(c *Cause, effects []Effect)) {
	eachEffects(seq, value, visit)
}

// eachEffects is EachEffects, and returns the time of the first command and the texts of the row by their numbers.
func eachEffects(seq uint64, value []byte, visit func(c *Cause, effects []Effect)) (at int64, texts []string) {
	d := lsm.Decoder(value)
	texts = []string{""}
	text := func() string {
		n := d.Uint()
		if n == uint64(len(texts)) {
			texts = append(texts, d.Text())
		} else if n > uint64(len(texts)) {
			lsm.Contradict("decode", "effects of %d have text %d after %d texts", seq, n, len(texts))
		}
		return texts[n]
	}
	at = d.Int()
	for more := true; more; more = len(d) > 0 {
		c := Cause{Now: job.Now{Seq: seq + d.Uint(), At: at + int64(d.Uint())}}
		c.Verb, c.By = text(), text()
		effects := make([]Effect, d.Count(minEffectBytes))
		for i := range effects {
			x := &effects[i]
			x.Run.Batch = c.Seq - d.Uint()
			moved, reason := d.Uint(), d.Uint()
			x.From, x.To = job.Status(moved>>1/uint64(job.NumStatus)), job.Status(moved>>1%uint64(job.NumStatus))
			x.Reason, x.Queue = job.Reason(reason>>reasonShift), uint32(d.Uint())
			if moved&1 != 0 {
				x.Run.First = uint32(d.Uint())
				x.Run.Last = x.Run.First + uint32(d.Uint())
			}
			if most := uint64(job.NumStatus); moved>>1 >= most*most || x.Run.Last < x.Run.First {
				lsm.Contradict("decode", "an effect of %d moves lines %d-%d by %d", c.Seq, x.Run.First, x.Run.Last, moved>>1)
			}
			if reason&hasBefore != 0 {
				x.Before = c.Seq - d.Uint()
			}
			if reason&hasSweep != 0 {
				x.Sweep = c.Seq - d.Uint()
			}
			if reason&hasBy != 0 {
				x.By = text()
			}
			if x.OfRun() {
				x.Claim, x.Runner = c.Seq-d.Uint(), text()
			}
		}
		visit(&c, effects)
	}
	return at, texts
}
