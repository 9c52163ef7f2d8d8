package query

import (
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
	After                       job.ID // the list begins after this id; no job need have it
	Limit                       int    // of documents, at least 1
	Parts                       Parts  // of the documents

	Rows  int   // in tests instead of maxListRows
	Read  int   // in tests instead of MaxListReadBytes
	Bytes int64 // in tests instead of maxListBytes
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
	// maxLists bounds the lists by queue and status that are merged. maxListQueues bounds the queues that are searched
	// for these lists while Apply waits. Beyond them the batches are walked.
	maxLists      = 64
	maxListQueues = 1000
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
	from  row.Position // the first position to look at
	claim uint64       // the seq of the filter's claim

	rows   int   // how many more may be looked at
	left   int   // how many more bytes of rows of batches, groups and claims may be read
	room   int64 // for payloads and details
	docs   []job.Job
	filled int        // how many of docs are filled
	b      *row.Batch // of the docs that are not filled yet
	last   job.ID     // everything up to it has been looked at; zero at first
	full   bool       // docs has as many documents as requested, and more follow
	cut    bool       // there was no room for more docs

	spans  []row.Span
	groups row.GroupReader
	names
}

// names are the names that a page has looked up: of queues, and of the runners of claims.
type names struct {
	queues map[uint32]row.QueueName
	claims map[uint64]string
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

// goOn records that everything up to a line has been looked at, and reports whether the page may continue.
func (l *lister) goOn(b *row.Batch, line uint32) bool {
	l.last = job.NewID(b.At, b.Seq, int(line))
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

// tooLate reports whether b, and so all later batches, was created too late for the list.
func (l *lister) tooLate(b *row.Batch) bool {
	return l.f.CreatedBefore != 0 && b.At >= l.f.CreatedBefore
}

// Take looks at a span, or a part of one, whose group matches, and reports whether to continue.
func (l *lister) Take(b *row.Batch, g *row.Group, sp row.Span) bool {
	l.rows--
	if b.Seq == l.from.Seq {
		sp.First = max(sp.First, l.from.Line)
	}
	if l.span(&sp) && sp.First <= sp.Last {
		if l.b != nil && l.b.Seq != b.Seq && !l.Fill() {
			return false
		}
		l.b = b
		name := l.queue(g.QueueID)
		for line := sp.First; line <= sp.Last; line++ {
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
	return l.goOn(b, sp.Last)
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
	n, used := r.Fill(rest)
	l.room -= used
	l.filled += n
	l.docs = l.docs[:l.filled]
	l.cut = n < len(rest)
	return !l.cut
}

// takeLines looks at lines first … last of a group that matches.
func (l *lister) takeLines(b *row.Batch, g *row.Group, first, last uint32) bool {
	if b.Seq == l.from.Seq {
		first = max(first, l.from.Line)
	}
	for first <= last {
		l.spans = l.spans[:0]
		row.EachSpan(l.v, b.Seq, first, last, func(sp row.Span) bool {
			l.spans = append(l.spans, sp)
			return len(l.spans) < spanWindow
		})
		if len(l.spans) == 0 {
			break
		}
		for _, sp := range l.spans {
			sp.First, sp.Last = max(sp.First, first), min(sp.Last, last)
			if !l.Take(b, g, sp) {
				return false
			}
			first = sp.Last + 1
		}
	}
	return true
}
