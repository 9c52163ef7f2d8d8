package row

import (
	"unicode/utf8"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

func EncodeAttempt(a *job.Attempt) []byte {
	e := make(lsm.Encoder, 0, 32+len(a.Runner)+len(a.Error))
	e.Int(a.At)
	e.Text(a.Runner)
	e.Uint(uint64(a.Code))
	e.Uint(uint64(a.ExitCode))
	e.Text(a.Error)
	e.Uint(uint64(a.Why))
	e.Int(a.StartedAt)
	e.Uint(uint64(a.Claim.LowSeq()))
	parts := uint64(0)
	if a.ProcessExit != nil {
		parts |= hasProcessExit
	}
	if a.LogAddr != "" {
		parts |= hasLogAddr
	}
	e.Uint(parts)
	if a.ProcessExit != nil {
		e.Int(*a.ProcessExit)
	}
	if a.LogAddr != "" {
		e.Text(a.LogAddr)
	}
	return e
}

func DecodeAttempt(value []byte) job.Attempt {
	d := lsm.Decoder(value)
	a := job.Attempt{At: d.Int(), Runner: d.Text(), Code: job.Code(d.Uint()), ExitCode: int(d.Uint()), Error: d.Text(), Why: job.Why(d.Uint()), StartedAt: d.Int()}
	if seq := d.Uint(); a.StartedAt != 0 {
		a.Claim = job.NewID(a.StartedAt, seq, 0)
	}
	parts := d.Uint()
	if parts&hasProcessExit != 0 {
		n := d.Int()
		a.ProcessExit = &n
	}
	if parts&hasLogAddr != 0 {
		a.LogAddr = d.Text()
	}
	return a
}

// DecodeAttemptBrief is DecodeAttempt with at most the first most bytes of the error, cut where a character begins. It
// copies no more than that. It leaves out the fields that claims do not report.
func DecodeAttemptBrief(value []byte, most int) job.Attempt {
	d := lsm.Decoder(value)
	a := job.Attempt{At: d.Int(), Runner: d.Text(), Code: job.Code(d.Uint()), ExitCode: int(d.Uint())}
	text := d.Bytes()
	if len(text) > most {
		for ; most > 0 && !utf8.RuneStart(text[most]); most-- {
		}
		text = text[:most]
	}
	a.Error, a.Why = string(text), job.Why(d.Uint())
	return a
}

// Optional parts of a result or an attempt, as bits of the number after the claim. A row has a part only if its bit is set.
const (
	hasProcessExit = 1 << iota
	hasLogAddr
	hasOutputAddrKind
)

// Result and progress rows begin with the claim under which they were reported. Documents of jobs under a different claim
// do not show them, so a new run need not clear a row.
func EncodeResult(claimSeq uint64, r *job.Result) []byte {
	var e lsm.Encoder
	e.Uint(claimSeq)
	parts := uint64(0)
	if r.ProcessExit != nil {
		parts |= hasProcessExit
	}
	if r.LogAddr != "" {
		parts |= hasLogAddr
	}
	if r.OutputAddrKind != job.Nothing {
		parts |= hasOutputAddrKind
	}
	e.Uint(parts)
	if r.ProcessExit != nil {
		e.Int(*r.ProcessExit)
	}
	e.Text(r.OutputAddr)
	e.Uint(uint64(r.OutputKind))
	e.Bytes(r.Output)
	if r.LogAddr != "" {
		e.Text(r.LogAddr)
	}
	if r.OutputAddrKind != job.Nothing {
		e.Uint(uint64(r.OutputAddrKind))
	}
	return e
}

func DecodeResult(value []byte) (claimSeq uint64, r job.Result) {
	d := lsm.Decoder(value)
	claimSeq = d.Uint()
	parts := d.Uint()
	if parts&hasProcessExit != 0 {
		n := d.Int()
		r.ProcessExit = &n
	}
	r.OutputAddr = d.Text()
	r.OutputKind = job.Kind(d.Uint())
	r.Output = append([]byte{}, d.Bytes()...)
	if parts&hasLogAddr != 0 {
		r.LogAddr = d.Text()
	}
	if parts&hasOutputAddrKind != 0 {
		r.OutputAddrKind = job.Kind(d.Uint())
	}
	return claimSeq, r
}

// Progress is the newest step and progress of a job, which a runner reported under a claim.
type Progress struct {
	Claim    uint64
	Step     string
	Progress int64
	// Steps is the number of steps that the job ever had. The newest job.MaxSteps of them are rows in a ring: step n is in
	// slot n modulo job.MaxSteps, so that a new step replaces the oldest one without a look at the others.
	Steps uint64
}

func (p Progress) Encode() []byte {
	var e lsm.Encoder
	e.Uint(p.Claim)
	e.Text(p.Step)
	e.Int(p.Progress)
	e.Uint(p.Steps)
	return e
}

func DecodeProgress(value []byte) Progress {
	d := lsm.Decoder(value)
	return Progress{Claim: d.Uint(), Step: d.Text(), Progress: d.Int(), Steps: d.Uint()}
}

func EncodeStep(s *job.Step) []byte {
	var e lsm.Encoder
	e.Int(s.At)
	e.Text(s.Name)
	return e
}

func DecodeStep(value []byte) job.Step {
	d := lsm.Decoder(value)
	return job.Step{At: d.Int(), Name: d.Text()}
}

func decodeID(d *lsm.Decoder) (id job.ID) {
	copy(id[:], d.Bytes())
	return id
}
