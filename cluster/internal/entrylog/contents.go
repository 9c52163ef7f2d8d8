package entrylog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/journal"
)

const (
	// placeEvery is the number of bytes of entries from one place to the next: a reader scans as much to find an entry.
	placeEvery = 1 << 20
	// placesEvery is the number of bytes of entries after which a record of places is due: a start reads as much.
	placesEvery = 32 << 20
)

// State is what Raft must not forget: its term and its vote in this term. Commit is the highest index that the node knew
// to be committed, which may be too low.
type State struct{ Term, Vote, Commit uint64 }

// contents is what the log knows of its records.
type contents struct {
	through uint64 // the seq of the last record that is included here
	state   State
	first   uint64  // index of the first entry
	last    uint64  // index of the last entry; first-1 if there is none
	open    bool    // entries before the first one were removed, and a reader without places does not know where they end
	terms   []start // by index; the first one covers the entry before the first
	places  []place // by index
	since   int64   // bytes of entries since the last place
}

// start is the first entry of a term, or the first one that is known.
type start struct{ index, term uint64 }

// place is an entry, and the seq of its record. The records from there on are entries in order, with other records between
// them, up to the next place.
type place struct{ index, seq uint64 }

func newContents() *contents { return &contents{first: 1, terms: []start{{0, 0}}} }

// term returns the term of an entry, or of the one before the first, and false if the log does not have it.
func (c *contents) term(index uint64) (term uint64, ok bool) {
	if index+1 < c.first || index > c.last {
		return 0, false
	}
	n := len(c.terms) - 1
	for c.terms[n].index > index {
		n--
	}
	return c.terms[n].term, true
}

// put adds an entry, after it has dropped those from its index on.
func (c *contents) put(seq, index, term uint64, size int) error {
	if c.open && (index < c.first || c.last < c.first) {
		c.setBase(index-1, 0)
	}
	if index < c.first || index > c.last+1 {
		return fmt.Errorf("entry %d follows entries %d to %d", index, c.first, c.last)
	}
	if index <= c.last {
		if index <= c.state.Commit {
			return fmt.Errorf("entry %d is written again, and the entries up to %d were committed", index, c.state.Commit)
		}
		c.places = slices.DeleteFunc(c.places, func(p place) bool { return p.index >= index })
		c.terms = slices.DeleteFunc(c.terms, func(s start) bool { return s.index >= index })
		c.since = placeEvery
	}
	if last := c.terms[len(c.terms)-1].term; term < last {
		return fmt.Errorf("entry %d has term %d, and the one before it has %d", index, term, last)
	} else if term > last {
		c.terms = append(c.terms, start{index, term})
	}
	if c.since += int64(size); c.since >= placeEvery || len(c.places) == 0 {
		c.places, c.since = append(c.places, place{index, seq}), 0
	}
	c.last = index
	return nil
}

// setBase drops all entries, because the state of the node includes those up to index.
func (c *contents) setBase(index, term uint64) {
	c.first, c.last, c.terms, c.places = index+1, index, []start{{index, term}}, nil
}

// replay adds a record that is on disk. It returns the entry if the record has one.
func (c *contents) replay(r *journal.Record) (e *pb.Entry, err error) {
	c.through = r.Seq
	var commit uint64
	switch r.Verb {
	case EntryVerb:
		if e, commit, err = decodeEntry(r); err == nil {
			err = c.put(r.Seq, e.GetIndex(), e.GetTerm(), len(e.Data))
		}
	case stateVerb:
		var n []uint64
		if n, err = decodeNumbers(r, "term", "vote", "commit"); err == nil {
			commit, err = n[2], c.vote(n[0], n[1])
		}
	case baseVerb:
		var n []uint64
		if n, err = decodeNumbers(r, "index", "term"); err != nil {
			break
		}
		if commit = n[0]; commit < c.state.Commit {
			err = fmt.Errorf("the base includes the entries up to %d, and those up to %d were committed", commit, c.state.Commit)
		}
		c.setBase(n[0], n[1])
	case placesVerb, journal.MarkVerb:
	default:
		err = errors.New("the verb is unknown")
	}
	c.state.Commit = max(c.state.Commit, commit)
	return e, err
}

// vote sets the term and the vote. Neither a term nor a vote is ever taken back.
func (c *contents) vote(term, vote uint64) error {
	if s := c.state; term < s.Term || term == s.Term && vote != s.Vote && s.Vote != 0 {
		return fmt.Errorf("it follows term %d with a vote for %d", s.Term, s.Vote)
	}
	c.state.Term, c.state.Vote = term, vote
	return nil
}

// cut drops the entries whose records are before seq.
func (c *contents) cut(seq uint64) {
	n := 0
	for n < len(c.places) && c.places[n].seq < seq {
		n++
	}
	if n == 0 || n == len(c.places) {
		return // the last place has the newest entries, which Cut keeps
	}
	c.places = slices.Delete(c.places, 0, n)
	c.first = c.places[0].index
	for len(c.terms) > 1 && c.terms[1].index < c.first {
		c.terms = slices.Delete(c.terms, 0, 1)
	}
}

// whole returns an error if committed entries are missing at the end.
func (c *contents) whole() error {
	if c.state.Commit > c.last {
		return fmt.Errorf("the commit index is %d, and the last entry is %d", c.state.Commit, c.last)
	}
	return nil
}

// near returns the last place at or before an index, and the index of the next place, or the one after the last entry.
func (c *contents) near(index uint64) (at place, until uint64) {
	n, found := slices.BinarySearchFunc(c.places, index, func(p place, index uint64) int {
		return cmp.Compare(p.index, index)
	})
	if !found {
		n--
	}
	if n+1 < len(c.places) {
		return c.places[n], c.places[n+1].index
	}
	return c.places[n], c.last + 1
}

// encode returns the fields and the body of a record of places.
func (c *contents) encode() (fields, body []byte) {
	fields = encodeNumbers("through", c.through, "term", c.state.Term, "vote", c.state.Vote, "commit", c.state.Commit, "first", c.first, "last", c.last)
	for _, s := range c.terms {
		body = fmt.Appendf(body, "term %d %d\n", s.index, s.term)
	}
	for _, p := range c.places {
		body = fmt.Appendf(body, "place %d %d\n", p.index, p.seq)
	}
	return fields, body
}

// decodeContents is the inverse of encode.
func decodeContents(r *journal.Record) (*contents, error) {
	n, err := decodeNumbers(r, "through", "term", "vote", "commit", "first", "last")
	if err != nil {
		return nil, err
	}
	c := &contents{through: n[0], state: State{n[1], n[2], n[3]}, first: n[4], last: n[5]}
	for line := range bytes.Lines(r.Body) {
		var a, b uint64
		var word string
		if _, err := fmt.Sscanf(string(line), "%s %d %d\n", &word, &a, &b); err != nil {
			return nil, fmt.Errorf("line %.40q: %w", line, err)
		}
		switch word {
		case "term":
			c.terms = append(c.terms, start{a, b})
		case "place":
			c.places = append(c.places, place{a, b})
		default:
			return nil, fmt.Errorf("line %.40q", line)
		}
	}
	if c.through >= r.Seq || !c.valid() {
		return nil, errors.New("its terms and places do not fit its entries")
	}
	return c, nil
}

// valid reports whether the terms and places are in order and fit the entries.
func (c *contents) valid() bool {
	if c.first == 0 || c.last+1 < c.first || len(c.terms) == 0 || c.terms[0].index >= c.first {
		return false
	}
	for i, s := range c.terms[1:] {
		if before := c.terms[i]; s.index <= before.index || s.term <= before.term || s.index > c.last {
			return false
		}
	}
	if len(c.places) == 0 || c.last < c.first {
		return len(c.places) == 0 && c.last < c.first
	}
	for i, p := range c.places[1:] {
		if before := c.places[i]; p.index <= before.index || p.seq <= before.seq {
			return false
		}
	}
	newest := c.places[len(c.places)-1]
	return c.places[0].index == c.first && newest.index <= c.last && newest.seq <= c.through
}
