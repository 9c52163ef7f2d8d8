package query

import (
	"errors"
	"math"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// BatchFilter says which batches a list shows. A zero field matches all batches.
type BatchFilter struct {
	Status       job.BatchStatus
	Client, Type string
	Scope        job.Scope // only batches whose jobs are all in it
	Name         string
	NamePrefix   string            // the list is in the order of names, and then of ids
	Newest       bool              // the list is in the opposite order of ids; not with NamePrefix
	Meta         map[string]string // names to texts, or to the decimal digits of integers
	Attributed   bool              // only batches with attributes, which are found without looking at others
	Limit        int               // of documents, at least 1
	After        BatchPlace        // zero, or next of the previous page
}

// BatchPlace is the place of a batch in a list. Name is its name in a list with NamePrefix, and otherwise "". With the
// name a list can continue after a batch that no longer exists.
type BatchPlace struct {
	ID   job.ID
	Name string
}

// maxOtherNames bounds the names outside of the scope that a list by name passes. ErrPrefixTooWide: there are more.
const maxOtherNames = 20_000

var ErrPrefixTooWide = errors.New("too many batches of others have names that begin like this; give more of the name")

// IsZero reports whether the place is zero, and so names no batch.
func (p BatchPlace) IsZero() bool { return p.ID.IsZero() }

// maxBatchRows bounds the batches that are read for one page, and the queues of their groups. maxBatchReadBytes bounds
// the bytes that are read, and maxBatchBytes the texts that are shown. Escapes may turn one byte into six.
const (
	maxBatchRows      = 5000
	maxBatchReadBytes = 2 << 20
	maxBatchBytes     = 256 << 10
)

// Batches returns a page of the batches that match a filter, in the order of their ids or names. If next is not zero, more may
// follow: pass it as After to get the next page. A page may be empty though more follow, because a request reads a
// bounded number of batches. With a name or meta it finds batches through indexes.
func (q *Queries) Batches(f BatchFilter) (docs []document.Batch, next BatchPlace, err error) {
	return q.BatchesWithin(f, maxBatchRows)
}

// BatchesWithin is Batches with a bound on the number of batches that it may read.
func (q *Queries) BatchesWithin(f BatchFilter, rows int) (docs []document.Batch, next BatchPlace, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	l := batchLister{Queries: q, v: v, f: &f, rows: rows, left: maxBatchReadBytes, bytes: maxBatchBytes}
	if f.NamePrefix != "" {
		err = l.walkNames()
	} else {
		l.walk()
	}
	return l.docs, l.next, err
}

// batchLister collects a page.
type batchLister struct {
	*Queries
	v     lsm.View
	f     *BatchFilter
	rows  int // how many more may be read
	left  int // how many more bytes of rows may be read
	bytes int // how many more bytes of texts the page may have
	docs  []document.Batch
	next  BatchPlace
}

// Take adds a batch to the page if it matches, and reports whether the page continues. If not, next is the batch.
func (l *batchLister) Take(doc *document.Batch, client, typ string) bool {
	f, of := l.f, doc.Submission
	matches := (f.Status == 0 || doc.Status == f.Status) && (f.Client == "" || f.Client == client) && (f.Type == "" || f.Type == typ) &&
		(f.Name == "" || of != nil && of.Name == f.Name)
	if matches && of != nil {
		matches = hasMeta(of.Meta, f.Meta)
	} else if matches {
		matches = len(f.Meta) == 0
	}
	if matches {
		if l.docs = append(l.docs, *doc); of != nil {
			l.bytes -= len(of.Name) + len(of.Meta) + len(of.Traceparent) + len(of.Tracestate) + len(of.Baggage)
		}
	}
	return l.passed(doc.ID) && len(l.docs) < f.Limit && l.bytes > 0
}

// passed counts a batch that was read. The next page begins after it if this page ends here. passed reports whether
// more batches may be read.
func (l *batchLister) passed(id job.ID) (more bool) {
	l.rows--
	l.next.ID = id
	return l.rows > 0 && l.left > 0
}

// passedOther is passed for what the list does not show. With a scope, the place where the next page begins then is the id of
// nothing.
func (l *batchLister) passedOther(id job.ID) (more bool) {
	if !l.f.Scope.All() {
		id = id.WithLine(job.MaxLines - 1)
	}
	return l.passed(id)
}

func hasMeta(meta job.BatchMeta, want map[string]string) bool {
	found := 0
	for name, value := range meta.All() {
		if text, ok := want[name]; ok && text == value.String() {
			found++
		}
	}
	return found == len(want)
}

// walkNames walks over the names that begin with the prefix.
func (l *batchLister) walkNames() error {
	prefix := row.BatchNamePrefix(l.f.NamePrefix)
	from := prefix
	if !l.f.After.IsZero() {
		seqs, name := l.live.Seqs(l.f.After.ID), l.f.After.Name
		seq := seqs.All()[0]
		if name == "" { // it may be a submission that is being deleted
			s := memory.RowOf(seqs, l.f.After.ID, func(seq uint64) *row.Submission { return row.ReadSubmission(l.v, seq) })
			if s == nil || !l.submissionInScope(l.v, &l.f.Scope, s) {
				return job.BatchNotFound
			}
			seq, name = s.Seq, s.Name
		}
		from = max(prefix, row.BatchNameKey(name, seq+1))
	}
	for others := maxOtherNames; ; {
		key, ok := l.seek(from, lsm.After(prefix))
		if !ok {
			l.next = BatchPlace{}
			return nil
		}
		seq, name := row.SeqOfBatchIndex(key), row.NameOfBatchIndex(key)
		from = row.BatchNameKey(name, seq+1)
		if s := row.ReadSubmission(l.v, seq); !l.submissionInScope(l.v, &l.f.Scope, s) {
			if others--; others == 0 { // a next page would begin with a name of others
				return ErrPrefixTooWide
			}
			continue
		}
		l.next.Name = name
		if !l.Look(seq, true) {
			return nil
		}
	}
}

// seek returns the first key in the range from … to (exclusive), and seekDown the last.
func (l *batchLister) seek(from, to string) (key string, ok bool) {
	l.v.Scan(from, to, func(found string, _ []byte) bool {
		key, ok = found, true
		return false
	})
	return key, ok
}

func (l *batchLister) seekDown(from, to string) (key string, ok bool) {
	l.v.ScanDown(from, to, func(found string, _ []byte) bool {
		key, ok = found, true
		return false
	})
	return key, ok
}

// walk walks over batches in the order of their ids, or in the opposite order: over submissions that the indexes name, and over
// standalone batches if the filter may match any.
func (l *batchLister) walk() {
	from := l.start()
	if !l.f.After.IsZero() {
		seqs := l.live.Seqs(l.f.After.ID)
		from = l.following(seqs.All()[0])
	}
	// A standalone batch lacks a name and meta, and is never paused.
	lists, indexed := l.lists(), l.f.Attributed || l.f.Name != "" || len(l.f.Meta) > 0 || l.f.Status == job.BatchPaused
	none := l.behind()
	submission, plain := none, none
	for first := true; ; first = false {
		if first || l.isBefore(submission, from) {
			var more bool
			if submission, more = l.nextOf(lists, from); !more {
				return
			}
		}
		if !indexed && (first || l.isBefore(plain, from)) {
			plain = l.nextBatch(from)
		}
		if from = submission; l.isBefore(plain, from) {
			from = plain
		}
		if from == none {
			l.next = BatchPlace{}
			return
		}
		if !l.Look(from, from == submission) {
			return
		}
		from = l.following(from)
	}
}

// start and behind return the seqs that come before all batches of the list, and after them. No batch has them.
func (l *batchLister) start() uint64 {
	if l.f.Newest {
		return math.MaxUint64
	}
	return 0
}

func (l *batchLister) behind() uint64 { return math.MaxUint64 - l.start() }

// isBefore reports whether a seq comes before another one in the list.
func (l *batchLister) isBefore(a, b uint64) bool { return a != b && (a < b) != l.f.Newest }

// following returns the next seq in the order of the list.
func (l *batchLister) following(seq uint64) uint64 {
	if l.f.Newest {
		return seq - 1
	}
	return seq + 1
}

// closest returns the first seq in the order of the list, from one onwards, of the keys that are a prefix and a seq.
func (l *batchLister) closest(prefix string, from uint64) uint64 {
	at, found := row.BatchIndexKey(prefix, from), ""
	ok := false
	if l.f.Newest {
		found, ok = l.seekDown(prefix, at+"\x00")
	} else {
		found, ok = l.seek(at, lsm.After(prefix))
	}
	if !ok {
		return l.behind()
	}
	return lsm.U64At(found, len(prefix))
}

// Look looks at the submission, or otherwise the batch, of a seq, and reports whether the page continues.
func (l *batchLister) Look(seq uint64, submission bool) (more bool) {
	if submission {
		s := row.ReadSubmission(l.v, seq)
		l.left -= s.Size()
		if !l.submissionInScope(l.v, &l.f.Scope, s) {
			return l.passedOther(s.Id())
		}
		if s.Deleting {
			return l.passed(s.Id())
		}
		doc := submissionDocument(s, l.v)
		return l.Take(&doc, s.Client, s.Typ)
	}
	b := row.ReadBatch(l.v, seq)
	l.left -= b.Size()
	if b.Joined || b.Submission != 0 {
		return l.passedOther(b.Id())
	}
	if !l.inScope(b) {
		return l.passedOther(b.Id())
	}
	doc := b.Summary()
	var name row.QueueName
	if l.f.Client != "" || l.f.Type != "" {
		name = l.nameOf(b)
	}
	return l.Take(&doc, name.Client, name.Typ)
}

// inScope is linesInScope for a standalone batch. It counts the pages that it may read.
func (l *batchLister) inScope(b *row.Batch) bool {
	if l.f.Scope.All() {
		return true
	}
	l.rows -= len(b.GroupEnds)
	return l.linesInScope(l.v, &l.f.Scope, b, 0, b.Lines-1)
}

// nameOf returns the queue of the first group of a batch whose queue still exists. A queue that has lost all of the
// batch's jobs may have been deleted.
func (l *batchLister) nameOf(b *row.Batch) (name row.QueueName) {
	var groups row.GroupReader
	for line, page := uint32(0), (*row.GroupPage)(nil); line < b.Lines; {
		g := groups.Group(l.v, b, line)
		if groups.Page != page {
			page = groups.Page
			l.left -= page.Size()
		}
		if name = l.QueueName(l.v, g.QueueID); name.Typ != "" {
			break
		}
		l.rows--
		line = g.Last + 1
	}
	return name
}

// nextBatch returns the first batch from a seq onwards, or behind if there is none.
func (l *batchLister) nextBatch(from uint64) uint64 { return l.closest(string(row.BatchTable), from) }

// lists returns the prefixes of the index keys that a submission of the list must have: one prefix of each list.
func (l *batchLister) lists() (lists [][]string) {
	if l.f.Name != "" {
		lists = append(lists, []string{row.BatchNamePrefix(l.f.Name) + "\x00"})
	}
	for name, text := range l.f.Meta {
		lists = append(lists, metaIndexes(name, text))
	}
	if l.f.Status != 0 {
		lists = append(lists, []string{string([]byte{row.BatchIndexTable, row.ByBatchStatus, byte(l.f.Status)})})
	}
	if len(lists) == 0 {
		lists = append(lists, []string{string(row.SubmissionTable)})
	}
	return lists
}

// metaIndexes returns the prefixes of the index keys of a pair whose value is a text, or an integer with these digits.
func metaIndexes(name, text string) (prefixes []string) {
	key := row.BatchMetaKey(job.MetaPair(name, job.MetaValue{Text: text}), 0)
	prefixes = append(prefixes, key[:len(key)-8])
	if v, ok := job.ParseMetaInteger(text); ok {
		key = row.BatchMetaKey(job.MetaPair(name, v), 0)
		prefixes = append(prefixes, key[:len(key)-8])
	}
	return prefixes
}

// nextOf returns the first submission, from a seq onwards, that is in all lists, or behind if there is none. more is false if the
// page ends before one is found.
func (l *batchLister) nextOf(lists [][]string, from uint64) (seq uint64, more bool) {
	for agreed := 0; agreed < len(lists); {
		first := l.behind()
		for _, prefix := range lists[agreed] {
			if at := l.closest(prefix, from); l.isBefore(at, first) {
				first = at
			}
		}
		switch {
		case first == l.behind():
			return first, true
		case first == from:
			agreed++
		default:
			if l.rows--; l.rows <= 0 && agreed > 0 { // it is in the first list, and the next page continues after it
				l.next.ID = row.ReadSubmission(l.v, from).Id()
				return from, false
			}
			from, agreed = first, 0
		}
	}
	return from, true
}
