package store

import (
	"math"

	"github.com/daybookq/daybook/job"
)

// Parts says which parts of documents are wanted, beside what the spans and groups of their jobs tell. What is not wanted is not read.
type Parts uint8

// Payloads are the pages of a batch; Details the history (and so the error), output, step and progress of its lines.
const (
	Payloads Parts = 1 << iota
	Details
	Brief // in place of Details, what a claim shows of them

	whole // fail if something cannot be read, in place of leaving it out

	Everything = Payloads | Details
)

// unbounded is room for everything.
const unbounded = math.MaxInt64

// fill adds to documents of one batch, which are in order of lines, what stands in rows of its own. Together their payloads and details
// have at most room bytes, whatever the documents after the first least ones would add; it returns how many were filled and what they
// have. What cannot be read, because a block of the store is damaged, a document says in place of its error.
func (s *Store) fill(v view, b *batch, docs []job.Job, parts Parts, room int64, least int) (n int, used int64) {
	sizes := make([]int64, len(docs))
	unread := make([]bool, len(docs))
	if parts&Payloads != 0 {
		docs = docs[:s.fillPayloads(v, b, docs, parts, sizes, unread, room, least)]
	}
	if parts&Details != 0 && b.details && room < unbounded {
		measureDetails(v, b, docs, sizes, room, least)
	}
	for n < len(docs) && (n < least || used+sizes[n] <= room) {
		used += sizes[n]
		n++
	}
	docs = docs[:n]
	claims := s.addClaims(v, b, docs)
	eachStretch(docs, func(from, to int) bool {
		first := uint32(docs[from].ID.Line())
		each := func(table byte, add func(from, to int)) {
			s.readLines(table, b.seq, first, uint32(docs[to-1].ID.Line()),
				func(low, high uint32) { add(from+int(low-first), from+int(high-first)+1) },
				func(line uint32, err error) {
					if parts&whole != 0 {
						panic(err)
					}
					unread[from+int(line-first)] = true
				})
		}
		if b.unique {
			each(lineKeyTable, func(from, to int) { addKeys(v, b, docs[from:to]) })
		}
		switch {
		case !b.details:
		case parts&Details != 0:
			each(detailTable, func(from, to int) { addDetails(v, b, docs[from:to], claims[from:to]) })
		case parts&Brief != 0:
			each(detailTable, func(from, to int) { addBrief(v, b, docs[from:to], claims[from:to]) })
		}
		return true
	})
	for i := range docs {
		if unread[i] || docs[i].Code == job.Damaged {
			docs[i].Error = job.DamagedText
		}
	}
	return n, used
}

// eachStretch calls visit with the ranges of docs whose lines follow each other, until it returns false. What lies between two of them
// may be long: other jobs' details, or purged lines without a page.
func eachStretch(docs []job.Job, visit func(from, to int) bool) {
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

// fillPayloads adds payloads as far as there is room, and their sizes to sizes. It returns how many documents have theirs, or are known in
// unread to have one that cannot be read.
func (s *Store) fillPayloads(v view, b *batch, docs []job.Job, parts Parts, sizes []int64, unread []bool, room int64, least int) (n int) {
	var used int64
	full := false
	add := func(_ uint32, payload []byte) bool {
		if used += int64(len(payload)); n >= least && used > room {
			full = true
			return false
		}
		docs[n].Payload = append([]byte{}, payload...)
		sizes[n] += int64(len(payload))
		n++
		return true
	}
	line := func(i int) uint32 { return uint32(docs[i].ID.Line()) }
	page := func(i int) damagedRow {
		first, _ := b.pageOf(line(i))
		return damagedRow{pageTable, b.seq, first}
	}
	eachStretch(docs, func(_, to int) bool {
		for n < to && !full {
			end := n
			for end < to && s.damage(pageTable, b.seq, page(end).line) == nil {
				end++
			}
			var err error
			if end > n {
				if err = try(func() { eachPayload(v, b, line(n), line(end-1), add) }); err == nil {
					if n < end && !full {
						contradict("read payload", "line %d of batch %d is in no page", line(n), b.seq)
					}
					continue
				}
				if !unreadable(err) {
					panic(err)
				}
				s.damaged.Store(page(n), err) // add was called with all payloads before
			} else {
				err = s.damage(pageTable, b.seq, page(n).line)
			}
			if parts&whole != 0 {
				panic(err)
			}
			for bad := page(n); n < to && page(n) == bad; n++ {
				docs[n].Kind, unread[n] = job.Nothing, true
			}
		}
		return !full
	})
	return n
}

// measureDetails adds the bytes of details to sizes, until there is no room for more. A job may have megabytes of them, so that they are
// measured before they are read. What comes after details that cannot be read is left for the next page, which begins there.
func measureDetails(v view, b *batch, docs []job.Job, sizes []int64, room int64, least int) {
	var used int64 // of all documents before at
	at := 0
	pass := func(to int) {
		for ; at < to; at++ {
			used += sizes[at]
		}
	}
	eachStretch(docs, func(from, to int) bool {
		pass(from)
		first, last := uint32(docs[from].ID.Line()), uint32(docs[to-1].ID.Line())
		full := false
		err := try(func() {
			v.scan(detailKey(b.seq, first, 0), detailKey(b.seq, last+1, 0), func(key string, value []byte) bool {
				pass(from + int(lineOfKey(key)-first))
				sizes[at] += int64(len(value))
				full = at >= least && used+sizes[at] > room
				return !full
			})
		})
		if unreadable(err) {
			if next := max(at+1, least); next < len(docs) {
				sizes[next] = room + 1
			}
			return false
		}
		if err != nil {
			panic(err)
		}
		return !full
	})
}
