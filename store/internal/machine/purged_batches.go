package machine

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// A batch has a row of a span for each of its groups, and up to a thousand groups. When its last line is purged, all of
// these rows must be deleted. One command may purge the last lines of a thousand batches, so it deletes the rows of
// small batches only, and leaves larger batches to ticks.

// deleteIfPurged deletes a batch if all of its lines are purged.
func (a *Applying) deleteIfPurged(b *row.Batch) {
	if b.Counts[job.Purged] != int64(b.Lines) {
		return
	}
	p := row.PurgedBatchOf(b)
	if p.Paged || len(p.Ends) > a.Rules.PurgedGroups {
		key := row.SeqKey(row.PurgedBatchTable, b.Seq)
		a.O.Set(key, p.Encode())
		a.purgedBatches.Insert(key)
		if a.Meta.PurgedAt == 0 {
			a.awaitPurged(a.Now.At)
		}
	} else {
		a.deleteSpans(b.Seq, p.Ends)
	}
	a.O.Delete(row.SeqKey(row.BatchTable, b.Seq))
	a.O.Delete(row.SeqKey(row.CountsTable, b.Seq))
	if b.Submission != 0 {
		a.removePart(b)
	}
	b.Gone = true
	a.Batches.Delete(b.Seq)
}

// awaitPurged sets a timer for a tick that deletes the remaining rows of purged batches.
func (a *Applying) awaitPurged(at int64) {
	a.Meta.PurgedAt = at
	a.SetTimer(row.TimerKey(at, row.PurgedTimer, 0, 0, 0))
}

// resumePurged deletes about rows rows of purged batches, and returns how many it has written. It moves the timer,
// which is first, after everything that is due, so that leases and retention are handled in between.
func (a *Applying) resumePurged(_ uint64, rows int) int {
	a.DeleteTimer(a.timers.First(&a.O))
	a.Meta.PurgedAt = 0
	before := a.O.Writes()
	for end := before + rows; ; {
		key := a.purgedBatches.First(&a.O)
		if key == "" {
			break
		}
		if a.O.Writes() >= end {
			a.awaitPurged(a.Due)
			break
		}
		a.removePurged(key, end)
	}
	return a.O.Writes() - before + row.TickSpanRows
}

// removePurged deletes rows of a purged batch until the command has made end writes, or no row is left.
func (a *Applying) removePurged(key string, end int) {
	p := row.DecodePurgedBatch(row.SeqOfKey(key), a.O.Get(key))
	for len(p.Ends) > 0 && a.O.Writes() < end {
		if !p.Paged {
			n := min(len(p.Ends), end-a.O.Writes())
			a.deleteSpans(p.Seq, p.Ends[:n])
			p.Ends = p.Ends[n:]
			continue
		}
		name := row.GroupPageName{p.Seq, p.Ends[0]}
		a.deleteSpans(p.Seq, name.GroupEnds(&a.O))
		a.O.Delete(name.Key())
		a.Groups.Delete(name)
		p.Ends = p.Ends[1:]
	}
	if len(p.Ends) > 0 {
		a.O.Set(key, p.Encode())
		return
	}
	a.O.Delete(key)
	a.purgedBatches.Remove(key)
}

// deleteSpans deletes the spans of a purged batch that end at some lines.
func (a *Applying) deleteSpans(seq uint64, ends []uint32) {
	for _, last := range ends {
		a.O.Delete(row.LineKey(row.SpanTable, seq, last))
		a.Spans.Delete(memory.CachedSpan{seq, row.Span{Last: last}})
	}
}
