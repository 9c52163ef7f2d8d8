package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// batch is a batch. What changes of it is in batchCounts, which has a row of its own.
type batch struct {
	seq     uint64
	at      int64
	lines   uint32
	frame   job.Frame
	longest int
	groups  []group
	unique  bool // whether lines have unique keys
	joined  bool // whether its jobs were created by several requests, so that no user sees it as a batch
	// submission is the seq of the submission that it is a part of, submissionAt the time of that, and base the number
	// that its first line has there; 0: it is a batch by itself.
	submission   uint64
	submissionAt int64
	base         int64
	uneven       bool // whether payloads differ in length, so that each page has a row of their sizes
	// pageEnds are the last lines of its pages, without that of the last page. They let Apply find pages without
	// reading any: whether a page can be read depends on the disk, and what Apply decides must not.
	pageEnds []uint32
	batchCounts
	dirty bool // on the machine's list of unwritten rows
	gone  bool // all of its lines are purged
}

// batchCounts is the part of a batch that changes.
type batchCounts struct {
	counts  job.Counts
	details bool // whether any line ever had a detail row
	// Of a batch by itself, from level 4 on: when its last job ended, in unix ms, or 0, and the number after the line that
	// failed first, or 0.
	endedAt int64
	failed  int64
	// purged says what purged jobs of a batch by itself were: failedBit and cancelledBit.
	purged uint64
}

// group is a group of a batch. It names its lines by their ends and its queue by number.
type group struct {
	first, last uint32
	queueID     uint32
	job.Attributes
}

func (b *batch) encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Int(b.at)
	e.Uint(uint64(b.lines))
	e.Uint(uint64(b.frame))
	e.Uint(uint64(b.longest))
	e.Bool(b.unique)
	e.Bool(b.uneven)
	kind := uint64(0)
	if b.joined {
		kind |= joinedBit
	}
	if b.submission != 0 {
		kind |= partBit
	}
	e.Uint(kind)
	if b.submission != 0 {
		e.Uint(b.submission)
		e.Int(b.submissionAt)
		e.Int(b.base)
	}
	e.Uint(uint64(len(b.groups)))
	for i := range b.groups {
		g := &b.groups[i]
		g.encode(&e)
	}
	e.Uint(uint64(len(b.pageEnds)))
	for _, line := range b.pageEnds {
		e.Uint(uint64(line))
	}
	return e
}

// What a batch is, as bits of a number in its row.
const (
	joinedBit = 1 << iota
	partBit
)

// encode leaves out first, which follows from the group before.
func (g *group) encode(e *lsm.Encoder) {
	e.Uint(uint64(g.last))
	e.Uint(uint64(g.queueID))
	*e = g.AppendRow(*e)
}

// groupBytes is the least that a group takes.
const groupBytes = 2 + job.MinAttributesRow

func decodeGroup(d *lsm.Decoder) (g group) {
	g.last, g.queueID = uint32(d.Uint()), uint32(d.Uint())
	rest, err := g.ParseRow(*d)
	if err != nil {
		lsm.Fail("decode", lsm.ErrShortRow)
	}
	*d = rest
	return g
}

// of returns the group as a create named it, without the number of its lines.
func (g *group) of(name queueName) job.Group {
	return job.Group{Client: name.client, Type: name.typ, Attributes: g.Attributes}
}

// group returns the group that a line belongs to.
func (b *batch) group(line uint32) *group {
	lo, hi := 0, len(b.groups)-1
	for lo < hi {
		if mid := (lo + hi) / 2; b.groups[mid].last < line {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return &b.groups[lo]
}

func (b *batch) id() job.ID { return job.NewID(b.at, b.seq, 0) }

// shownID is the id of the batch as users see it: zero if its jobs belong to no batch.
func (b *batch) shownID() job.ID {
	switch {
	case b.joined:
		return job.ID{}
	case b.submission != 0:
		return job.NewID(b.submissionAt, b.submission, 0)
	}
	return b.id()
}

// isBatch reports whether it is the batch of that id by itself.
func (b *batch) isBatch(id job.ID) bool { return b.submission == 0 && b.shownID() == id }

// decodeBatch refuses groups that do not tile the lines: what looks a line's group up relies on there being one.
func decodeBatch(seq uint64, value []byte) *batch {
	d := lsm.Decoder(value)
	b := decodeBatchHead(seq, &d)
	b.groups = make([]group, d.Count(groupBytes))
	first := uint32(0)
	for i := range b.groups {
		b.groups[i] = decodeGroup(&d)
		g := &b.groups[i]
		g.first = first
		if g.first > g.last || g.last >= b.lines {
			lsm.Contradict("decode", "group %d has lines %d-%d of %d", i, g.first, g.last, b.lines)
		}
		first = g.last + 1
	}
	if first != b.lines || first == 0 {
		lsm.Contradict("decode", "%d lines are not those of its %d groups", b.lines, len(b.groups))
	}
	if n := d.Count(1); n > 0 {
		b.pageEnds = make([]uint32, n)
	}
	for i := range b.pageEnds {
		b.pageEnds[i] = uint32(d.Uint())
		if line := b.pageEnds[i]; line+1 >= b.lines || i > 0 && line <= b.pageEnds[i-1] {
			lsm.Contradict("decode", "page %d of a batch of %d lines ends at line %d", i, b.lines, line)
		}
	}
	return b
}

// decodeBatchHead decodes what is before the groups in the row of a batch.
func decodeBatchHead(seq uint64, d *lsm.Decoder) *batch {
	b := &batch{seq: seq, at: d.Int(), lines: uint32(d.Uint()), frame: job.Frame(d.Uint()), longest: int(d.Uint()), unique: d.Bool(), uneven: d.Bool()}
	kind := d.Uint()
	b.joined = kind&joinedBit != 0
	if kind&partBit != 0 {
		b.submission, b.submissionAt, b.base = d.Uint(), d.Int(), d.Int()
	}
	return b
}

// Bits of batchCounts.purged. Jobs that were purged before they ended count as cancelled.
const (
	failedBit = 1 << iota
	cancelledBit
)

func (b *batchCounts) unfinished() int64 {
	return b.counts[job.Deferred] + b.counts[job.Pending] + b.counts[job.Active]
}

// summary returns the document of a batch by itself.
func (b *batch) summary() Batch {
	doc := Batch{ID: b.id(), CreatedAt: b.at, Lines: int64(b.lines), Counts: b.counts, Status: job.BatchInProgress, Jobs: int64(b.lines), Since: b.at}
	doc.Ended = doc.Jobs - b.unfinished()
	if b.unfinished() == 0 {
		doc.Status = job.BatchStatusOf(b.counts[job.Failed]+int64(b.purged&failedBit), b.counts[job.Cancelled]+int64(b.purged&cancelledBit))
		doc.EndedAt = b.endedAt
	}
	if b.failed > 0 {
		doc.Failed = b.id().WithLine(int(b.failed - 1))
	}
	return doc
}

func encodeCounts(e *lsm.Encoder, counts *job.Counts) {
	for _, n := range counts[1:] {
		e.Uint(uint64(n))
	}
}

func decodeCounts(d *lsm.Decoder) (counts job.Counts) {
	for i := range counts[1:] {
		counts[i+1] = int64(d.Uint())
	}
	return counts
}

func (b *batchCounts) encode() []byte {
	e := make(lsm.Encoder, 0, 16)
	encodeCounts(&e, &b.counts)
	e.Bool(b.details)
	if b.endedAt != 0 || b.failed != 0 || b.purged != 0 {
		e.Int(b.endedAt)
		e.Int(b.failed)
		e.Uint(b.purged)
	}
	return e
}

func decodeBatchCounts(value []byte) (b batchCounts) {
	d := lsm.Decoder(value)
	b.counts = decodeCounts(&d)
	b.details = d.Bool()
	if len(d) > 0 {
		b.endedAt, b.failed, b.purged = d.Int(), d.Int(), d.Uint()
	}
	return b
}

// readBatch returns the batch that the command seq made, or nil.
func readBatch(r lsm.Rows, seq uint64) *batch {
	value := r.Get(seqKey(batchTable, seq))
	if value == nil {
		return nil
	}
	b := decodeBatch(seq, value)
	b.batchCounts = decodeBatchCounts(r.Get(seqKey(countsTable, seq)))
	return b
}

// readBatchHead is readBatch without groups, pages and counts: for lookups of many jobs one by one.
func readBatchHead(r lsm.Rows, seq uint64) *batch {
	value := r.Get(seqKey(batchTable, seq))
	if value == nil {
		return nil
	}
	d := lsm.Decoder(value)
	return decodeBatchHead(seq, &d)
}
