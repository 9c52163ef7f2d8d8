package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
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
		if id.String() != test.want {
			t.Errorf("id of %d, %d, %d is %s, want %s", test.at, test.seq, test.line, id, test.want)
		}
		if id.At() != test.at || uint64(id.LowSeq()) != test.seq || id.Line() != test.line {
			t.Errorf("%s: at %d seq %d line %d, want %d, %d, %d", id, id.At(), id.LowSeq(), id.Line(), test.at, test.seq, test.line)
		}
		back, err := ParseID(id.String())
		if err != nil || back != id {
			t.Errorf("parse %s: %v, %v", id, back, err)
		}
		if first := id.WithLine(0); first.Line() != 0 || first.LowSeq() != id.LowSeq() || first.At() != id.At() {
			t.Errorf("%s with line 0 is %s", id, first)
		}
	}
	if (ID{}).IsZero() != true || NewID(1, 0, 0).IsZero() {
		t.Error("IsZero")
	}
}

func TestIDSorts(t *testing.T) {
	ids := []ID{NewID(1, 1, 0), NewID(1, 1, 1), NewID(1, 1, MaxLines-1), NewID(1, 2, 0), NewID(1, 1<<40-1, 0), NewID(2, 3, 0), NewID(1<<40, 0, 0)}
	if !slices.IsSortedFunc(ids, func(a, b ID) int { return bytes.Compare(a[:], b[:]) }) {
		t.Error("bytes do not sort by time, seq, line")
	}
	if !slices.IsSortedFunc(ids, func(a, b ID) int { return strings.Compare(a.String(), b.String()) }) {
		t.Error("texts do not sort by time, seq, line")
	}
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
		"another shard":  "0184e410-a1eb-7001-8000-0000cb000001",
		"another high":   "0184e410-a1eb-7100-8000-0000cb000001",
		"variant 0":      "0184e410-a1eb-7000-0000-0000cb000001",
		"variant 3":      "0184e410-a1eb-7000-c000-0000cb000001",
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := ParseID(text); !errors.Is(err, ErrBadID) {
				t.Errorf("%q: %v, %v", text, id, err)
			}
		})
	}
}

// TestCaseOfIDs: an id is read in either case and written in lower case. The journal only has the lower-case spelling.
func TestCaseOfIDs(t *testing.T) {
	const good = "0184e410-a1eb-7000-8000-0000cb000001"
	for _, text := range []string{good, strings.ToUpper(good), "0184E410-a1eB-7000-8000-0000CB000001"} {
		if id, err := ParseID(text); err != nil || id.String() != good {
			t.Errorf("%s: %s, %v", text, id, err)
		}
		if !IsUUID(text) {
			t.Errorf("%s is no UUID", text)
		}
		if _, err := parseCanonicalID([]byte(text)); (err == nil) != (text == good) {
			t.Errorf("%s in the journal: %v", text, err)
		}
	}
}

func TestIDInJSON(t *testing.T) {
	id := NewID(1670273606123, 812, 7)
	text, err := json.Marshal(map[string]ID{"id": id})
	if err != nil || string(text) != `{"id":"0184e410-a1eb-7000-8000-0000cb000007"}` {
		t.Errorf("%s, %v", text, err)
	}
	var back map[string]ID
	if err := json.Unmarshal(text, &back); err != nil || back["id"] != id {
		t.Errorf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"id":"x"}`), &back); !errors.Is(err, ErrBadID) {
		t.Errorf("%v", err)
	}
}

func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"0184e410-a1eb-7000-8000-0000cb000001", "ffffffff-ffff-7000-bfff-ffffffffffff", "0184E410-19eb-7000-8000-0000cb000001", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		fromBytes, bytesErr := ParseID([]byte(text))
		if id != fromBytes || err != bytesErr {
			t.Fatalf("%q is %v, %v, and as bytes %v, %v", text, id, err, fromBytes, bytesErr)
		}
		if err != nil {
			return
		}
		if id.String() != strings.ToLower(text) {
			t.Fatalf("%q parses to %s", text, id)
		}
		if again := NewID(id.At(), uint64(id.LowSeq()), id.Line()); again != id {
			t.Fatalf("%s is made of %d, %d, %d, which make %s", id, id.At(), id.LowSeq(), id.Line(), again)
		}
	})
}
