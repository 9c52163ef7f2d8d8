package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// PurgedEnd records how runs ended whose jobs were purged less than job.RepeatMs later. It covers neighbouring lines
// that one claim handed out. No other row knows their ends: the claim's row is deleted with the last line that names
// it, and the batch's row with the batch's last line. But a caller that missed the answer to a completion repeats it,
// and must get the same answer.
type PurgedEnd struct {
	Claim    uint64
	Run      Run
	ClaimAt  int64
	BatchAt  int64
	Queue    uint32
	Runner   string
	Status   job.Status
	Code     job.Code
	ExitCode uint16
	At       int64 // when the runs ended
}

func (e *PurgedEnd) ClaimID() job.ID { return job.NewID(e.ClaimAt, e.Claim, 0) }

// Holds reports whether the job of an id is one of the lines.
func (e *PurgedEnd) Holds(id job.ID) bool {
	line := uint32(id.Line())
	return e.Run.First <= line && line <= e.Run.Last && id == job.NewID(e.BatchAt, e.Run.Batch, int(line))
}

func (e *PurgedEnd) Key() string {
	return PurgedEndKey(RepeatsGeneration(e.At), e.Claim, e.Run.Batch, e.Run.Last)
}

func (e *PurgedEnd) Encode() []byte {
	v := make(lsm.Encoder, 0, 48)
	v.Uint(uint64(e.Run.First))
	v.Int(e.ClaimAt)
	v.Int(e.BatchAt)
	v.Uint(uint64(e.Queue))
	v.Text(e.Runner)
	v.Uint(uint64(e.Status))
	v.Uint(uint64(e.Code))
	v.Uint(uint64(e.ExitCode))
	v.Int(e.At)
	return v
}

func DecodePurgedEnd(key string, value []byte) (e PurgedEnd) {
	_, claim, end := SplitPurgedEndKey(key)
	d := lsm.Decoder(value)
	e.Claim, e.Run = claim, Run{Batch: end.Seq, First: uint32(d.Uint()), Last: end.Line}
	e.ClaimAt, e.BatchAt, e.Queue, e.Runner = d.Int(), d.Int(), uint32(d.Uint()), d.Text()
	e.Status, e.Code, e.ExitCode, e.At = job.Status(d.Uint()), job.Code(d.Uint()), uint16(d.Uint()), d.Int()
	if e.Run.First > e.Run.Last {
		lsm.Contradict("decode", "purged lines %d-%d of batch %d", e.Run.First, e.Run.Last, e.Run.Batch)
	}
	return e
}

// RepeatsGeneration returns the generation of the ends at a time. All rows of a generation are deleted together.
func RepeatsGeneration(at int64) uint32 { return uint32(at / job.RepeatMs) }

// RepeatsEnd is when even the youngest end of a generation need not be kept any longer.
func RepeatsEnd(generation uint32) int64 { return (int64(generation) + 2) * job.RepeatMs }
