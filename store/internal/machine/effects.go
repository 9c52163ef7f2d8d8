package machine

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// A row of effects records what some commands moved. For claims, ticks and sweeps, which pick their jobs, it is the
// only record. The rows are kept in segments, for EffectRetentionMs, as long as the segments do not exceed their total
// size. When a new segment begins, one range deletion deletes the oldest segment if it is too old or the segments are
// too large. docs/004-effects.md has the costs.

const (
	// EffectRetentionMs is how long effects rows are kept at least, unless they take too many bytes.
	EffectRetentionMs = 14 * 24 * row.HourMs
	// EffectSegmentMs is how long rows are added to one segment. So rows are kept for one and a half times the
	// retention at most.
	EffectSegmentMs = EffectRetentionMs / 2
	// EffectSegments is how many full segments are kept.
	EffectSegments = 4
)

// addEffect adds a move. It merges it with the previous effect if that is of the lines just before.
func (a *Applying) addEffect(e row.Effect) {
	if last := len(a.effects) - 1; last >= 0 {
		before := &a.effects[last]
		if before.Run.Batch == e.Run.Batch && before.Run.Last+1 == e.Run.First && before.From == e.From && before.To == e.To && before.Reason == e.Reason {
			before.Run.Last = e.Run.Last
			return
		}
	}
	a.effects = append(a.effects, e)
}

// writeEffects adds the command's effects to the newest row of effects, or begins a new row, for readers of history.
func (a *Applying) writeEffects() {
	if len(a.effects) == 0 {
		return
	}
	entry, n := &a.history, len(a.Meta.Effects)
	before := len(entry.Value)
	entry.Add(a.Now, a.effects)
	size := int64(len(entry.Value) - before)
	newSegment := n == 0 || a.Meta.Effects[n-1].Bytes+seqKeyBytes+size > a.Rules.EffectBytes || a.Meta.Effects[n-1].At+EffectSegmentMs <= a.Now.At
	if newSegment || before >= a.Rules.EffectRowBytes {
		entry.Value = entry.Value[:before]
		a.flushEffects() // before its segment may be deleted
		entry.Begin(a.Now)
		entry.Add(a.Now, a.effects)
		size = int64(len(entry.Value)) + seqKeyBytes
	}
	if newSegment {
		a.Meta.Effects = append(a.Meta.Effects, row.Segment{First: a.Now.Seq, At: a.Now.At})
		a.Meta.Effects = a.dropSegments(row.EffectTable, a.Meta.Effects, (EffectSegments-1)*a.Rules.EffectBytes, EffectRetentionMs)
	}
	a.effects = a.effects[:0]
	a.Meta.Effects[len(a.Meta.Effects)-1].Bytes += size
	entry.Dirty = true
}

// Effects returns the effects of the last command.
func (m *Machine) Effects() (effects []row.Effect) {
	if m.history.Seq == 0 {
		return nil
	}
	row.EachEffects(m.history.Seq, m.history.Value, func(now job.Now, of []row.Effect) {
		if now.Seq == m.Meta.Cursor {
			effects = of
		}
	})
	return effects
}

// flushEffects writes the newest row of effects if it has changed.
func (m *Machine) flushEffects() {
	if m.history.Dirty {
		m.history.Flush(&m.O)
	}
}

// loadEffects reads the newest row of effects, to which the next commands add their effects.
func (m *Machine) loadEffects() {
	n := len(m.Meta.Effects)
	if n == 0 {
		return
	}
	m.O.ScanDown(row.SeqKey(row.EffectTable, m.Meta.Effects[n-1].First), string(row.EffectTable+1), func(key string, value []byte) bool {
		at := (*lsm.Decoder)(&value)
		m.history = row.EffectsRow{Seq: row.SeqOfKey(key), Value: slices.Clone(value)}
		m.history.At = at.Int()
		return false
	})
}
