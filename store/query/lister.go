package query

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Filter says which jobs a list shows: the jobs whose documents have the values of its fields. The zero value of a
// field matches all jobs.
type Filter struct {
	Status       job.Status
	Client, Type string
	Scope        job.Scope         // only jobs of it
	Meta         map[string]string // pairs that a job's meta must include
	Runner       string            // of an active or ended job
	Claim        job.ID            // of an active or ended job
	Batch        job.ID            // with or without attributes
	// CreatedAfter is inclusive, CreatedBefore exclusive; unix ms.
	CreatedAfter, CreatedBefore int64
	UpdatedAfter, UpdatedBefore int64 // of the last move, likewise
	Order                       Order
	After                       JobPlace // the list begins after this place; no job need be there
	Limit                       int      // of documents, at least 1
	Parts                       Parts    // of the documents

	Rows  int   // in tests instead of maxListRows
	Read  int   // in tests instead of MaxListReadBytes
	Bytes int64 // in tests instead of maxListBytes

	Sorted int // in tests instead of maxSortedSpans
}

// A page bounds the cost of one request. It ends early beyond one of these bounds, and the next page continues there.
const (
	// maxListRows bounds the batches and spans that are looked at, whether or not they hold a job of the list. They
	// take a few milliseconds, or a hundred if the claim of each must be read for its runner.
	maxListRows = 10_000
	// MaxListReadBytes bounds the rows of batches, groups and claims that are read. Their sizes differ much, because a
	// group has up to some kilobytes of meta. Decoding and comparing them takes some milliseconds.
	MaxListReadBytes = 2 << 20
	// maxListBytes bounds the payloads and details of a page, as a claim's payloads are bounded. A page holds at least
	// one document.
	maxListBytes = job.MaxClaimBytes

	// spanWindow, keyWindow and batchWindow are how many rows are read ahead, because one iterator reads all tables.
	spanWindow  = 64
	keyWindow   = 64
	batchWindow = 256
	// At most unfilledDocuments are completed together, so that a page that is cut short has not read much more than it
	// shows.
	unfilledDocuments = 256
	// maxLists bounds the lists by queue and status that are merged in the order of ids. Beyond it the batches are walked.
	// maxMovedQueues bounds the queues of a list by time, of which each has up to seven lists. Beyond it there is no such list.
	maxLists       = 64
	maxMovedQueues = 1000
	// maxRunnerClaims and maxRunnerRuns bound the claims whose runs are sorted. Beyond them the runner's jobs are
	// searched for like any other jobs.
	maxRunnerClaims = 1000
	maxRunnerRuns   = 10_000
)

// lister makes one page.
type lister struct {
	*Queries
	v     lsm.View
	f     Filter
	from  place  // the first place to look at; in the order Oldest and Newest without the time
	claim uint64 // the seq of the filter's claim
	batch uint64 // the seq of the filter's batch or submission, in the order Updated

	holder  uint32     // the queue of the span that has the first place, if the list is not in the order Oldest
	holdsAs job.Status // its status

	rows   int   // how many more may be looked at
	left   int   // how many more bytes of rows of batches, groups and claims may be read
	room   int64 // for payloads and details
	docs   []job.Job
	filled int        // how many of docs are filled
	b      *row.Batch // of the docs that are not filled yet
	last   JobPlace   // everything up to it has been looked at; zero at first
	full   bool       // docs has as many documents as requested, and more follow
	cut    bool       // there was no room for more docs
	err    error      // there can be no such page

	spans  []row.Span
	groups row.GroupReader
	names
}

// names are the names that a page has looked up: of queues, and of the runners of claims.
type names struct {
	queues map[uint32]row.QueueName
	claims map[uint64]string
}

// place is where a span or a job is in the order of a list.
type place struct {
	at int64 // the time of the last move in the order Updated, else 0
	row.Position
}

// down reports whether the last positions come first.
func (l *lister) down() bool { return l.f.Order != Oldest }

// compare returns a negative number if a comes before b in the list.
func (l *lister) compare(a, b place) int {
	n := cmp.Or(cmp.Compare(a.at, b.at), row.ComparePositions(a.Position, b.Position))
	if l.down() {
		return -n
	}
	return n
}

// Group reports whether the jobs of a group may match, by all conditions of the filter on the attributes of their
// create.
func (l *lister) Group(g *row.Group) bool {
	name := l.queue(g.QueueID)
	if l.f.Client != "" && l.f.Client != name.Client || l.f.Type != "" && l.f.Type != name.Typ {
		return false
	}
	if !l.f.Scope.Has(name.Client, name.Typ) {
		return false
	}
	for key, want := range l.f.Meta {
		if value, ok := g.Meta.Get(key); !ok || value != want {
			return false
		}
	}
	return true
}

// span reports whether the jobs of a span match, by all conditions of the filter on their state.
func (l *lister) span(sp *row.Span) bool {
	if sp.Status == job.Purged || l.f.Status != 0 && sp.Status != l.f.Status {
		return false
	}
	if sp.UpdatedAt < l.f.UpdatedAfter || l.f.UpdatedBefore != 0 && sp.UpdatedAt >= l.f.UpdatedBefore {
		return false
	}
	if l.f.Claim.IsZero() && l.f.Runner == "" {
		return true
	}
	claim := sp.ShownClaim()
	return claim != 0 && (l.f.Claim.IsZero() || claim == l.claim) && (l.f.Runner == "" || l.runner(claim) == l.f.Runner)
}

func (l *lister) queue(id uint32) row.QueueName {
	name, ok := l.queues[id]
	if !ok {
		name = l.QueueName(l.v, id)
		l.queues[id] = name
	}
	return name
}

func (l *lister) runner(claim uint64) string {
	name, ok := l.claims[claim]
	if !ok {
		if value := l.v.Get(row.SeqKey(row.ClaimTable, claim)); value != nil {
			name = row.RunnerOfClaim(value)
			l.left -= len(value)
		}
		l.claims[claim] = name
		l.rows--
	}
	return name
}

// ReadBatch reads the row of a batch and the row of its counts. It returns nil if the batch does not exist.
func (l *lister) readBatch(seq uint64) *row.Batch {
	b := row.ReadBatch(l.v, seq)
	if b != nil {
		l.Read(b)
	}
	return b
}

// Read counts a batch that was read.
func (l *lister) Read(b *row.Batch) {
	l.rows--
	l.left -= b.Size()
}

// goOn records that everything up to a line has been looked at, and reports whether the page may continue. at is the time of the
// place in the order Updated, else 0.
func (l *lister) goOn(b *row.Batch, line uint32, at int64) bool {
	l.last = JobPlace{job.NewID(b.At, b.Seq, int(line)), at}
	return l.rows > 0 && l.left > 0
}

// groupOf returns the group that a line of a batch belongs to, and counts the bytes that it reads for this.
func (l *lister) groupOf(b *row.Batch, line uint32) *row.Group {
	before := l.groups.Page
	g := l.groups.Group(l.v, b, line)
	if read := l.groups.Page; read != before {
		l.left -= read.Size()
	}
	return g
}

// beyond reports whether b, and so all batches after it in the order of ids, is beyond the end of the list.
func (l *lister) beyond(b *row.Batch) bool {
	if l.down() {
		return b.At < l.f.CreatedAfter
	}
	return l.f.CreatedBefore != 0 && b.At >= l.f.CreatedBefore
}

// Take looks at a span, or a part of one, whose group matches, and reports whether to continue.
func (l *lister) Take(b *row.Batch, g *row.Group, sp row.Span) bool {
	l.rows--
	passed, at := sp.Last, int64(0)
	if l.down() {
		passed = sp.First
	}
	if l.f.Order == Updated {
		at = sp.UpdatedAt
	}
	sp.First, sp.Last = l.clip(b, at, sp.First, sp.Last)
	if l.span(&sp) && sp.First <= sp.Last {
		if l.b != nil && (l.b.Seq != b.Seq || l.turns(&sp)) && !l.Fill() {
			return false
		}
		l.b = b
		name := l.queue(g.QueueID)
		for i := range sp.Last - sp.First + 1 {
			line := sp.First + i
			if l.down() {
				line = sp.Last - i
			}
			if len(l.docs) == l.f.Limit {
				l.full = true
				return false
			}
			if len(l.docs)-l.filled == unfilledDocuments && !l.Fill() {
				return false
			}
			doc := b.Document(g, &sp, line)
			doc.Client, doc.Type = name.Client, name.Typ
			l.docs = append(l.docs, doc)
		}
	}
	return l.goOn(b, passed, at)
}

// clip returns the lines of first … last of a batch that do not come before the page.
func (l *lister) clip(b *row.Batch, at int64, first, last uint32) (uint32, uint32) {
	switch {
	case b.Seq != l.from.Seq || at != l.from.at:
	case l.down():
		last = min(last, l.from.Line)
	default:
		first = max(first, l.from.Line)
	}
	return first, last
}

// turns reports whether a span of the batch of the unfilled documents is not below them, which its moves can bring about.
func (l *lister) turns(sp *row.Span) bool {
	n := len(l.docs)
	return l.f.Order == Updated && n > l.filled && sp.Last >= uint32(l.docs[n-1].ID.Line())
}

// Fill completes the documents. If there is no room for all of them, it drops the rest and ends the page.
func (l *lister) Fill() bool {
	rest := l.docs[l.filled:]
	if len(rest) == 0 {
		return true
	}
	r := Reader{Queries: l.Queries, V: l.v, B: l.b, Parts: l.f.Parts, Room: l.room}
	if l.filled == 0 {
		r.least = 1
	}
	fill := r.Fill
	if l.down() {
		fill = r.fillDown
	}
	n, used := fill(rest)
	l.room -= used
	l.filled += n
	l.docs = l.docs[:l.filled]
	l.cut = n < len(rest)
	return !l.cut
}

// takeLines looks at lines first … last of a group that matches.
func (l *lister) takeLines(b *row.Batch, g *row.Group, first, last uint32) bool {
	first, last = l.clip(b, 0, first, last)
	for first <= last {
		l.spans = l.spans[:0]
		add := func(sp row.Span) bool {
			sp.First, sp.Last = max(sp.First, first), min(sp.Last, last)
			l.spans = append(l.spans, sp)
			return len(l.spans) < spanWindow
		}
		if l.down() {
			row.EachSpanDown(l.v, b.Seq, first, last, add)
		} else {
			row.EachSpan(l.v, b.Seq, first, last, add)
		}
		for _, sp := range l.spans {
			if !l.Take(b, g, sp) {
				return false
			}
		}
		switch n := len(l.spans); {
		case n == 0 || l.down() && l.spans[n-1].First == first:
			return true
		case l.down():
			last = l.spans[n-1].First - 1
		default:
			first = l.spans[n-1].Last + 1
		}
	}
	return true
}

// fillDown is Fill for documents in the opposite order.
func (r *Reader) fillDown(docs []job.Job) (n int, used int64) {
	for some := len(docs); n < len(docs); {
		some = min(some, len(docs)-n)
		up := slices.Clone(docs[n : n+some])
		slices.Reverse(up)
		filled, bytes := r.Fill(up)
		switch {
		case filled == some:
			slices.Reverse(up)
			copy(docs[n:], up)
			n, used = n+some, used+bytes
			r.Room, r.least = r.Room-bytes, 0
		case some == 1:
			return n, used
		default: // there is room for the last lines, which come first, and they may be as many
			some = min(some/2, max(filled, 1))
		}
	}
	return n, used
}
