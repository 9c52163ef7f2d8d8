package entrylog

import (
	"bytes"
	"fmt"
	"strconv"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/journal"
)

// The verbs of the records.
const (
	EntryVerb  = "entry"
	stateVerb  = "state"
	baseVerb   = "base"
	placesVerb = "places"
)

// The types of entries. A change of the members is a message of Raft, in binary.
const (
	commands = "commands"
	members  = "members"
	empty    = "empty"
)

// encodeEntry returns the fields and the body of an entry's record. The header of commands, their first line, is a part of
// the fields, so that a reader of the file sees it.
func encodeEntry(e *pb.Entry, commit uint64) (fields, body []byte) {
	fields = fmt.Appendf(make([]byte, 0, 160), "index=%d term=%d commit=%d type=", e.GetIndex(), e.GetTerm(), commit)
	switch {
	case e.GetType() != pb.EntryNormal:
		return append(fields, members...), e.Data
	case len(e.Data) == 0:
		return append(fields, empty...), nil
	}
	header, body, _ := bytes.Cut(e.Data, []byte("\n"))
	fields = append(append(fields, commands...), ' ')
	return append(fields, header...), body
}

// decodeEntry is the inverse of encodeEntry. The entry does not share memory with the record.
func decodeEntry(r *journal.Record) (e *pb.Entry, commit uint64, err error) {
	var index, term uint64
	var typ string
	rest := r.Fields
	for _, key := range []string{"index", "term", "commit", "type"} {
		var value []byte
		value, rest, _ = bytes.Cut(rest, []byte(" "))
		value, ok := bytes.CutPrefix(value, []byte(key+"="))
		switch {
		case !ok:
			err = fmt.Errorf("%s is missing", key)
		case key == "index":
			index, err = number(value)
		case key == "term":
			term, err = number(value)
		case key == "commit":
			commit, err = number(value)
		default:
			typ = string(value)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	e = &pb.Entry{Index: proto.Uint64(index), Term: proto.Uint64(term)}
	switch typ {
	case members:
		e.Type, e.Data = pb.EntryConfChangeV2.Enum(), bytes.Clone(r.Body)
	case commands:
		e.Data = make([]byte, 0, len(rest)+1+len(r.Body))
		e.Data = append(append(append(e.Data, rest...), '\n'), r.Body...)
	case empty:
	default:
		return nil, 0, fmt.Errorf("type is %q", typ)
	}
	return e, commit, nil
}

// encodeNumbers returns fields with numbers.
func encodeNumbers(pairs ...any) []byte {
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "%s=%d", pairs[i], pairs[i+1])
	}
	return b
}

// decodeNumbers reads fields with numbers, in the order of keys.
func decodeNumbers(r *journal.Record, keys ...string) ([]uint64, error) {
	fields := bytes.Split(r.Fields, []byte(" "))
	if len(fields) != len(keys) {
		return nil, fmt.Errorf("it has %d fields, and needs %d", len(fields), len(keys))
	}
	numbers := make([]uint64, len(keys))
	for i, key := range keys {
		value, ok := bytes.CutPrefix(fields[i], []byte(key+"="))
		var err error
		if numbers[i], err = number(value); !ok || err != nil {
			return nil, fmt.Errorf("field %d is %q, and %s is needed", i+1, fields[i], key)
		}
	}
	return numbers, nil
}

func number(text []byte) (uint64, error) { return strconv.ParseUint(string(text), 10, 64) }
