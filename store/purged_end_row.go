package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// purgedEnd records how runs ended whose jobs were purged less than job.RepeatMs later. It covers neighbouring lines
// that one claim handed out. No other row knows their ends: the claim's row is deleted with the last line that names
// it, and the batch's row with the batch's last line. But a caller that missed the answer to a completion repeats it,
// and must get the same answer.
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

// repeatsGeneration returns the generation of the ends at a time. All rows of a generation are deleted together.
func repeatsGeneration(at int64) uint32 { return uint32(at / job.RepeatMs) }

// repeatsEnd is when even the youngest end of a generation need not be kept any longer.
func repeatsEnd(generation uint32) int64 { return (int64(generation) + 2) * job.RepeatMs }
