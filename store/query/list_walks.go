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
			if l.beyond(b) {
				return true
			}
			if from = b.Seq + 1; l.down() {
				from = b.Seq - 1
			}
			if !l.takeBatch(b) {
				return false
			}
		}
	}
}

// takeBatch looks at the groups and spans of a batch if it may hold a job of the list, and reports whether to continue.
func (l *lister) takeBatch(b *row.Batch) bool {
	first, last := l.clip(b, 0, 0, b.Lines-1)
	if first <= last && (l.f.Status == 0 && b.Counts.Total() == 0 || l.f.Status != 0 && b.Counts[l.f.Status] == 0) {
		if l.down() {
			return l.goOn(b, 0, 0)
		}
		return l.goOn(b, b.Lines-1, 0)
	}
	for first <= last { // else the previous page reached the batch's end
		if l.down() {
			g := l.groupOf(b, last)
			if l.Group(g) && !l.takeLines(b, g, g.First, last) || !l.goOn(b, g.First, 0) {
				return false
			}
			if g.First == 0 {
				break
			}
			last = g.First - 1
			continue
		}
		g := l.groupOf(b, first)
		if l.Group(g) && !l.takeLines(b, g, first, g.Last) || !l.goOn(b, g.Last, 0) {
			return false
		}
		first = g.Last + 1
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
		return b == nil || !b.IsBatch(l.f.Batch) || l.passed(b.Seq) || l.beyond(b) || l.takeBatch(b)
	}
	// The seqs of parts increase with their lines, so a binary search finds the first part of the page.
	line := int64(sort.Search(int(s.Lines), func(line int) bool {
		p, ok := row.ReadPart(l.v, s.Seq, int64(line))
		return !ok || p.Seq >= l.from.Seq && (!l.down() || p.Seq > l.from.Seq)
	}))
	if l.down() {
		line--
	}
	for line >= 0 {
		p, ok := row.ReadPart(l.v, s.Seq, line)
		if !ok {
			return true
		}
		b := l.readBatch(p.Seq)
		if b == nil {
			lsm.Contradict("list", "part %d of batch %d has no row", p.Seq, s.Seq)
		}
		if l.beyond(b) {
			return true
		}
		if !l.takeBatch(b) {
			return false
		}
		if line = p.Base + int64(b.Lines); l.down() {
			line = p.Base - 1
		}
	}
	return true
}

// passed reports whether a batch comes before the page.
func (l *lister) passed(seq uint64) bool {
	if l.down() {
		return seq > l.from.Seq
	}
	return seq < l.from.Seq
}

// batches reads the next batches from a seq onwards, or in a list in the opposite order, from a seq backwards.
func (l *lister) batches(from uint64) (list []*row.Batch) {
	const maxBytes = 64 << 10 // of some rows, all of which the page may not need
	bytes := 0
	most := min(batchWindow, max(l.rows, 1))
	add := func(key string, value []byte) bool {
		list = append(list, row.DecodeBatch(row.SeqOfKey(key), value))
		bytes += len(value)
		return len(list) < most && bytes < maxBytes
	}
	if l.down() {
		l.v.ScanDown(string(row.BatchTable), lsm.After(row.SeqKey(row.BatchTable, from)), add)
		slices.Reverse(list)
		defer slices.Reverse(list)
	} else {
		l.v.Scan(row.SeqKey(row.BatchTable, from), string(row.BatchTable+1), add)
	}
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

// walkRuns looks at runs, which must be in the order of ids and must not overlap.
func (l *lister) walkRuns(runs []row.Run) (atEnd bool) {
	if l.down() {
		slices.Reverse(runs)
	}
	var b *row.Batch
	for _, r := range runs {
		if l.passed(r.Batch) {
			continue
		}
		if b == nil || b.Seq != r.Batch {
			if b = l.readBatch(r.Batch); b == nil { // purged
				continue
			}
		}
		if l.beyond(b) {
			return true
		}
		// A claim's run may extend over several groups.
		for first, last := l.clip(b, 0, r.First, r.Last); first <= last; {
			if l.down() {
				g := l.groupOf(b, last)
				low := max(first, g.First)
				if l.Group(g) && !l.takeLines(b, g, low, last) || !l.goOn(b, low, 0) {
					return false
				}
				if low == first {
					break
				}
				last = low - 1
				continue
			}
			g := l.groupOf(b, first)
			high := min(last, g.Last)
			if l.Group(g) && !l.takeLines(b, g, first, high) || !l.goOn(b, high, 0) {
				return false
			}
			first = high + 1
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
