package store

import "github.com/daybookq/daybook/job"

// A batch has a row of a span for each of its groups, and up to a thousand groups. When its last line is purged, all of
// these rows must be deleted. One command may purge the last lines of a thousand batches, so it deletes the rows of
// small batches only, and leaves larger batches to ticks.

// deleteIfPurged deletes a batch if all of its lines are purged.
func (a *applying) deleteIfPurged(b *batch) {
	if b.counts[job.Purged] != int64(b.lines) {
		return
	}
	p := purgedBatchOf(b)
	if p.paged || len(p.ends) > a.rules.purgedGroups {
		key := seqKey(purgedBatchTable, b.seq)
		a.o.Set(key, p.encode())
		a.purgedBatches.Insert(key)
		if a.meta.purgedAt == 0 {
			a.awaitPurged(a.now.At)
		}
	} else {
		a.deleteSpans(b.seq, p.ends)
	}
	a.o.Delete(seqKey(batchTable, b.seq))
	a.o.Delete(seqKey(countsTable, b.seq))
	if b.submission != 0 {
		a.removePart(b)
	}
	b.gone = true
	a.batches.Delete(b.seq)
}

// awaitPurged sets a timer for a tick that deletes the remaining rows of purged batches.
func (a *applying) awaitPurged(at int64) {
	a.meta.purgedAt = at
	a.setTimer(timerKey(at, purgedTimer, 0, 0, 0))
}

// resumePurged deletes about rows rows of purged batches, and returns how many it has written. It moves the timer,
// which is first, after everything that is due, so that leases and retention are handled in between.
func (a *applying) resumePurged(_ uint64, rows int) int {
	a.deleteTimer(a.timers.First(&a.o))
	a.meta.purgedAt = 0
	before := a.o.Writes()
	for end := before + rows; ; {
		key := a.purgedBatches.First(&a.o)
		if key == "" {
			break
		}
		if a.o.Writes() >= end {
			a.awaitPurged(a.due)
			break
		}
		a.removePurged(key, end)
	}
	return a.o.Writes() - before + tickSpanRows
}

// removePurged deletes rows of a purged batch until the command has made end writes, or no row is left.
func (a *applying) removePurged(key string, end int) {
	p := decodePurgedBatch(seqOfKey(key), a.o.Get(key))
	for len(p.ends) > 0 && a.o.Writes() < end {
		if !p.paged {
			n := min(len(p.ends), end-a.o.Writes())
			a.deleteSpans(p.seq, p.ends[:n])
			p.ends = p.ends[n:]
			continue
		}
		name := groupPageName{p.seq, p.ends[0]}
		a.deleteSpans(p.seq, name.groupEnds(&a.o))
		a.o.Delete(name.key())
		a.groups.Delete(name)
		p.ends = p.ends[1:]
	}
	if len(p.ends) > 0 {
		a.o.Set(key, p.encode())
		return
	}
	a.o.Delete(key)
	a.purgedBatches.Remove(key)
}

// deleteSpans deletes the spans of a purged batch that end at some lines.
func (a *applying) deleteSpans(seq uint64, ends []uint32) {
	for _, last := range ends {
		a.o.Delete(lineKey(spanTable, seq, last))
		a.spans.Delete(cachedSpan{seq, span{last: last}})
	}
}
