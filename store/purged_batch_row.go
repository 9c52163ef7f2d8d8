package store

import "github.com/daybookq/daybook/store/lsm"

// purgedBatch is the rest of a batch of many groups whose last line was purged. Its rows of spans, one for each group,
// and of pages of groups stay until a tick removes them. No other code looks for them, because the batch's row is
// deleted.
type purgedBatch struct {
	seq uint64
	// ends are the last lines of the groups. If paged, they are the last lines of the pages that the groups are in.
	ends  []uint32
	paged bool
}

// purgedBatchOf returns the rest of a batch whose lines are all purged. Equal neighbours are one span, so each group is
// exactly one span.
func purgedBatchOf(b *batch) *purgedBatch {
	if b.groups == nil {
		return &purgedBatch{b.seq, b.groupPageEnds(), true}
	}
	p := &purgedBatch{seq: b.seq, ends: make([]uint32, len(b.groups.groups))}
	for i := range b.groups.groups {
		p.ends[i] = b.groups.groups[i].last
	}
	return p
}

func (p *purgedBatch) encode() []byte {
	e := make(lsm.Encoder, 0, 8+4*len(p.ends))
	e.Bool(p.paged)
	encodeEnds(&e, p.ends)
	return e
}

func decodePurgedBatch(seq uint64, value []byte) *purgedBatch {
	d := lsm.Decoder(value)
	p := &purgedBatch{seq: seq, paged: d.Bool(), ends: make([]uint32, d.Count(1))}
	for i := range p.ends {
		if p.ends[i] = uint32(d.Uint()); i > 0 && p.ends[i] <= p.ends[i-1] {
			lsm.Contradict("decode", "line %d after line %d of purged batch %d", p.ends[i], p.ends[i-1], seq)
		}
	}
	return p
}

// groupEnds returns the last lines of the groups of a page.
func (n groupPageName) groupEnds(r lsm.Rows) (ends []uint32) {
	value := r.Get(n.key())
	if value == nil {
		lsm.Contradict("find groups", "those up to line %d of purged batch %d are not there", n.last, n.seq)
	}
	page := decodeGroupPage(n, 0, value) // the page's first line is not needed here
	for i := range page.groups {
		ends = append(ends, page.groups[i].last)
	}
	return ends
}
