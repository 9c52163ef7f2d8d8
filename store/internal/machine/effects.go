package machine

import (
	"cmp"

	"github.com/daybookq/daybook/job"
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

// addEffect adds a move of a part of a span to a new state. It merges it with the previous effect if that is of the lines just before.
func (a *Applying) addEffect(p row.Part, next job.State, why job.Reason) {
	g := p.Group()
	e := row.Effect{Run: p.Run(), From: p.In.Status, To: next.Status, Reason: why, Queue: g.QueueID, Sweep: a.sweeping}
	if e.From == 0 && g.By != a.By.Name {
		e.By = g.By
	}
	if e.From != 0 && p.B.Separate() {
		e.Before = cmp.Or(p.In.Moved, p.B.Seq)
	}
	if e.OfRun() {
		if e.Claim = next.Claim; e.From == job.Active {
			e.Claim = p.In.Claim
		}
	}
	last := len(a.effects) - 1
	if e.Claim != 0 {
		if last >= 0 && a.effects[last].Claim == e.Claim {
			e.Runner = a.effects[last].Runner
		} else {
			e.Runner = a.runnerOf(e.Claim)
		}
	}
	if last >= 0 {
		before := &a.effects[last]
		if before.Run.Batch == e.Run.Batch && before.Run.Last+1 == e.Run.First {
			merged := e
			merged.Run.First = before.Run.First
			if before.Run.Last = e.Run.Last; *before == merged {
				return
			}
			before.Run.Last = e.Run.First - 1
		}
	}
	a.effects = append(a.effects, e)
}

// runnerOf returns the runner of a claim.
func (a *Applying) runnerOf(claim uint64) string {
	if a.own != nil && a.own.Seq == claim {
		return a.own.Runner
	}
	return a.claim(claim).Runner
}

// writeEffects adds the command's effects to the newest row of effects, or begins a new row, for readers of history.
func (a *Applying) writeEffects() {
	if len(a.effects) == 0 {
		return
	}
	a.cause.Now, a.cause.By = a.Now, a.By.Name
	a.listed = row.Listed(a.listed[:0], a.Now.Seq, a.effects)
	entry, n, indexed := &a.history, len(a.Meta.Effects), int64(len(a.listed)*row.EffectIndexKeyBytes)
	size := int64(0)
	begin := func() {
		a.flushEffects() // before its segment may be deleted
		entry.Begin(a.Now)
		size = seqKeyBytes
	}
	begun, before := n == 0 || len(entry.Value) >= a.Rules.EffectRowBytes, len(entry.Value)
	if begun {
		begin()
		before = 0
	}
	entry.Add(&a.cause, a.effects)
	size += int64(len(entry.Value) - before)
	if n == 0 || a.Meta.Effects[n-1].Bytes+size+indexed > a.Rules.EffectBytes || a.Meta.Effects[n-1].At+EffectSegmentMs <= a.Now.At {
		if !begun {
			entry.Value = entry.Value[:before]
			begin()
			entry.Add(&a.cause, a.effects)
			size += int64(len(entry.Value))
		}
		a.Meta.Effects = append(a.Meta.Effects, row.Segment{First: a.Now.Seq, At: a.Now.At})
		old := a.Meta.Effects[0].First
		a.Meta.Effects = a.dropSegments(row.EffectTable, a.Meta.Effects, (EffectSegments-1)*a.Rules.EffectBytes, EffectRetentionMs)
		if oldest := a.Meta.Effects[0].First; oldest != old {
			a.O.DeleteRange(row.SeqKey(row.EffectIndexTable, old), row.SeqKey(row.EffectIndexTable, oldest))
		}
	}
	newest := &a.Meta.Effects[len(a.Meta.Effects)-1]
	for _, batch := range a.listed {
		a.O.Set(row.EffectIndexKey(newest.First, batch, a.Now.Seq), nil)
	}
	clear(a.effects) // of their texts
	a.effects = a.effects[:0]
	newest.Bytes += size + indexed
	entry.Dirty = true
}

// Effects returns the effects of the last command.
func (m *Machine) Effects() (effects []row.Effect) {
	if m.history.Seq == 0 {
		return nil
	}
	row.EachEffects(m.history.Seq, m.history.Value, func(c *row.Cause, of []row.Effect) {
		if c.Seq == m.Meta.Cursor {
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
		m.history = row.OpenEffects(key, value)
		return false
	})
}
