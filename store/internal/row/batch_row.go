package row

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Batch is a batch. The part that changes is in BatchCounts, which has a separate row.
type Batch struct {
	Seq     uint64
	At      int64
	Lines   uint32
	Frame   job.Frame
	Longest int
	// groups are all groups of a batch whose groups fit into one page, and nil otherwise. Otherwise the pages have
	// rows, so that a lookup of one line reads and decodes only one page. GroupEnds are then the last lines of all
	// these pages but the last.
	Groups    *GroupPage
	GroupEnds []uint32
	Unique    bool // whether lines have unique keys
	Joined    bool // whether several requests created its jobs, so that users do not see it as a batch
	// If the batch is a part of a submission, submission is the submission's seq, SubmissionAt its time, and base the
	// number that the batch's first line has there. submission is 0 for a standalone batch.
	Submission   uint64
	SubmissionAt int64
	Base         int64
	Uneven       bool // whether payloads differ in length, so that each page has a row of their lengths
	// PageEnds are the last lines of all of its pages but the last. They let Apply find pages without reading any:
	// whether a page can be read depends on the disk, and Apply's decisions must not.
	PageEnds []uint32
	BatchCounts
	Dirty bool // on the machine's list of unwritten rows
	Gone  bool // all of its lines are purged
}

// Separate reports whether the moves of each job are found apart: the batch has one line, or users do not see it as a batch. Span.Moved
// and Effect.Before then lead from each move of a job to the previous one. The moves of other batches are in EffectIndexTable.
func (b *Batch) Separate() bool { return b.Lines == 1 || b.Joined }

// BatchCounts is the part of a batch that changes.
type BatchCounts struct {
	Counts  job.Counts
	Details bool // whether any line ever had a detail row
	// Of a standalone batch: when its last job ended, in unix ms, or 0; and 1 + the line that failed
	// first, or 0.
	EndedAt int64
	Failed  int64
	// purged has the outcomes of purged jobs of a standalone batch: FailedBit and CancelledBit.
	Purged uint64
}

func (b *Batch) Encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Int(b.At)
	e.Uint(uint64(b.Lines))
	e.Uint(uint64(b.Frame))
	e.Uint(uint64(b.Longest))
	e.Bool(b.Unique)
	e.Bool(b.Uneven)
	kind := uint64(0)
	if b.Joined {
		kind |= joinedBit
	}
	if b.Submission != 0 {
		kind |= partBit
	}
	e.Uint(kind)
	if b.Submission != 0 {
		e.Uint(b.Submission)
		e.Int(b.SubmissionAt)
		e.Int(b.Base)
	}
	if b.Groups != nil {
		e.Uint(uint64(len(b.Groups.Groups)))
		for i := range b.Groups.Groups {
			b.Groups.Groups[i].Encode(&e)
		}
	} else {
		e.Uint(0)
		encodeEnds(&e, b.GroupEnds)
	}
	encodeEnds(&e, b.PageEnds)
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

func (b *Batch) Id() job.ID { return job.NewID(b.At, b.Seq, 0) }

// ShownID is the id of the batch as users see it: zero if its jobs belong to no batch.
func (b *Batch) ShownID() job.ID {
	switch {
	case b.Joined:
		return job.ID{}
	case b.Submission != 0:
		return job.NewID(b.SubmissionAt, b.Submission, 0)
	}
	return b.Id()
}

// IsBatch reports whether it is the standalone batch with that id.
func (b *Batch) IsBatch(id job.ID) bool { return b.Submission == 0 && b.ShownID() == id }

// DecodeBatch refuses groups that do not tile the lines, because a lookup of a line's group relies on finding one.
func DecodeBatch(seq uint64, value []byte) *Batch {
	d := lsm.Decoder(value)
	b := decodeBatchHead(seq, &d)
	if n := d.Count(GroupBytes); n > 0 {
		b.Groups = decodeGroups(GroupPageName{seq, b.Lines - 1}, 0, n, &d)
	} else if b.GroupEnds = decodeEnds(&d, b.Lines); b.GroupEnds == nil {
		lsm.Contradict("decode", "a batch of %d lines has no groups", b.Lines)
	}
	b.PageEnds = decodeEnds(&d, b.Lines)
	return b
}

// decodeBatchHead decodes the part of a batch's row before the groups.
func decodeBatchHead(seq uint64, d *lsm.Decoder) *Batch {
	b := &Batch{Seq: seq, At: d.Int(), Lines: uint32(d.Uint()), Frame: job.Frame(d.Uint()), Longest: int(d.Uint()), Unique: d.Bool(), Uneven: d.Bool()}
	kind := d.Uint()
	b.Joined = kind&joinedBit != 0
	if kind&partBit != 0 {
		b.Submission, b.SubmissionAt, b.Base = d.Uint(), d.Int(), d.Int()
	}
	return b
}

// Bits of BatchCounts.purged. Jobs that were purged before they ended count as cancelled.
const (
	FailedBit = 1 << iota
	CancelledBit
)

func (b *BatchCounts) Unfinished() int64 {
	return b.Counts[job.Deferred] + b.Counts[job.Pending] + b.Counts[job.Active]
}

// Summary returns the document of a standalone batch.
func (b *Batch) Summary() document.Batch {
	doc := document.Batch{ID: b.Id(), CreatedAt: b.At, Lines: int64(b.Lines), Counts: b.Counts, Status: job.BatchInProgress, Jobs: int64(b.Lines), Since: b.At}
	doc.Ended = doc.Jobs - b.Unfinished()
	if b.Unfinished() == 0 {
		doc.Status = job.BatchStatusOf(b.Counts[job.Failed]+int64(b.Purged&FailedBit), b.Counts[job.Cancelled]+int64(b.Purged&CancelledBit))
		doc.EndedAt = b.EndedAt
	}
	if b.Failed > 0 {
		doc.Failed = b.Id().WithLine(int(b.Failed - 1))
	}
	return doc
}

func EncodeCounts(e *lsm.Encoder, counts *job.Counts) {
	for _, n := range counts[1:] {
		e.Uint(uint64(n))
	}
}

func DecodeCounts(d *lsm.Decoder) (counts job.Counts) {
	for i := range counts[1:] {
		counts[i+1] = int64(d.Uint())
	}
	return counts
}

// The flags of a row of counts.
const (
	hasDetails = 1 << iota // the batch has detail rows
	hasEnd                 // the row has EndedAt, Failed and Purged
)

func (b *BatchCounts) Encode() []byte {
	e := make(lsm.Encoder, 0, 16)
	EncodeCounts(&e, &b.Counts)
	flags := uint64(0)
	if b.Details {
		flags |= hasDetails
	}
	if b.EndedAt != 0 || b.Failed != 0 || b.Purged != 0 {
		flags |= hasEnd
	}
	e.Uint(flags)
	if flags&hasEnd != 0 {
		e.Int(b.EndedAt)
		e.Int(b.Failed)
		e.Uint(b.Purged)
	}
	return e
}

func DecodeBatchCounts(value []byte) (b BatchCounts) {
	d := lsm.Decoder(value)
	b.Counts = DecodeCounts(&d)
	flags := d.Uint()
	b.Details = flags&hasDetails != 0
	if flags&hasEnd != 0 {
		b.EndedAt, b.Failed, b.Purged = d.Int(), d.Int(), d.Uint()
	}
	return b
}

// ReadBatch returns the batch that the command seq made, or nil.
func ReadBatch(r lsm.Rows, seq uint64) *Batch {
	value := r.Get(SeqKey(BatchTable, seq))
	if value == nil {
		return nil
	}
	b := DecodeBatch(seq, value)
	b.BatchCounts = DecodeBatchCounts(r.Get(SeqKey(CountsTable, seq)))
	return b
}

// Size is about how many bytes of memory a batch takes with its place in the cache.
func (b *Batch) Size() int {
	n := 350 + 4*len(b.GroupEnds) + 4*len(b.PageEnds)
	if b.Groups != nil {
		n += b.Groups.Size()
	}
	return n
}

// GroupPageOf returns the lines of the page of groups that a line of a batch belongs to.
func (b *Batch) GroupPageOf(line uint32) (first, last uint32) {
	at, _ := slices.BinarySearch(b.GroupEnds, line)
	if at > 0 {
		first = b.GroupEnds[at-1] + 1
	}
	if last = b.Lines - 1; at < len(b.GroupEnds) {
		last = b.GroupEnds[at]
	}
	return first, last
}

// GroupPageEnds returns the last lines of all pages of groups that have rows.
func (b *Batch) GroupPageEnds() []uint32 {
	if b.Groups != nil {
		return nil
	}
	return append(slices.Clip(b.GroupEnds), b.Lines-1)
}

// ReadBatchHead is ReadBatch without groups, pages and counts: for lookups of many jobs one by one.
func ReadBatchHead(r lsm.Rows, seq uint64) *Batch {
	value := r.Get(SeqKey(BatchTable, seq))
	if value == nil {
		return nil
	}
	d := lsm.Decoder(value)
	return decodeBatchHead(seq, &d)
}

// ReadGroupPage returns the page of groups that a line of a batch belongs to.
func ReadGroupPage(r lsm.Rows, b *Batch, line uint32) *GroupPage {
	if b.Groups != nil {
		return b.Groups
	}
	first, last := b.GroupPageOf(line)
	name := GroupPageName{b.Seq, last}
	value := r.Get(name.Key())
	if value == nil {
		lsm.Contradict("find groups", "lines %d-%d of batch %d have none", first, last, b.Seq)
	}
	return DecodeGroupPage(name, first, value)
}

// GroupReader looks up the groups of lines, for queries and Check. It keeps the page that it read last.
type GroupReader struct{ Page *GroupPage }

// Group returns the group that a line of a batch belongs to.
func (r *GroupReader) Group(rows lsm.Rows, b *Batch, line uint32) *Group {
	if b.Groups != nil {
		return b.Groups.Group(line)
	}
	if r.Page == nil || r.Page.Seq != b.Seq || line > r.Page.Last || line < r.Page.Groups[0].First {
		r.Page = ReadGroupPage(rows, b, line)
	}
	return r.Page.Group(line)
}

// Document returns a line's document with the fields from its group and its span.
func (b *Batch) Document(g *Group, sp *Span, line uint32) job.Job {
	doc := g.Document(&sp.State)
	doc.ID, doc.Batch, doc.CreatedAt = job.NewID(b.At, b.Seq, int(line)), b.ShownID(), b.At
	return doc
}

func (b *Batch) Flush(o *lsm.Overlay) {
	b.Dirty = false
	if !b.Gone {
		o.Set(SeqKey(CountsTable, b.Seq), b.BatchCounts.Encode())
	}
}
