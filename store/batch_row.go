package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// batch is a batch. The part that changes is in batchCounts, which has a separate row.
type batch struct {
	seq     uint64
	at      int64
	lines   uint32
	frame   job.Frame
	longest int
	// groups are all groups of a batch whose groups fit into one page, and nil otherwise. Otherwise the pages have
	// rows, so that a lookup of one line reads and decodes only one page. groupEnds are then the last lines of all
	// these pages but the last.
	groups    *groupPage
	groupEnds []uint32
	unique    bool // whether lines have unique keys
	joined    bool // whether several requests created its jobs, so that users do not see it as a batch
	// If the batch is a part of a submission, submission is the submission's seq, submissionAt its time, and base the
	// number that the batch's first line has there. submission is 0 for a standalone batch.
	submission   uint64
	submissionAt int64
	base         int64
	uneven       bool // whether payloads differ in length, so that each page has a row of their lengths
	// pageEnds are the last lines of all of its pages but the last. They let Apply find pages without reading any:
	// whether a page can be read depends on the disk, and Apply's decisions must not.
	pageEnds []uint32
	batchCounts
	dirty bool // on the machine's list of unwritten rows
	gone  bool // all of its lines are purged
}

// batchCounts is the part of a batch that changes.
type batchCounts struct {
	counts  job.Counts
	details bool // whether any line ever had a detail row
	// Of a standalone batch, from level 4 on: when its last job ended, in unix ms, or 0; and 1 + the line that failed
	// first, or 0.
	endedAt int64
	failed  int64
	// purged has the outcomes of purged jobs of a standalone batch: failedBit and cancelledBit.
	purged uint64
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
	if b.groups != nil {
		e.Uint(uint64(len(b.groups.groups)))
		for i := range b.groups.groups {
			b.groups.groups[i].encode(&e)
		}
	} else {
		e.Uint(0)
		encodeEnds(&e, b.groupEnds)
	}
	encodeEnds(&e, b.pageEnds)
	return e
}

func encodeEnds(e *lsm.Encoder, ends []uint32) {
	e.Uint(uint64(len(ends)))
	for _, line := range ends {
		e.Uint(uint64(line))
	}
}

// decodeEnds reads the last lines of all pages of a batch but the last.
func decodeEnds(d *lsm.Decoder, lines uint32) (ends []uint32) {
	if n := d.Count(1); n > 0 {
		ends = make([]uint32, n)
	}
	for i := range ends {
		ends[i] = uint32(d.Uint())
		if line := ends[i]; line+1 >= lines || i > 0 && line <= ends[i-1] {
			lsm.Contradict("decode", "page %d of a batch of %d lines ends at line %d", i, lines, line)
		}
	}
	return ends
}

// Kinds of batches, as bits of a number in the batch's row.
const (
	joinedBit = 1 << iota
	partBit
)

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

// isBatch reports whether it is the standalone batch with that id.
func (b *batch) isBatch(id job.ID) bool { return b.submission == 0 && b.shownID() == id }

// decodeBatch refuses groups that do not tile the lines, because a lookup of a line's group relies on finding one.
func decodeBatch(seq uint64, value []byte) *batch {
	d := lsm.Decoder(value)
	b := decodeBatchHead(seq, &d)
	if n := d.Count(groupBytes); n > 0 {
		b.groups = decodeGroups(groupPageName{seq, b.lines - 1}, 0, n, &d)
	} else if b.groupEnds = decodeEnds(&d, b.lines); b.groupEnds == nil {
		lsm.Contradict("decode", "a batch of %d lines has no groups", b.lines)
	}
	b.pageEnds = decodeEnds(&d, b.lines)
	return b
}

// decodeBatchHead decodes the part of a batch's row before the groups.
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

// summary returns the document of a standalone batch.
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

// size is about how many bytes of memory a batch takes with its place in the cache.
func (b *batch) size() int {
	n := 350 + 4*len(b.groupEnds) + 4*len(b.pageEnds)
	if b.groups != nil {
		n += b.groups.size()
	}
	return n
}

// groupPageOf returns the lines of the page of groups that a line of a batch belongs to.
func (b *batch) groupPageOf(line uint32) (first, last uint32) {
	at, _ := slices.BinarySearch(b.groupEnds, line)
	if at > 0 {
		first = b.groupEnds[at-1] + 1
	}
	if last = b.lines - 1; at < len(b.groupEnds) {
		last = b.groupEnds[at]
	}
	return first, last
}

// groupPageEnds returns the last lines of all pages of groups that have rows.
func (b *batch) groupPageEnds() []uint32 {
	if b.groups != nil {
		return nil
	}
	return append(slices.Clip(b.groupEnds), b.lines-1)
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

// readGroupPage returns the page of groups that a line of a batch belongs to.
func readGroupPage(r lsm.Rows, b *batch, line uint32) *groupPage {
	if b.groups != nil {
		return b.groups
	}
	first, last := b.groupPageOf(line)
	name := groupPageName{b.seq, last}
	value := r.Get(name.key())
	if value == nil {
		lsm.Contradict("find groups", "lines %d-%d of batch %d have none", first, last, b.seq)
	}
	return decodeGroupPage(name, first, value)
}

// groupReader looks up the groups of lines, for queries and Check. It keeps the page that it read last.
type groupReader struct{ page *groupPage }

// group returns the group that a line of a batch belongs to.
func (r *groupReader) group(rows lsm.Rows, b *batch, line uint32) *group {
	if b.groups != nil {
		return b.groups.group(line)
	}
	if r.page == nil || r.page.seq != b.seq || line > r.page.last || line < r.page.groups[0].first {
		r.page = readGroupPage(rows, b, line)
	}
	return r.page.group(line)
}

// document returns a line's document with the fields from its group and its span.
func (b *batch) document(g *group, sp *span, line uint32) job.Job {
	doc := g.Document(&sp.State)
	doc.ID, doc.Batch, doc.CreatedAt = job.NewID(b.at, b.seq, int(line)), b.shownID(), b.at
	return doc
}

func (b *batch) flush(o *lsm.Overlay) {
	b.dirty = false
	if !b.gone {
		o.Set(seqKey(countsTable, b.seq), b.batchCounts.encode())
	}
}
