package node

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/daybookq/daybook/journal"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Group is consecutive commands of a process, as it sends them to the leader. Nobody changes a group.
type Group struct {
	Node   string
	Origin uint64
	Start  uint64 // only of an announcement, which has no commands
	Level  int    // only of an announcement: the newest level that the program knows
	First  uint64 // the number of the first command
	Commands
}

// Commands are what a group carries.
type Commands []Command

// Command is one command of a group.
type Command struct {
	Lane         journal.Lane
	Verb         string
	Fields, Body []byte
}

// bytes returns about the bytes of the commands in an entry.
func (c Commands) bytes() (n int) {
	for i := range c {
		n += recordBytes + len(c[i].Fields) + len(c[i].Body)
	}
	return n
}

// recordBytes is about the text of a record beside its fields and its body.
const recordBytes = 128

// Header is the first line of an entry: which commands it has, and where they are in the log.
type Header struct {
	Node   string
	Origin uint64
	Start  uint64 // only of an announcement
	Number uint64 // of the first command
	Seq    uint64 // of the first command
	N      int    // commands
	// Refused are the commands, from 0 on, that the leader has refused for the reason Why. A mark is in their place.
	Refused []int
	Why     string
}

func (h *Header) append(b []byte) []byte {
	b = fmt.Appendf(b, "node=%s origin=%016x", h.Node, h.Origin)
	if h.Start != 0 {
		b = fmt.Appendf(b, " start=%d", h.Start)
	} else {
		b = fmt.Appendf(b, " number=%d", h.Number)
	}
	b = fmt.Appendf(b, " first=%d n=%d", h.Seq, h.N)
	for i, n := range h.Refused {
		b = fmt.Appendf(b, "%s%d", map[bool]string{true: " refused=", false: ","}[i == 0], n)
	}
	if h.Why != "" {
		b = fmt.Appendf(b, " why=%s", h.Why)
	}
	return append(b, '\n')
}

// ParseHeader reads the header of an entry of commands, and returns it and the records after it.
func ParseHeader(data []byte) (h Header, records []byte, err error) {
	line, records, found := bytes.Cut(data, []byte("\n"))
	if !found {
		return h, nil, errors.New("an entry without a header")
	}
	number := func(text string) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(text, 10, 64)
		}
		return n
	}
	for field := range strings.FieldsSeq(string(line)) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "node":
			h.Node = value
		case "origin":
			var id []byte
			if id, err = hex.DecodeString(value); err == nil && len(id) != 8 {
				err = fmt.Errorf("origin=%s", value)
			}
			for _, b := range id {
				h.Origin = h.Origin<<8 | uint64(b)
			}
		case "start":
			h.Start = number(value)
		case "number":
			h.Number = number(value)
		case "first":
			h.Seq = number(value)
		case "n":
			h.N = int(number(value))
		case "refused":
			for text := range strings.SplitSeq(value, ",") {
				h.Refused = append(h.Refused, int(number(text)))
			}
		case "why":
			h.Why = value
		default:
			err = fmt.Errorf("unknown field %s", key)
		}
		if err != nil {
			return h, nil, fmt.Errorf("header of an entry %.200q: %w", line, err)
		}
	}
	if h.Node == "" || h.Origin == 0 || h.Seq == 0 || h.N < 1 || (h.Start == 0) == (h.Number == 0) {
		return h, nil, fmt.Errorf("header of an entry %.200q: it lacks fields", line)
	}
	return h, records, nil
}

// place returns where a command of an entry is, the first one being 0. e may be nil, for an entry without an index yet.
func (h *Header) place(e *pb.Entry, i int) *journal.Place {
	p := &journal.Place{Node: h.Node}
	if h.Start == 0 {
		p.Origin, p.Number = h.Origin, h.Number+uint64(i)
	}
	if i == h.N-1 {
		p.Index, p.Term = e.GetIndex(), e.GetTerm()
	}
	return p
}

// Records returns the records of an entry, which may have none. They share memory with it.
func Records(e *pb.Entry) (list []journal.Record, err error) {
	if e.GetType() != pb.EntryNormal {
		_, r, err := decodeChange(e)
		return []journal.Record{r}, err
	}
	if len(e.Data) == 0 {
		return nil, nil
	}
	_, list, err = commandsOf(e)
	return list, err
}

// commandsOf returns the header of an entry with commands, and the records.
func commandsOf(e *pb.Entry) (h Header, list []journal.Record, err error) {
	h, text, err := ParseHeader(e.Data)
	if err != nil {
		return h, nil, err
	}
	for i := range h.N {
		r, size, err := journal.ReadRecord(text)
		if err != nil {
			return h, nil, fmt.Errorf("command %d of %d: %w", i+1, h.N, err)
		}
		if r.Seq != h.Seq+uint64(i) {
			return h, nil, fmt.Errorf("command %d of %d has seq %d, and the first one has %d", i+1, h.N, r.Seq, h.Seq)
		}
		r.Place = h.place(e, i)
		list, text = append(list, r), text[size:]
	}
	if len(text) > 0 {
		return h, nil, fmt.Errorf("%d bytes follow its %d commands", len(text), h.N)
	}
	return h, list, nil
}
