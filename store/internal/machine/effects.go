package machine

import (
	"cmp"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
)

// A row of effects records what some commands moved. For claims, ticks and sweeps, which pick their jobs, it is the
// only record. The rows are kept in segments, for a time, as long as the segments do not exceed their total size. When a
// new segment begins, range deletions delete the oldest segments if they are too old or all segments are too large.
// docs/004-effects.md has the costs.

const (
	// EffectRetentionMs is how long effects rows are kept, unless they take too many bytes, or a command sets another time.
	EffectRetentionMs = job.DefaultHistoryMs
	// EffectSegments is how many full segments are kept. A segment has rows of at most this share of the retention, so rows are
	// kept for an eighth longer at most, except those of the newest segment, which stays until a command moves jobs.
	EffectSegments = 8
)

// effectBounds returns the size of a segment of effects rows, and how long rows are kept.
func (m *Machine) effectBounds() (segment, retentionMs int64) {
	if h := m.Meta.History; h.Bytes != 0 {
		return h.Bytes / EffectSegments, h.AgeMs
	}
	return m.Rules.EffectBytes, EffectRetentionMs
}

// setHistory sets the bounds of effects rows, and deletes the rows that they exclude, and those before a seq.
func (a *Applying) setHistory(cmd job.SetHistory) {
	if cmd.Bytes != 0 {
		a.Meta.History = row.History{Bytes: cmd.Bytes, AgeMs: cmd.AgeMs}
	}
	segment, _ := a.effectBounds()
	a.dropEffects(EffectSegments*segment, cmd.Before)
}

// dropEffects deletes the oldest segments while they are too old, or begin before a seq, or all together have more than most bytes.
func (a *Applying) dropEffects(most int64, before uint64) {
	if len(a.Meta.Effects) == 0 {
		return
	}
	_, retentionMs := a.effectBounds()
	old := a.Meta.Effects[0].First
	a.Meta.Effects = a.dropSegments(row.EffectTable, a.Meta.Effects, most, retentionMs, before)
	if oldest := a.Meta.Effects[0].First; oldest != old {
		a.O.DeleteRange(row.SeqKey(row.EffectIndexTable, old), row.SeqKey(row.EffectIndexTable, oldest))
	}
}

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
	segment, retentionMs := a.effectBounds()
	if n == 0 || a.Meta.Effects[n-1].Bytes+size+indexed > segment || a.Meta.Effects[n-1].At+retentionMs/EffectSegments <= a.Now.At {
		if !begun {
			entry.Value = entry.Value[:before]
			begin()
			entry.Add(&a.cause, a.effects)
			size += int64(len(entry.Value))
		}
		a.Meta.Effects = append(a.Meta.Effects, row.Segment{First: a.Now.Seq, At: a.Now.At})
		a.dropEffects((EffectSegments-1)*segment, 0)
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

// historyUse says how far the rows of effects reach.
func (m *Machine) historyUse() (h document.History) {
	segment, retentionMs := m.effectBounds()
	h.MaxBytes, h.MaxAgeMs = EffectSegments*segment, retentionMs
	if set := m.Meta.History; set.Bytes != 0 {
		h.MaxBytes = set.Bytes
	}
	for _, s := range m.Meta.Effects {
		h.Bytes += s.Bytes
	}
	if n := len(m.Meta.Effects); n > 0 {
		h.First, h.Since = m.Meta.Effects[0].First, m.Meta.Effects[0].At
		if n > 1 {
			h.Next, h.NextSince = m.Meta.Effects[1].First, m.Meta.Effects[1].At
		}
	}
	return h
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
