package row

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Span is a maximal range of lines of one group that are in the same state, and that the same command moved last, if Moved has it.
type Span struct {
	First, Last uint32
	job.State
	// Moved is the last command that moved the lines, if their batch is Separate; 0: none after the create, or the lines are purged.
	Moved uint64
}

// Part is a range of lines of one span of a batch.
type Part struct {
	B           *Batch
	Of          *Group
	In          Span
	First, Last uint32
}

func (p *Part) Group() *Group { return p.Of }
func (p *Part) Lines() int64  { return int64(p.Last-p.First) + 1 }
func (p *Part) Run() Run      { return Run{p.B.Seq, p.First, p.Last} }

// Indexes returns the keys of the index rows that a span must have: by status; by its place in line, or the time that
// ends its state; by the time at which it must have been started; and by the time of its last move. Other rows have the last for jobs
// that nothing has moved since their create, whose ids are in the same order, and for active jobs, whose claims are.
func (sp *Span) Indexes(b *Batch, g *Group) (keys [4]string) {
	if sp.Status == job.Purged {
		return keys
	}
	keys[0] = ListKey(g.QueueID, sp.Status, b.Seq, sp.Last)
	switch {
	case sp.Status == job.Pending:
		keys[1] = sp.ReadyKey(b, g)
	case sp.Status == job.Deferred:
		keys[1] = TimerKey(sp.At, RunAtTimer, b.Seq, 0, sp.Last)
	case sp.Status == job.Active && sp.At > 0:
		keys[1] = TimerKey(sp.At, TimeoutTimer, b.Seq, 0, sp.Last)
	case sp.Status.Terminal():
		at, _ := sp.PurgeAt(&g.Attributes)
		keys[1] = TimerKey(at, PurgeTimer, b.Seq, 0, sp.Last)
	}
	if sp.Status.Terminal() || sp.Status.Waits() && sp.UpdatedAt > b.At {
		keys[3] = MovedKey(g.QueueID, sp.Status, sp.UpdatedAt, b.Seq, sp.Last)
	}
	if sp.Expires(&g.Attributes) {
		keys[2] = TimerKey(g.ExpiresAt, ExpireTimer, b.Seq, 0, sp.Last)
	}
	return keys
}

// Lane returns the lane of a pending span.
func (sp *Span) Lane(g *Group) LaneID { return LaneOf(&sp.State, g) }

// LaneOf returns the lane of a pending job.
func LaneOf(st *job.State, g *Group) LaneID {
	return LaneID{uint32(st.PriorityIn(&g.Attributes)), st.Class}
}

// ReadyKey is the key of the ready row of a pending span.
func (sp *Span) ReadyKey(b *Batch, g *Group) string {
	return ReadyKey(g.QueueID, sp.Lane(g), sp.OrderIn(b), Position{b.Seq, sp.Last})
}

// OrderIn is the number that orders a pending span in its lane. Returned jobs are in the order of their ids.
func (sp *Span) OrderIn(b *Batch) uint64 {
	if sp.Class == job.Returned {
		return b.Seq
	}
	return sp.Order
}

// Encode leaves out last, because the key has it.
func (s *Span) Encode() []byte {
	e := make(lsm.Encoder, 0, 48)
	e.Uint(uint64(s.First))
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
	if s.Moved == 0 {
		e.Uint(0)
	} else {
		e.Uint(s.Moved - s.Claim + 1) // the claim moved the line too, and most often it was not long ago
	}
	return e
}

func DecodeSpan(last uint32, value []byte) (s Span) {
	d := lsm.Decoder(value)
	s.First, s.Last = uint32(d.Uint()), last
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
	if n := d.Uint(); n != 0 {
		s.Moved = s.Claim + n - 1
	}
	return s
}

// ReadSpan returns the span that holds a line. ok is false if there is none.
func ReadSpan(r lsm.Rows, seq uint64, line uint32) (sp Span, ok bool) {
	r.Scan(LineKey(SpanTable, seq, line), lsm.After(SeqKey(SpanTable, seq)), func(key string, value []byte) bool {
		sp = DecodeSpan(LineOfKey(key), value)
		ok = sp.First <= line
		return false
	})
	return sp, ok
}

// EachSpan calls visit with the spans that overlap first … last, in order, until it returns false.
func EachSpan(r lsm.Rows, seq uint64, first, last uint32, visit func(sp Span) bool) {
	r.Scan(LineKey(SpanTable, seq, first), lsm.After(SeqKey(SpanTable, seq)), func(key string, value []byte) bool {
		sp := DecodeSpan(LineOfKey(key), value)
		return sp.First <= last && visit(sp) && sp.Last < last // many deleted keys may precede the next key
	})
}

// EachSpanDown is EachSpan from the last line to the first.
func EachSpanDown(v lsm.View, seq uint64, first, last uint32, visit func(sp Span) bool) {
	sp, ok := ReadSpan(v, seq, last)
	if !ok || !visit(sp) || sp.First <= first {
		return
	}
	v.ScanDown(LineKey(SpanTable, seq, first), LineKey(SpanTable, seq, sp.First), func(key string, value []byte) bool {
		sp := DecodeSpan(LineOfKey(key), value)
		return visit(sp) && sp.First > first
	})
}

// Deadline returns when an active job counts as abandoned: when its lease or its time-out ends.
func (sp *Span) Deadline(lease int64) int64 {
	if sp.At > 0 {
		return min(sp.At, lease)
	}
	return lease
}
