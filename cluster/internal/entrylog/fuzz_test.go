package entrylog

import (
	"bytes"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
)

// FuzzRecord: no record of a log panics, alone or before another one. An entry that is accepted is written as the same
// record, and places that are accepted find a term and a place for each entry.
func FuzzRecord(f *testing.F) {
	verbs := []string{EntryVerb, stateVerb, baseVerb, placesVerb}
	for _, s := range []struct {
		verb         byte
		fields, body string
	}{
		{0, "index=1 term=1 commit=0 type=commands node=n1 origin=0000000000000007 number=1 first=9 n=1", "\n#:create"},
		{0, "index=1 term=1 commit=1 type=empty", ""},
		{0, "index=1 term=1 commit=0 type=members", "\x00\x01"},
		{1, "term=3 vote=1 commit=0", ""},
		{2, "index=9 term=2", ""},
		{3, "through=10 term=3 vote=2 commit=7 first=4 last=12", "term 3 2\nterm 9 3\nplace 4 5\nplace 9 10\n"},
	} {
		f.Add(s.verb, []byte(s.fields), []byte(s.body))
	}
	f.Fuzz(func(t *testing.T, verb byte, fields, body []byte) {
		r := journal.Record{Verb: verbs[int(verb)%len(verbs)], Seq: 20, Fields: fields, Body: body}
		c := newContents()
		if e, err := c.replay(&r); err == nil {
			follows := entry(int(c.last+1), int(max(c.state.Term, c.terms[len(c.terms)-1].term)), 0)
			next := journal.Record{Verb: follows.verb, Seq: 21, Fields: []byte(follows.fields)}
			_, _ = c.replay(&next) // it may have the highest index already
			if e != nil {
				_, commit, _ := decodeEntry(&r)
				again, text := encodeEntry(e, commit)
				back := journal.Record{Fields: again, Body: text}
				same, _, err := decodeEntry(&back)
				testkit.NoError(t, err)
				testkit.Holds(t, same.GetIndex() == e.GetIndex() && same.GetTerm() == e.GetTerm() && same.GetType() == e.GetType() && bytes.Equal(same.Data, e.Data), e, "reads back as", same)
			}
		}
		if c, err := decodeContents(&r); err == nil {
			for _, index := range []uint64{c.first - 1, c.first, c.last} {
				_, ok := c.term(index)
				testkit.Holds(t, ok, "the term of entry", index, "in", string(fields), string(body))
			}
			if c.last >= c.first {
				c.near(c.first)
				c.near(c.last)
				c.cut(c.places[len(c.places)-1].seq)
			}
		}
	})
}
