package store

import (
	"github.com/daybookq/daybook/job"
)

// Effects rows say what each command moved: nothing else does of claims, ticks and sweeps, which pick their jobs. They are kept in segments,
// as long as effectRetentionMs and no more bytes than all segments may have: the oldest one goes as a whole, by one range deletion, when a new one
// begins. docs/004-effects.md has what they cost.

// effect is one move of a range of lines.
type effect struct {
	run      Run
	from, to job.Status
	reason   reason
}

// effectSegment is a range of effects rows, from one seq up to the next segment's.
type effectSegment struct {
	first uint64 // seq of its first row
	at    int64  // its time
	bytes int64  // of keys and values
}

const (
	// effectRetentionMs is how long effects rows are kept at least, unless their bytes are too many.
	effectRetentionMs = 14 * 24 * hourMs
	// effectSegmentMs is how long rows go into one segment, so that they are kept for one and a half times the retention at most.
	effectSegmentMs = effectRetentionMs / 2
	// effectSegments is how many full segments are kept.
	effectSegments = 4
)

// writeEffects keeps what the command moved, for those who read history.
func (s *Store) writeEffects() {
	if len(s.effects) == 0 {
		return
	}
	value := encodeEffects(s.now.At, s.effects)
	s.effects = s.effects[:0]
	size := int64(len(value)) + effectKeyBytes
	n := len(s.meta.effects)
	if n == 0 || s.meta.effects[n-1].bytes+size > s.rules.effectBytes || s.meta.effects[n-1].at+effectSegmentMs <= s.now.At {
		s.meta.effects = append(s.meta.effects, effectSegment{first: s.now.Seq, at: s.now.At})
		s.cutEffects()
		n = len(s.meta.effects)
	}
	s.meta.effects[n-1].bytes += size
	s.o.set(seqKey(effectTable, s.now.Seq), value)
}

// effectKeyBytes is the length of the key of an effects row.
const effectKeyBytes = 9

// cutEffects deletes the oldest segments that are too old or too many.
func (s *Store) cutEffects() {
	segments := s.meta.effects
	total := int64(0)
	for _, e := range segments {
		total += e.bytes
	}
	for len(segments) > 1 && (total > (effectSegments-1)*s.rules.effectBytes || segments[1].at+effectRetentionMs <= s.now.At) {
		s.o.cut(seqKey(effectTable, segments[0].first), seqKey(effectTable, segments[1].first))
		total -= segments[0].bytes
		segments = segments[1:]
	}
	s.meta.effects = append([]effectSegment(nil), segments...)
}

// reason says what moved lines.
type reason byte

const (
	created reason = iota + 1
	claimed
	ended
	abandoned
	due
	purged
	cancelled
	expired
	timedOut
	redriven
	started // by request, before its time
	patched
	deleted
	graced // its time-out was put off
)

func encodeEffects(at int64, effects []effect) []byte {
	e := make(encoder, 0, 32)
	e.int(at)
	for _, x := range effects {
		e.uint(x.run.Batch)
		e.uint(uint64(x.run.First))
		e.uint(uint64(x.run.Last))
		e.uint(uint64(x.from))
		e.uint(uint64(x.to))
		e.uint(uint64(x.reason))
	}
	return e
}
