package store

import (
	"unicode/utf8"

	"github.com/daybookq/daybook/job"
)

func encodeAttempt(a *job.Attempt) []byte {
	e := make(encoder, 0, 32+len(a.Runner)+len(a.Error))
	e.int(a.At)
	e.text(a.Runner)
	e.uint(uint64(a.Code))
	e.uint(uint64(a.ExitCode))
	e.text(a.Error)
	e.uint(uint64(a.Why))
	return e
}

func decodeAttempt(value []byte) job.Attempt {
	d := decoder(value)
	return job.Attempt{At: d.int(), Runner: d.text(), Code: job.Code(d.uint()), ExitCode: int(d.uint()), Error: d.text(), Why: job.Why(d.uint())}
}

// decodeAttemptBrief is decodeAttempt with no more than the first most bytes of the error, cut where a character begins. It copies no more.
func decodeAttemptBrief(value []byte, most int) job.Attempt {
	d := decoder(value)
	a := job.Attempt{At: d.int(), Runner: d.text(), Code: job.Code(d.uint()), ExitCode: int(d.uint())}
	text := d.bytes()
	if len(text) > most {
		for ; most > 0 && !utf8.RuneStart(text[most]); most-- {
		}
		text = text[:most]
	}
	a.Error, a.Why = string(text), job.Why(d.uint())
	return a
}

// Result and progress rows begin with the claim under which they were told: under another they are not shown, so that a new
// run needs no row cleared.
func encodeResult(claim uint64, r *job.Result) []byte {
	var e encoder
	e.uint(claim)
	e.bool(r.ProcessExit != nil)
	if r.ProcessExit != nil {
		e.int(*r.ProcessExit)
	}
	e.text(r.OutputAddr)
	e.uint(uint64(r.OutputKind))
	e.bytes(r.Output)
	return e
}

func decodeResult(value []byte) (claim uint64, r job.Result) {
	d := decoder(value)
	claim = d.uint()
	if d.bool() {
		n := d.int()
		r.ProcessExit = &n
	}
	r.OutputAddr = d.text()
	r.OutputKind = job.Kind(d.uint())
	r.Output = append([]byte{}, d.bytes()...)
	return claim, r
}

func encodeProgress(claim uint64, step string, progress int64) []byte {
	var e encoder
	e.uint(claim)
	e.text(step)
	e.int(progress)
	return e
}

func decodeProgress(value []byte) (claim uint64, step string, progress int64) {
	d := decoder(value)
	return d.uint(), d.text(), d.int()
}

func decodeID(d *decoder) (id job.ID) {
	copy(id[:], d.bytes())
	return id
}
