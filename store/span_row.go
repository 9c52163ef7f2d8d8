package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// span is a maximal range of lines of one group that are in the same state. Neighbours with equal states are one span.
type span struct {
	first, last uint32
	job.State
}

// part is a range of lines of one span of a batch.
type part struct {
	b           *batch
	of          *group
	in          span
	first, last uint32
}

func (p *part) group() *group { return p.of }
func (p *part) lines() int64  { return int64(p.last-p.first) + 1 }
func (p *part) run() Run      { return Run{p.b.seq, p.first, p.last} }

// indexes returns the keys of the index rows that a span must have: by status; by its place in line, or the time that
// ends its state; and by the time at which it must have been started.
func (sp *span) indexes(b *batch, g *group) (keys [3]string) {
	if sp.Status == job.Purged {
		return keys
	}
	keys[0] = listKey(g.queueID, sp.Status, b.seq, sp.last)
	switch {
	case sp.Status == job.Pending:
		keys[1] = sp.readyKey(b, g)
	case sp.Status == job.Deferred:
		keys[1] = timerKey(sp.At, runAtTimer, b.seq, 0, sp.last)
	case sp.Status == job.Active && sp.At > 0:
		keys[1] = timerKey(sp.At, timeoutTimer, b.seq, 0, sp.last)
	case sp.Status.Terminal():
		at, _ := sp.PurgeAt(&g.Attributes)
		keys[1] = timerKey(at, purgeTimer, b.seq, 0, sp.last)
	}
	if sp.Expires(&g.Attributes) {
		keys[2] = timerKey(g.ExpiresAt, expireTimer, b.seq, 0, sp.last)
	}
	return keys
}

// lane returns the lane of a pending span.
func (sp *span) lane(g *group) laneID { return laneOf(&sp.State, g) }

// laneOf returns the lane of a pending job.
func laneOf(st *job.State, g *group) laneID {
	return laneID{uint32(st.PriorityIn(&g.Attributes)), st.Class}
}

// readyKey is the key of the ready row of a pending span.
func (sp *span) readyKey(b *batch, g *group) string {
	return readyKey(g.queueID, sp.lane(g), sp.orderIn(b), position{b.seq, sp.last})
}

// orderIn is the number that orders a pending span in its lane. Returned jobs are in the order of their ids.
func (sp *span) orderIn(b *batch) uint64 {
	if sp.Class == job.Returned {
		return b.seq
	}
	return sp.Order
}

// encode leaves out last, because the key has it.
func (s *span) encode() []byte {
	e := make(lsm.Encoder, 0, 48)
	e.Uint(uint64(s.first))
	e.Uint(uint64(s.Status))
	e.Uint(uint64(s.Class))
	e.Uint(uint64(s.Code))
	e.Uint(uint64(s.ExitCode))
	e.Uint(uint64(s.Why))
	e.Uint(uint64(s.Changes.Priority))
	e.Uint(uint64(s.Changes.MaxAttempts))
	e.Uint(uint64(s.Changes.Redrives))
	e.Uint(uint64(s.Attempts))
	e.Uint(s.Order)
	e.Uint(s.Claim)
	e.Int(s.UpdatedAt)
	e.Int(s.At)
	return e
}

func decodeSpan(last uint32, value []byte) (s span) {
	d := lsm.Decoder(value)
	s.first, s.last = uint32(d.Uint()), last
	s.Status = job.Status(d.Uint())
	s.Class = job.Class(d.Uint())
	s.Code = job.Code(d.Uint())
	s.ExitCode = uint16(d.Uint())
	s.Why = job.Why(d.Uint())
	s.Changes = job.Changes{Priority: uint32(d.Uint()), MaxAttempts: uint32(d.Uint()), Redrives: uint32(d.Uint())}
	s.Attempts = uint32(d.Uint())
	s.Order = d.Uint()
	s.Claim = d.Uint()
	s.UpdatedAt = d.Int()
	s.At = d.Int()
	return s
}

// readSpan returns the span that holds a line. ok is false if there is none.
func readSpan(r lsm.Rows, seq uint64, line uint32) (sp span, ok bool) {
	r.Scan(lineKey(spanTable, seq, line), lsm.After(seqKey(spanTable, seq)), func(key string, value []byte) bool {
		sp = decodeSpan(lineOfKey(key), value)
		ok = sp.first <= line
		return false
	})
	return sp, ok
}

// eachSpan calls visit with the spans that overlap first … last, in order, until it returns false.
func eachSpan(r lsm.Rows, seq uint64, first, last uint32, visit func(sp span) bool) {
	r.Scan(lineKey(spanTable, seq, first), lsm.After(seqKey(spanTable, seq)), func(key string, value []byte) bool {
		sp := decodeSpan(lineOfKey(key), value)
		return sp.first <= last && visit(sp) && sp.last < last // many deleted keys may precede the next key
	})
}

// deadline returns when an active job counts as abandoned: when its lease or its time-out ends.
func (sp *span) deadline(lease int64) int64 {
	if sp.At > 0 {
		return min(sp.At, lease)
	}
	return lease
}
