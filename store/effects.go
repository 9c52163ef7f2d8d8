package store

import (
	"slices"

	"github.com/daybookq/daybook/store/lsm"
)

// A row of effects records what some commands moved. For claims, ticks and sweeps, which pick their jobs, it is the
// only record. The rows are kept in segments, for effectRetentionMs, as long as the segments do not exceed their total
// size. When a new segment begins, one range deletion deletes the oldest segment if it is too old or the segments are
// too large. docs/004-effects.md has the costs.

const (
	// effectRetentionMs is how long effects rows are kept at least, unless they take too many bytes.
	effectRetentionMs = 14 * 24 * hourMs
	// effectSegmentMs is how long rows are added to one segment. So rows are kept for one and a half times the
	// retention at most.
	effectSegmentMs = effectRetentionMs / 2
	// effectSegments is how many full segments are kept.
	effectSegments = 4
)

// addEffect adds a move. It merges it with the previous effect if that is of the lines just before.
func (a *applying) addEffect(e effect) {
	if last := len(a.effects) - 1; last >= 0 {
		before := &a.effects[last]
		if before.run.Batch == e.run.Batch && before.run.Last+1 == e.run.First && before.from == e.from && before.to == e.to && before.reason == e.reason {
			before.run.Last = e.run.Last
			return
		}
	}
	a.effects = append(a.effects, e)
}

// writeEffects adds the command's effects to the newest row of effects, or begins a new row, for readers of history.
func (a *applying) writeEffects() {
	if len(a.effects) == 0 {
		return
	}
	entry, n := &a.history, len(a.meta.effects)
	before := len(entry.value)
	entry.add(a.now, a.effects)
	size := int64(len(entry.value) - before)
	newSegment := n == 0 || a.meta.effects[n-1].bytes+effectKeyBytes+size > a.rules.effectBytes || a.meta.effects[n-1].at+effectSegmentMs <= a.now.At
	if newSegment || before >= a.rules.effectRowBytes {
		entry.value = entry.value[:before]
		a.flushEffects() // before its segment may be deleted
		entry.begin(a.now)
		entry.add(a.now, a.effects)
		size = int64(len(entry.value)) + effectKeyBytes
	}
	if newSegment {
		a.meta.effects = append(a.meta.effects, effectSegment{first: a.now.Seq, at: a.now.At})
		a.deleteOldEffects()
	}
	a.effects = a.effects[:0]
	a.meta.effects[len(a.meta.effects)-1].bytes += size
	entry.dirty = true
}

// flushEffects writes the newest row of effects if it has changed.
func (m *machine) flushEffects() {
	if m.history.dirty {
		m.history.flush(&m.o)
	}
}

// loadEffects reads the newest row of effects, to which the next commands add their effects.
func (m *machine) loadEffects() {
	n := len(m.meta.effects)
	if n == 0 {
		return
	}
	m.o.ScanDown(seqKey(effectTable, m.meta.effects[n-1].first), string(effectTable+1), func(key string, value []byte) bool {
		at := (*lsm.Decoder)(&value)
		m.history = effectsRow{seq: seqOfKey(key), value: slices.Clone(value)}
		m.history.at = at.Int()
		return false
	})
}

// effectKeyBytes is the length of the key of an effects row.
const effectKeyBytes = 9

// deleteOldEffects deletes the oldest segments while they are too old, or all segments together are too large.
func (a *applying) deleteOldEffects() {
	segments := a.meta.effects
	total := int64(0)
	for _, e := range segments {
		total += e.bytes
	}
	for len(segments) > 1 && (total > (effectSegments-1)*a.rules.effectBytes || segments[1].at+effectRetentionMs <= a.now.At) {
		a.o.DeleteRange(seqKey(effectTable, segments[0].first), seqKey(effectTable, segments[1].first))
		total -= segments[0].bytes
		segments = segments[1:]
	}
	a.meta.effects = append([]effectSegment(nil), segments...)
}
