package store

import (
	"errors"
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

	Everything = Payloads | Details
)

// unbounded is room for everything.
const unbounded = math.MaxInt64

// fill adds to documents of one batch, which are in order of lines, what stands in rows of its own. Together their payloads and details
// have at most room bytes, whatever the documents after the first least ones would add; it returns how many were filled and what they
// have.
func (s *Store) fill(v view, b *batch, docs []job.Job, parts Parts, room int64, least int) (n int, used int64) {
	sizes := make([]int64, len(docs))
	if parts&Payloads != 0 {
		docs = docs[:s.fillPayloads(v, b, docs, sizes, room, least)]
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
	defer addDamage(docs)
	eachStretch(docs, func(from, to int) bool {
		if b.unique {
			addKeys(v, b, docs[from:to])
		}
		switch {
		case !b.details:
		case parts&Details != 0:
			addDetails(v, b, docs[from:to], claims[from:to])
		case parts&Brief != 0:
			addBrief(v, b, docs[from:to], claims[from:to])
		}
		return true
	})
	return n, used
}

// addDamage adds the error of those whose payload could not be read.
func addDamage(docs []job.Job) {
	for i := range docs {
		if docs[i].Code == job.Damaged {
			docs[i].Error = job.DamagedText
		}
	}
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

// fillPayloads adds payloads as far as there is room, and their sizes to sizes. It returns how many documents have theirs.
func (s *Store) fillPayloads(v view, b *batch, docs []job.Job, sizes []int64, room int64, least int) (n int) {
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
	eachStretch(docs, func(_, to int) bool {
		for n < to && !full {
			line, end := uint32(docs[n].ID.Line()), n+1
			if docs[n].Code == job.Damaged {
				payload, err := s.payloadOf(b, line)
				add(line, payload)
				if err != nil {
					docs[end-1].Kind, docs[end-1].Payload = job.Nothing, nil
				}
				continue
			}
			for end < to && docs[end].Code != job.Damaged {
				end++
			}
			eachPayload(v, b, line, uint32(docs[end-1].ID.Line()), add)
			if n < end && !full {
				contradict("read payload", "line %d of batch %d is in no page", docs[n].ID.Line(), b.seq)
			}
		}
		return !full
	})
	return n
}

// payloadOf returns the payload of one line, or why it cannot be read. It has a view of its own: one that has met damage reports it again
// when it is closed.
func (s *Store) payloadOf(b *batch, line uint32) (payload []byte, err error) {
	first, _ := b.pageOf(line)
	page := damagedPage{b.seq, first}
	if known, ok := s.damagedPages.Load(page); ok {
		return nil, known.(error)
	}
	v := s.view()
	defer v.discard()
	defer func() {
		if errors.Is(err, ErrDamaged) && !errors.Is(err, errContradiction) {
			s.damagedPages.Store(page, err)
		}
	}()
	defer catch(&err)
	eachPayload(v, b, line, line, func(_ uint32, p []byte) bool {
		payload = append([]byte{}, p...)
		return true
	})
	return payload, nil
}

// measureDetails adds the bytes of details to sizes, until there is no room for more. A job may have megabytes of them, so that they are
// measured before they are read.
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
		v.scan(detailKey(b.seq, first, 0), detailKey(b.seq, last+1, 0), func(key string, value []byte) bool {
			pass(from + int(lineOfKey(key)-first))
			sizes[at] += int64(len(value))
			full = at >= least && used+sizes[at] > room
			return !full
		})
		return !full
	})
}
