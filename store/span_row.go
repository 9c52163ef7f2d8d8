package store

import "github.com/daybookq/daybook/job"

// span is a maximal range of lines of one group that are in the same state. Neighbours with equal states are one span.
type span struct {
	first, last uint32
	job.State
}

func (sp *span) lines() int64 { return int64(sp.last-sp.first) + 1 }

// lane returns the lane of a pending span.
func (sp *span) lane(g *group) laneID { return laneOf(&sp.State, g) }

// laneOf returns the lane of a pending job.
func laneOf(st *job.State, g *group) laneID {
	return laneID{uint32(st.PriorityIn(&g.Attributes)), st.Class}
}

// readyKey is the key of the ready row of a pending span. Returned jobs are in the order of their ids.
func (sp *span) readyKey(b *batch, g *group) string {
	order := sp.Order
	if sp.Class == job.Returned {
		order = b.seq
	}
	return readyKey(g.queue, sp.lane(g), order, position{b.seq, sp.last})
}

// encode leaves out last, which is in the key.
func (s *span) encode() []byte {
	e := make(encoder, 0, 48)
	e.uint(uint64(s.first))
	e.uint(uint64(s.Status))
	e.uint(uint64(s.Class))
	e.uint(uint64(s.Code))
	e.uint(uint64(s.ExitCode))
	e.uint(uint64(s.Why))
	e.uint(uint64(s.Changes.Priority))
	e.uint(uint64(s.Changes.MaxAttempts))
	e.uint(uint64(s.Changes.Redrives))
	e.uint(uint64(s.Attempts))
	e.uint(s.Order)
	e.uint(s.Claim)
	e.int(s.UpdatedAt)
	e.int(s.At)
	return e
}

func decodeSpan(last uint32, value []byte) (s span) {
	d := decoder(value)
	s.first, s.last = uint32(d.uint()), last
	s.Status = job.Status(d.uint())
	s.Class = job.Class(d.uint())
	s.Code = job.Code(d.uint())
	s.ExitCode = uint16(d.uint())
	s.Why = job.Why(d.uint())
	s.Changes = job.Changes{Priority: uint32(d.uint()), MaxAttempts: uint32(d.uint()), Redrives: uint32(d.uint())}
	s.Attempts = uint32(d.uint())
	s.Order = d.uint()
	s.Claim = d.uint()
	s.UpdatedAt = d.int()
	s.At = d.int()
	return s
}

// readSpan returns the span that holds a line. ok is false if there is none.
func readSpan(r rows, seq uint64, line uint32) (sp span, ok bool) {
	r.scan(lineKey(spanTable, seq, line), after(seqKey(spanTable, seq)), func(key string, value []byte) bool {
		sp = decodeSpan(lineOfKey(key), value)
		ok = sp.first <= line
		return false
	})
	return sp, ok
}

// eachSpan calls visit with the spans that overlap first … last, in order, until it returns false.
func eachSpan(r rows, seq uint64, first, last uint32, visit func(sp span) bool) {
	r.scan(lineKey(spanTable, seq, first), after(seqKey(spanTable, seq)), func(key string, value []byte) bool {
		sp := decodeSpan(lineOfKey(key), value)
		return sp.first <= last && visit(sp) && sp.last < last // the next key may be preceded by many deleted ones
	})
}
