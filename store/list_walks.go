package store

import (
	"slices"
	"sort"

	"github.com/daybookq/daybook/store/lsm"
)

// walkBatches looks at all batches, and at the groups and spans of batches that may hold a job of the list.
func (l *lister) walkBatches() (atEnd bool) {
	for from := l.from.seq; ; {
		batches := l.batches(from)
		if len(batches) == 0 {
			return true
		}
		for _, b := range batches {
			l.read(b)
			if l.tooLate(b) {
				return true
			}
			from = b.seq + 1
			if !l.takeBatch(b) {
				return false
			}
		}
	}
}

// takeBatch looks at the groups and spans of a batch if it may hold a job of the list, and reports whether to continue.
func (l *lister) takeBatch(b *batch) bool {
	line := uint32(0)
	if b.seq == l.from.seq {
		line = l.from.line // beyond the last line if the previous page reached the batch's end
	}
	if line < b.lines && (l.f.Status == 0 && b.counts.Total() == 0 || l.f.Status != 0 && b.counts[l.f.Status] == 0) {
		return l.goOn(b, b.lines-1)
	}
	for line < b.lines {
		g := l.groupOf(b, line)
		if l.group(g) && !l.takeLines(b, g, g.first, g.last) || !l.goOn(b, g.last) {
			return false
		}
		line = g.last + 1
	}
	return true
}

// walkBatch looks at the filter's batch. If the batch has attributes, it looks at all parts.
func (l *lister) walkBatch() (atEnd bool) {
	if !l.f.Claim.IsZero() {
		l.claimRuns()
	}
	s := l.live.readSubmissionOf(l.v, l.f.Batch)
	if s == nil {
		b := l.live.readBatchOf(l.v, l.f.Batch)
		return b == nil || !b.isBatch(l.f.Batch) || b.seq < l.from.seq || l.tooLate(b) || l.takeBatch(b)
	}
	// The seqs of parts increase with their lines, so a binary search finds the first part of the page.
	line := int64(sort.Search(int(s.lines), func(line int) bool {
		p, ok := readPart(l.v, s.seq, int64(line))
		return !ok || p.seq >= l.from.seq
	}))
	for {
		p, ok := readPart(l.v, s.seq, line)
		if !ok {
			return true
		}
		b := l.readBatch(p.seq)
		if b == nil {
			lsm.Contradict("list", "part %d of batch %d has no row", p.seq, s.seq)
		}
		if l.tooLate(b) {
			return true
		}
		if !l.takeBatch(b) {
			return false
		}
		line = p.base + int64(b.lines)
	}
}

// batches reads the next batches from a seq onwards.
func (l *lister) batches(from uint64) (list []*batch) {
	const maxBytes = 64 << 10 // of some rows, all of which the page may not need
	bytes := 0
	most := min(batchWindow, max(l.rows, 1))
	l.v.Scan(seqKey(batchTable, from), string(batchTable+1), func(key string, value []byte) bool {
		list = append(list, decodeBatch(seqOfKey(key), value))
		bytes += len(value)
		return len(list) < most && bytes < maxBytes
	})
	if len(list) == 0 {
		return nil
	}
	at := 0
	l.v.Scan(seqKey(countsTable, list[0].seq), lsm.After(seqKey(countsTable, list[len(list)-1].seq)), func(key string, value []byte) bool {
		for at < len(list) && list[at].seq < seqOfKey(key) {
			at++
		}
		if at < len(list) && list[at].seq == seqOfKey(key) {
			list[at].batchCounts = decodeBatchCounts(value)
		}
		return at < len(list)
	})
	return list
}

// walkRuns looks at runs, which must be in order and must not overlap.
func (l *lister) walkRuns(runs []Run) (atEnd bool) {
	var b *batch
	for _, r := range runs {
		if comparePositions(position{r.Batch, r.Last}, l.from) < 0 {
			continue
		}
		if b == nil || b.seq != r.Batch {
			if b = l.readBatch(r.Batch); b == nil { // purged
				continue
			}
		}
		if l.tooLate(b) {
			return true
		}
		// A claim's run may extend over several groups.
		first := r.First
		if r.Batch == l.from.seq {
			first = max(first, l.from.line)
		}
		for first <= r.Last {
			g := l.groupOf(b, first)
			last := min(r.Last, g.last)
			if l.group(g) && !l.takeLines(b, g, first, last) || !l.goOn(b, last) {
				return false
			}
			first = last + 1
		}
	}
	return true
}

// claimRuns finds the claim of the filter, and returns the runs that it handed out.
func (l *lister) claimRuns() []Run {
	c := l.live.readClaimOf(l.v, l.f.Claim)
	if c == nil {
		return nil
	}
	l.claim = c.seq
	return sortRuns(c.runs)
}

// runnerRuns returns the runs that the open claims of the filter's runner handed out; not ok if there are too many.
func (l *lister) runnerRuns() (runs []Run, ok bool) {
	r := readRunner(l.v, l.f.Runner)
	if r.claims > maxRunnerClaims {
		return nil, false
	}
	for _, seq := range openClaims(l.v, r, maxRunnerClaims) {
		if c := readClaim(l.v, seq); c != nil {
			if runs = append(runs, c.runs...); len(runs) > maxRunnerRuns {
				return nil, false
			}
		}
	}
	return sortRuns(runs), true
}

// sortRuns sorts runs and merges overlapping ones. Runs overlap if a claim handed out jobs that an earlier claim had
// given back.
func sortRuns(runs []Run) []Run {
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b Run) int { return comparePositions(position{a.Batch, a.First}, position{b.Batch, b.First}) })
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
