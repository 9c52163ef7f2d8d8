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

// reason says what moved lines.
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
	reasonStarted // by request, before its time
	reasonPatched
	reasonDeleted
	reasonGraced // its time-out was put off
)

func encodeEffects(at int64, effects []effect) []byte {
	e := make(lsm.Encoder, 0, 32)
	e.Int(at)
	for _, x := range effects {
		e.Uint(x.run.Batch)
		e.Uint(uint64(x.run.First))
		e.Uint(uint64(x.run.Last))
		e.Uint(uint64(x.from))
		e.Uint(uint64(x.to))
		e.Uint(uint64(x.reason))
	}
	return e
}
