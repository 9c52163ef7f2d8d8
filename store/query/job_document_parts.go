package query

import (
	"math"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Parts says which parts of documents to read, in addition to the fields from the spans and groups of their jobs.
type Parts uint8

// Payloads are in the pages of a batch. Details are the history (and with it the error), output, step and progress of
// its lines.
const (
	Payloads Parts = 1 << iota
	Details
	Brief // instead of Details: the details that a claim shows

	mustRead // fail if a row cannot be read, instead of leaving it out

	Everything = Payloads | Details
)

// Unbounded is room for any document.
const Unbounded = math.MaxInt64

// filling is some documents of one batch, in the order of their lines, while their parts are read.
type filling struct {
	*Reader
	docs   []job.Job
	sizes  []int64 // bytes of payload and details
	unread []bool  // whether a part is unreadable
}

// Fill adds to documents, which are in the order of their lines, the fields that have separate rows. It returns how
// many documents it filled, as far as there is room, and how many bytes they have. If a damaged block of the store
// makes a part of a document unreadable, the document's error says so.
func (r *Reader) Fill(docs []job.Job) (n int, used int64) {
	if len(docs) == 0 {
		return 0, 0
	}
	f := filling{r, docs, make([]int64, len(docs)), make([]bool, len(docs))}
	if r.Parts&Payloads != 0 {
		f.docs = docs[:f.addPayloads()]
	}
	if r.Parts&Details != 0 && r.B.Details && r.Room < Unbounded {
		f.measureDetails()
	}
	for n < len(f.docs) && (n < r.least || used+f.sizes[n] <= r.Room) {
		used += f.sizes[n]
		n++
	}
	f.docs = docs[:n]
	f.addRest()
	for i := range f.docs {
		if f.unread[i] || f.docs[i].Code == job.Damaged {
			f.docs[i].Error = job.DamagedText
		}
	}
	return n, used
}

// eachStretch calls visit with the ranges of documents whose lines are consecutive, until it returns false. Between two
// ranges there may be many rows: other jobs' details, or purged lines without a page.
func (f *filling) eachStretch(visit func(from, to int) bool) {
	docs := f.docs
	for from := 0; from < len(docs); {
		to := from + 1
		for to < len(docs) && docs[to].ID.Line() == docs[to-1].ID.Line()+1 {
			to++
		}
		if !visit(from, to) {
			return
		}
		from = to
	}
}

func (f *filling) line(i int) uint32 { return uint32(f.docs[i].ID.Line()) }

// addPayloads adds payloads as far as there is room. It returns how many documents have their payload, or are known to
// have an unreadable one.
func (f *filling) addPayloads() (n int) {
	var used int64
	full := false
	add := func(_ uint32, payload []byte) bool {
		if used += int64(len(payload)); n >= f.least && used > f.Room {
			full = true
			return false
		}
		f.docs[n].Payload = append([]byte{}, payload...)
		f.sizes[n] += int64(len(payload))
		n++
		return true
	}
	page := func(i int) damagedRow { return pageRow(f.B, f.line(i)) }
	f.eachStretch(func(_, to int) bool {
		for n < to && !full {
			end := n
			for end < to && f.damage(page(end)) == nil {
				end++
			}
			var err error
			if end > n {
				if err = lsm.Try(func() { row.EachPayload(f.V, f.B, f.line(n), f.line(end-1), add) }); err == nil {
					if n < end && !full {
						lsm.Contradict("read payload", "line %d of batch %d is in no page", f.line(n), f.B.Seq)
					}
					continue
				}
				if !lsm.Unreadable(err) {
					panic(err)
				}
				f.setDamage(page(n), err) // add was called with all payloads before
			} else {
				err = f.damage(page(n))
			}
			if f.Parts&mustRead != 0 {
				panic(err)
			}
			for bad := page(n); n < to && page(n) == bad; n++ {
				f.docs[n].Kind, f.unread[n] = job.Nothing, true
			}
		}
		return !full
	})
	return n
}

// measureDetails adds the bytes of details to the sizes, until there is no room for more. Details are measured before
// they are read, because a job may have megabytes of them. Documents after unreadable details are left for the next
// page, which begins there.
func (f *filling) measureDetails() {
	var used int64 // of all documents before at
	at := 0
	pass := func(to int) {
		for ; at < to; at++ {
			used += f.sizes[at]
		}
	}
	f.eachStretch(func(from, to int) bool {
		pass(from)
		first, last := f.line(from), f.line(to-1)
		full := false
		err := lsm.Try(func() {
			f.V.Scan(row.DetailKey(f.B.Seq, first, 0), row.DetailKey(f.B.Seq, last+1, 0), func(key string, value []byte) bool {
				pass(from + int(row.LineOfKey(key)-first))
				f.sizes[at] += int64(len(value))
				full = at >= f.least && used+f.sizes[at] > f.Room
				return !full
			})
		})
		if lsm.Unreadable(err) {
			if next := max(at+1, f.least); next < len(f.docs) {
				f.sizes[next] = f.Room + 1
			}
			return false
		}
		if err != nil {
			panic(err)
		}
		return !full
	})
}

// addRest adds the fields from claims, unique keys and details.
func (f *filling) addRest() {
	v, b, docs := f.V, f.B, f.docs
	claims := f.addClaims(docs)
	f.eachStretch(func(from, to int) bool {
		first := f.line(from)
		each := func(table byte, add func(from, to int)) {
			f.readLines(table, row.Run{b.Seq, first, f.line(to - 1)},
				func(low, high uint32) { add(from+int(low-first), from+int(high-first)+1) },
				func(line uint32, err error) {
					if f.Parts&mustRead != 0 {
						panic(err)
					}
					f.unread[from+int(line-first)] = true
				})
		}
		if b.Unique {
			each(row.LineKeyTable, func(from, to int) { addKeys(v, b, docs[from:to]) })
		}
		switch {
		case !b.Details:
		case f.Parts&Details != 0:
			each(row.DetailTable, func(from, to int) { addDetails(v, b, docs[from:to], claims[from:to]) })
		case f.Parts&Brief != 0:
			each(row.DetailTable, func(from, to int) { addBrief(v, b, docs[from:to], claims[from:to]) })
		}
		return true
	})
}

// Reader reads documents of one batch through a view.
type Reader struct {
	*Queries
	V     lsm.View
	B     *row.Batch
	Parts Parts
	Room  int64 // bytes that the payloads and details of all documents may have together
	least int   // at least this many documents are filled, whatever their size

	groups row.GroupReader
}

// addClaims adds the fields from the claims of the lines, and returns the claims' seqs; 0: none. A waiting line shows
// no claim, though its state may remember one.
func (r *Reader) addClaims(docs []job.Job) (claims []uint64) {
	claims = make([]uint64, len(docs))
	var c *row.Claim
	var of *row.Runner
	var graceAt int64
	var sp row.Span
	for i := range docs {
		doc := &docs[i]
		if !doc.Status.ShowsClaim() {
			continue
		}
		line := uint32(doc.ID.Line())
		if i == 0 || line < sp.First || line > sp.Last {
			sp, _ = row.ReadSpan(r.V, r.B.Seq, line)
		}
		if sp.Claim == 0 {
			continue
		}
		if c == nil || c.Seq != sp.Claim {
			c = row.ReadClaim(r.V, sp.Claim)
			of = row.ReadRunner(r.V, c.Runner)
			graceAt = row.DecodeMeta(r.V.Get(row.MetaKey)).GraceAt
		}
		claims[i] = c.Seq
		doc.Claim, doc.Runner = c.Id(), c.Runner
		if doc.Status != job.Active {
			continue
		}
		t := c.Lease
		if c.JobLeases > 0 {
			if value := r.V.Get(row.JobLeaseKey(c.Seq, r.B.Seq, line)); value != nil {
				o := row.DecodeJobLease(value)
				t = o.Lease.Under(c.Lease)
			}
		}
		doc.DeadlineAt, doc.LeaseMs = sp.Deadline(t.Deadline(&of.Promise, graceAt)), t.Ms
		doc.TickledAt = max(t.At, of.TickledAt)
	}
	return claims
}
