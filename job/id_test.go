package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/job/internal/testkit"
)

func TestID(t *testing.T) {
	for _, test := range []struct {
		at   int64
		seq  uint64
		line int
		want string
	}{
		{0, 0, 0, "00000000-0000-7000-8000-000000000000"},
		{1670273606123, 812, 0, "0184e410-a1eb-7000-8000-0000cb000000"},
		{1670273606123, 812, 1, "0184e410-a1eb-7000-8000-0000cb000001"},
		{1670273606123, 812, MaxLines - 1, "0184e410-a1eb-7000-8000-0000cb3fffff"},
		{1<<48 - 1, 1<<40 - 1, MaxLines - 1, "ffffffff-ffff-7000-bfff-ffffffffffff"},
	} {
		id := NewID(test.at, test.seq, test.line)
		testkit.Equal(t, id.String(), test.want, "id of", test.at, test.seq, test.line, id)
		testkit.Holds(t, id.At() == test.at && uint64(id.LowSeq()) == test.seq && id.Line() == test.line, id, "at",
			id.At(), "seq", id.LowSeq(), "line", id.Line(), "want", test.at, test.seq, test.line)
		back, err := ParseID(id.String())
		testkit.Holds(t, err == nil && back == id, "parse", id, back, err)
		first := id.WithLine(0)
		testkit.Holds(t, first.Line() == 0 && first.LowSeq() == id.LowSeq() && first.At() == id.At(), id, "with line 0 is", first)
	}
	testkit.Holds(t, (ID{}).IsZero() && !NewID(1, 0, 0).IsZero(), "IsZero")
}

func TestIDSorts(t *testing.T) {
	ids := []ID{NewID(1, 1, 0), NewID(1, 1, 1), NewID(1, 1, MaxLines-1), NewID(1, 2, 0), NewID(1, 1<<40-1, 0), NewID(2, 3, 0), NewID(1<<40, 0, 0)}
	testkit.Holds(t, slices.IsSortedFunc(ids, func(a, b ID) int { return bytes.Compare(a[:], b[:]) }), "bytes do not sort by time, seq, line")
	testkit.Holds(t, slices.IsSortedFunc(ids, func(a, b ID) int { return strings.Compare(a.String(), b.String()) }),
		"texts do not sort by time, seq, line")
}

func TestParseIDRefuses(t *testing.T) {
	const good = "0184e410-a1eb-7000-8000-0000cb000001"
	for name, text := range map[string]string{
		"nothing":        "",
		"braces":         "{" + good + "}",
		"no dashes":      strings.ReplaceAll(good, "-", ""),
		"dash elsewhere": "0184e41-0a1eb-7000-8000-0000cb000001",
		"one short":      good[:35],
		"one long":       good + "0",
		"one dash more":  "0184e410-a1eb-7000-8000-0000cb0000-1",
		"two more":       "0184e410-a1eb-7000-8000-00-0cb00-001",
		"not hex":        "0184e41g" + good[8:],
		"a space":        "0184e41 " + good[8:],
		"version 4":      "0184e410-a1eb-4000-8000-0000cb000001",
		"variant 0":      "0184e410-a1eb-7000-0000-0000cb000001",
		"variant 3":      "0184e410-a1eb-7000-c000-0000cb000001",
	} {
		t.Run(name, func(t *testing.T) {
			id, err := ParseID(text)
			testkit.Holds(t, errors.Is(err, ErrBadID), text, id, err)
		})
	}
}

// TestShards: an id of another shard can be read. It is another id, also with another line.
func TestShards(t *testing.T) {
	own := NewID(1670273606123, 812, 1)
	for _, text := range []string{"0184e410-a1eb-7001-8000-0000cb000001", "0184e410-a1eb-7100-8000-0000cb000001", "0184e410-a1eb-7fff-8000-0000cb000001"} {
		id := testkit.Must(ParseID(text))(t)
		testkit.Equal(t, id.String(), text, "the same text")
		testkit.Holds(t, id != own && id.WithLine(0) != own.WithLine(0) && id.WithLine(0).WithLine(1) == id, id)
		testkit.Holds(t, id.At() == own.At() && id.LowSeq() == own.LowSeq() && id.Line() == 1, id)
	}
}

// TestCaseOfIDs: an id is read in either case and written in lower case. The journal only has the lower-case spelling.
func TestCaseOfIDs(t *testing.T) {
	const good = "0184e410-a1eb-7000-8000-0000cb000001"
	for _, text := range []string{good, strings.ToUpper(good), "0184E410-a1eB-7000-8000-0000CB000001"} {
		id := testkit.Must(ParseID(text))(t)
		testkit.Holds(t, id.String() == good, text, id)
		testkit.Holds(t, IsUUID(text), text, "is no UUID")
		_, err := parseCanonicalID([]byte(text))
		testkit.Equal(t, err == nil, text == good, text, "in the journal", err)
	}
}

func TestIDInJSON(t *testing.T) {
	id := NewID(1670273606123, 812, 7)
	text, err := json.Marshal(map[string]ID{"id": id})
	testkit.Holds(t, err == nil && string(text) == `{"id":"0184e410-a1eb-7000-8000-0000cb000007"}`, string(text), err)
	var back map[string]ID
	err = json.Unmarshal(text, &back)
	testkit.Holds(t, err == nil && back["id"] == id, back, err)
	testkit.Failed(t, json.Unmarshal([]byte(`{"id":"x"}`), &back), ErrBadID)
}

func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"0184e410-a1eb-7000-8000-0000cb000001", "ffffffff-ffff-7000-bfff-ffffffffffff", "0184E410-19eb-7000-8000-0000cb000001", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		fromBytes, bytesErr := ParseID([]byte(text))
		testkit.MustHold(t, id == fromBytes && err == bytesErr, text, "is", id, err, "and as bytes", fromBytes, bytesErr)
		if err != nil {
			return
		}
		testkit.MustEqual(t, id.String(), strings.ToLower(text), text, "parses to", id)
		testkit.MustEqual(t, NewID(id.At(), uint64(id.LowSeq()), id.Line()), id, "is made of", id.At(), id.LowSeq(), id.Line(), "which make")
	})
}
