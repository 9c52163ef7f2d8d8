package query

import (
	"slices"
	"sort"

	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// walkBatches looks at all batches, and at the groups and spans of batches that may hold a job of the list.
func (l *lister) walkBatches() (atEnd bool) {
	for from := l.from.Seq; ; {
		batches := l.batches(from)
		if len(batches) == 0 {
			return true
		}
		for _, b := range batches {
			l.Read(b)
			if l.tooLate(b) {
				return true
			}
			from = b.Seq + 1
			if !l.takeBatch(b) {
				return false
			}
		}
	}
}

// takeBatch looks at the groups and spans of a batch if it may hold a job of the list, and reports whether to continue.
func (l *lister) takeBatch(b *row.Batch) bool {
	line := uint32(0)
	if b.Seq == l.from.Seq {
		line = l.from.Line // beyond the last line if the previous page reached the batch's end
	}
	if line < b.Lines && (l.f.Status == 0 && b.Counts.Total() == 0 || l.f.Status != 0 && b.Counts[l.f.Status] == 0) {
		return l.goOn(b, b.Lines-1)
	}
	for line < b.Lines {
		g := l.groupOf(b, line)
		if l.Group(g) && !l.takeLines(b, g, g.First, g.Last) || !l.goOn(b, g.Last) {
			return false
		}
		line = g.Last + 1
	}
	return true
}

// walkBatch looks at the filter's batch. If the batch has attributes, it looks at all parts.
func (l *lister) walkBatch() (atEnd bool) {
	if !l.f.Claim.IsZero() {
		l.claimRuns()
	}
	s := l.live.ReadSubmissionOf(l.v, l.f.Batch)
	if s == nil {
		b := l.live.ReadBatchOf(l.v, l.f.Batch)
		return b == nil || !b.IsBatch(l.f.Batch) || b.Seq < l.from.Seq || l.tooLate(b) || l.takeBatch(b)
	}
	// The seqs of parts increase with their lines, so a binary search finds the first part of the page.
	line := int64(sort.Search(int(s.Lines), func(line int) bool {
		p, ok := row.ReadPart(l.v, s.Seq, int64(line))
		return !ok || p.Seq >= l.from.Seq
	}))
	for {
		p, ok := row.ReadPart(l.v, s.Seq, line)
		if !ok {
			return true
		}
		b := l.readBatch(p.Seq)
		if b == nil {
			lsm.Contradict("list", "part %d of batch %d has no row", p.Seq, s.Seq)
		}
		if l.tooLate(b) {
			return true
		}
		if !l.takeBatch(b) {
			return false
		}
		line = p.Base + int64(b.Lines)
	}
}

// batches reads the next batches from a seq onwards.
func (l *lister) batches(from uint64) (list []*row.Batch) {
	const maxBytes = 64 << 10 // of some rows, all of which the page may not need
	bytes := 0
	most := min(batchWindow, max(l.rows, 1))
	l.v.Scan(row.SeqKey(row.BatchTable, from), string(row.BatchTable+1), func(key string, value []byte) bool {
		list = append(list, row.DecodeBatch(row.SeqOfKey(key), value))
		bytes += len(value)
		return len(list) < most && bytes < maxBytes
	})
	if len(list) == 0 {
		return nil
	}
	at := 0
	l.v.Scan(row.SeqKey(row.CountsTable, list[0].Seq), lsm.After(row.SeqKey(row.CountsTable, list[len(list)-1].Seq)), func(key string, value []byte) bool {
		for at < len(list) && list[at].Seq < row.SeqOfKey(key) {
			at++
		}
		if at < len(list) && list[at].Seq == row.SeqOfKey(key) {
			list[at].BatchCounts = row.DecodeBatchCounts(value)
		}
		return at < len(list)
	})
	return list
}

// walkRuns looks at runs, which must be in order and must not overlap.
func (l *lister) walkRuns(runs []row.Run) (atEnd bool) {
	var b *row.Batch
	for _, r := range runs {
		if row.ComparePositions(row.Position{r.Batch, r.Last}, l.from) < 0 {
			continue
		}
		if b == nil || b.Seq != r.Batch {
			if b = l.readBatch(r.Batch); b == nil { // purged
				continue
			}
		}
		if l.tooLate(b) {
			return true
		}
		// A claim's run may extend over several groups.
		first := r.First
		if r.Batch == l.from.Seq {
			first = max(first, l.from.Line)
		}
		for first <= r.Last {
			g := l.groupOf(b, first)
			last := min(r.Last, g.Last)
			if l.Group(g) && !l.takeLines(b, g, first, last) || !l.goOn(b, last) {
				return false
			}
			first = last + 1
		}
	}
	return true
}

// claimRuns finds the claim of the filter, and returns the runs that it handed out.
func (l *lister) claimRuns() []row.Run {
	c := l.live.ReadClaimOf(l.v, l.f.Claim)
	if c == nil {
		return nil
	}
	l.claim = c.Seq
	return sortRuns(c.Runs)
}

// runnerRuns returns the runs that the open claims of the filter's runner handed out; not ok if there are too many.
func (l *lister) runnerRuns() (runs []row.Run, ok bool) {
	r := row.ReadRunner(l.v, l.f.Runner)
	if r.Claims > maxRunnerClaims {
		return nil, false
	}
	for _, seq := range OpenClaims(l.v, r, maxRunnerClaims) {
		if c := row.ReadClaim(l.v, seq); c != nil {
			if runs = append(runs, c.Runs...); len(runs) > maxRunnerRuns {
				return nil, false
			}
		}
	}
	return sortRuns(runs), true
}

// sortRuns sorts runs and merges overlapping ones. Runs overlap if a claim handed out jobs that an earlier claim had
// given back.
func sortRuns(runs []row.Run) []row.Run {
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b row.Run) int {
		return row.ComparePositions(row.Position{a.Batch, a.First}, row.Position{b.Batch, b.First})
	})
	merged := runs[:0]
	for _, r := range runs {
		if n := len(merged) - 1; n >= 0 && merged[n].Batch == r.Batch && r.First <= merged[n].Last+1 {
			merged[n].Last = max(merged[n].Last, r.Last)
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}
