package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// purgedEnd is how runs ended whose jobs were purged less than job.RepeatMs later: neighbouring lines that one claim had
// handed out. No other row knows of them: the claim's row goes with the last line that names it, and the batch's with its
// last line. Whoever got no answer to a completion repeats it, and must get the answer that he missed.
type purgedEnd struct {
	claim    uint64
	run      Run
	claimAt  int64
	batchAt  int64
	runner   string
	status   job.Status
	code     job.Code
	exitCode uint16
	at       int64 // when the runs ended
}

func (e *purgedEnd) claimID() job.ID { return job.NewID(e.claimAt, e.claim, 0) }

// holds reports whether the job of an id is one of the lines.
func (e *purgedEnd) holds(id job.ID) bool {
	line := uint32(id.Line())
	return e.run.First <= line && line <= e.run.Last && id == job.NewID(e.batchAt, e.run.Batch, int(line))
}

func (e *purgedEnd) key() string {
	return purgedEndKey(repeatsGeneration(e.at), e.claim, e.run.Batch, e.run.Last)
}

func (e *purgedEnd) encode() []byte {
	v := make(lsm.Encoder, 0, 48)
	v.Uint(uint64(e.run.First))
	v.Int(e.claimAt)
	v.Int(e.batchAt)
	v.Text(e.runner)
	v.Uint(uint64(e.status))
	v.Uint(uint64(e.code))
	v.Uint(uint64(e.exitCode))
	v.Int(e.at)
	return v
}

func decodePurgedEnd(key string, value []byte) (e purgedEnd) {
	_, claim, end := splitPurgedEndKey(key)
	d := lsm.Decoder(value)
	e.claim, e.run = claim, Run{Batch: end.seq, First: uint32(d.Uint()), Last: end.line}
	e.claimAt, e.batchAt, e.runner = d.Int(), d.Int(), d.Text()
	e.status, e.code, e.exitCode, e.at = job.Status(d.Uint()), job.Code(d.Uint()), uint16(d.Uint()), d.Int()
	if e.run.First > e.run.Last {
		lsm.Contradict("decode", "purged lines %d-%d of batch %d", e.run.First, e.run.Last, e.run.Batch)
	}
	return e
}

// repeatsGeneration is the generation of ends at a time. All rows of a generation are deleted together.
func repeatsGeneration(at int64) uint32 { return uint32(at / job.RepeatMs) }

// repeatsEnd is when the youngest end that a generation can have need not be kept any more.
func repeatsEnd(generation uint32) int64 { return (int64(generation) + 2) * job.RepeatMs }
