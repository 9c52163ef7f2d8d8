package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// distinctIndex returns the index of a strategy.
func (a *applying) distinctIndex(s job.Strategy) *distinctIndex {
	d := &a.distinct
	at := slices.IndexFunc(d.list, func(x *distinctIndex) bool { return x.strategy == s })
	if at < 0 {
		if len(d.list) == maxDistinctIndexes { // the first one was used least recently
			d.list = slices.Delete(d.list, 0, 1)
		}
		d.list, at = append(d.list, a.buildDistinct(s)), len(d.list)
	}
	x := d.list[at]
	copy(d.list[at:], d.list[at+1:])
	d.list[len(d.list)-1] = x
	x.usedAt = a.now.At
	return x
}

// buildDistinct builds the index of a strategy from the rows of all pending and active spans.
func (m *machine) buildDistinct(s job.Strategy) *distinctIndex {
	x := newDistinctIndex(s)
	for _, q := range m.queues.byID {
		if q.counts[job.Active] > 0 {
			m.eachSpanOf(q, job.Active, func(_ *batch, g *group, sp span) {
				x.countActive(q, g, int64(sp.last-sp.first)+1)
			})
		}
		if q.counts[job.Pending] > 0 {
			m.eachSpanOf(q, job.Pending, func(b *batch, g *group, sp span) {
				x.leaf(q, g).spans.set(sp.waiting(b, g), int64(sp.last-sp.first)+1)
			})
		}
	}
	x.rankAll()
	return x
}

// distinctChunk is how many spans are looked up at once.
const distinctChunk = 4096

// eachSpanOf calls visit with the spans of a queue in a status, in the order of their ids. Like eachPending, it leaves
// the caches alone.
func (m *machine) eachSpanOf(q *queue, status job.Status, visit func(b *batch, g *group, sp span)) {
	from := listPrefix(q.id, status)
	to := lsm.After(from)
	var b *batch // the last one
	for from != "" {
		var ends []position
		next := ""
		m.o.Scan(from, to, func(key string, _ []byte) bool {
			if len(ends) == distinctChunk {
				next = key
				return false
			}
			ends = append(ends, endOfListKey(key))
			return true
		})
		var batches, spans []string
		for i, end := range ends {
			if i == 0 || ends[i-1].seq != end.seq {
				batches = append(batches, seqKey(batchTable, end.seq))
			}
			spans = append(spans, lineKey(spanTable, end.seq, end.line))
		}
		known := make(map[uint64]*batch, len(batches))
		if b != nil {
			known[b.seq] = b
			if len(ends) > 0 && ends[0].seq == b.seq {
				batches = batches[1:]
			}
		}
		m.getNear(batches, func(key string, value []byte) {
			b := decodeBatch(seqOfKey(key), value)
			known[b.seq] = b
		})
		found := 0
		m.getNear(spans, func(key string, value []byte) {
			sp := decodeSpan(lineOfKey(key), value)
			if b = known[seqOfKey(key)]; b == nil {
				lsm.Contradict("find batch", "batch %d of a %v span has no row", seqOfKey(key), status)
			}
			found++
			visit(b, m.group(b, sp.last), sp)
		})
		if found != len(ends) {
			lsm.Contradict("find span", "%d of %d spans that rows of queue %d name are missing", len(ends)-found, len(ends), q.id)
		}
		from = next
	}
}

// getNear calls visit with the rows of keys, which are in order. It reads them by a scan while few other rows are between
// them, since looking up each of a million rows that are not in memory takes 50 times as long.
func (m *machine) getNear(keys []string, visit func(key string, value []byte)) {
	if len(keys) == 0 {
		return
	}
	at, others := 0, 0
	m.o.Scan(keys[0], keys[len(keys)-1]+"\x00", func(key string, value []byte) bool {
		for at < len(keys) && keys[at] < key {
			at++
		}
		if at < len(keys) && keys[at] == key {
			visit(key, value)
			at++
			return at < len(keys)
		}
		others++
		return others < 16*len(keys)
	})
	m.o.GetAll(keys[at:], visit)
}
