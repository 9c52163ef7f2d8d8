package row

import "github.com/daybookq/daybook/store/internal/lsm"

// PurgedBatch is the rest of a batch of many groups whose last line was purged. Its rows of spans, one for each group,
// and of pages of groups stay until a tick removes them. No other code looks for them, because the batch's row is
// deleted.
type PurgedBatch struct {
	Seq uint64
	// ends are the last lines of the groups. If paged, they are the last lines of the pages that the groups are in.
	Ends  []uint32
	Paged bool
}

// PurgedBatchOf returns the rest of a batch whose lines are all purged. Equal neighbours are one span, so each group is
// exactly one span.
func PurgedBatchOf(b *Batch) *PurgedBatch {
	if b.Groups == nil {
		return &PurgedBatch{b.Seq, b.GroupPageEnds(), true}
	}
	p := &PurgedBatch{Seq: b.Seq, Ends: make([]uint32, len(b.Groups.Groups))}
	for i := range b.Groups.Groups {
		p.Ends[i] = b.Groups.Groups[i].Last
	}
	return p
}

func (p *PurgedBatch) Encode() []byte {
	e := make(lsm.Encoder, 0, 8+4*len(p.Ends))
	e.Bool(p.Paged)
	encodeEnds(&e, p.Ends)
	return e
}

func DecodePurgedBatch(seq uint64, value []byte) *PurgedBatch {
	d := lsm.Decoder(value)
	p := &PurgedBatch{Seq: seq, Paged: d.Bool(), Ends: make([]uint32, d.Count(1))}
	for i := range p.Ends {
		if p.Ends[i] = uint32(d.Uint()); i > 0 && p.Ends[i] <= p.Ends[i-1] {
			lsm.Contradict("decode", "line %d after line %d of purged batch %d", p.Ends[i], p.Ends[i-1], seq)
		}
	}
	return p
}

// GroupEnds returns the last lines of the groups of a page.
func (n GroupPageName) GroupEnds(r lsm.Rows) (ends []uint32) {
	value := r.Get(n.Key())
	if value == nil {
		lsm.Contradict("find groups", "those up to line %d of purged batch %d are not there", n.Last, n.Seq)
	}
	page := DecodeGroupPage(n, 0, value) // the page's first line is not needed here
	for i := range page.Groups {
		ends = append(ends, page.Groups[i].Last)
	}
	return ends
}
