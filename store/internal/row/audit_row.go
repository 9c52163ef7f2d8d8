package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// EncodeAudited encodes the row of a command that the audit keeps, under its seq.
func EncodeAudited(a *document.Audited) []byte {
	e := make(lsm.Encoder, 0, 64+len(a.By)+len(a.Fields))
	e.Int(a.At)
	e.Text(a.By)
	e.Text(a.Verb)
	e.Uint(uint64(a.Refusal))
	e.Text(a.Fields)
	return e
}

// DecodeAudited is the inverse of EncodeAudited.
func DecodeAudited(seq uint64, value []byte) document.Audited {
	d := lsm.Decoder(value)
	a := document.Audited{Seq: seq, At: d.Int(), By: d.Text(), Verb: d.Text()}
	refusal := d.Uint()
	if refusal >= uint64(job.NumRefusals) {
		lsm.Contradict("decode", "refusal %d", refusal)
	}
	a.Refusal, a.Fields = job.Refusal(refusal), d.Text()
	return a
}
