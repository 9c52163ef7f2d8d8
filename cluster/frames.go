package cluster

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// maxFrame bounds a frame: entries of 1 MiB, or one that is larger, and what is around them.
const maxFrame = journal.MaxRecordBytes + 4<<20

// The types of frames.
const (
	raftFrame byte = iota + 1
	groupFrame
	resendFrame
)

// A frame is its length in 4 bytes, its type in one, the time of the sender as a varint, and its content.

// encodeFrame appends a message to b, as a frame.
func encodeFrame(b []byte, m *node.Message) ([]byte, error) {
	start := len(b)
	b = binary.AppendUvarint(append(b, 0, 0, 0, 0, 0), uint64(m.Now))
	var err error
	switch {
	case m.Raft != nil:
		b[start+4] = raftFrame
		b, err = proto.MarshalOptions{}.MarshalAppend(b, m.Raft)
	case m.Group != nil:
		b[start+4] = groupFrame
		b = encodeGroup(b, m.Group)
	default:
		b[start+4] = resendFrame
		b = binary.AppendUvarint(binary.AppendUvarint(b, m.Resend.Origin), m.Resend.Number)
	}
	if n := len(b) - start - 5; err == nil && n > maxFrame {
		err = fmt.Errorf("a frame of %d bytes", n)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-5))
	return b, err
}

// readFrame reads a frame. The message does not share memory with others.
func readFrame(r *bufio.Reader) (m node.Message, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return m, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return m, fmt.Errorf("a frame of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return m, err
	}
	now, size := binary.Uvarint(b)
	if size <= 0 || now > math.MaxInt64 {
		return m, errors.New("a frame without a time")
	}
	m.Now, b = int64(now), b[size:]
	switch head[4] {
	case raftFrame:
		m.Raft = &pb.Message{}
		err = proto.Unmarshal(b, m.Raft)
	case groupFrame:
		m.Group, err = decodeGroup(b)
	case resendFrame:
		d := decoder{b: b}
		m.Resend = &node.Resend{Origin: d.uint(), Number: d.uint()}
		err = d.end()
	default:
		err = fmt.Errorf("a frame of type %d", head[4])
	}
	return m, err
}

func encodeGroup(b []byte, g *node.Group) []byte {
	b = appendBytes(b, []byte(g.Node))
	for _, n := range []uint64{g.Origin, g.Start, uint64(g.Level), g.First, uint64(len(g.Commands))} {
		b = binary.AppendUvarint(b, n)
	}
	for i := range g.Commands {
		c := &g.Commands[i]
		b = append(b, byte(c.Lane))
		b = appendBytes(b, []byte(c.Verb))
		b = appendBytes(b, c.Fields)
		b = appendBytes(b, c.Body)
	}
	return b
}

// decodeGroup is the inverse of encodeGroup. It refuses a group that the leader could not write.
func decodeGroup(b []byte) (*node.Group, error) {
	d := decoder{b: b}
	g := &node.Group{Node: string(d.bytes()), Origin: d.uint(), Start: d.uint(), Level: int(d.uint()), First: d.uint()}
	n := d.uint()
	for range n {
		if d.failed {
			break
		}
		c := node.Command{Lane: journal.Lane(d.byte()), Verb: string(d.bytes()), Fields: d.bytes(), Body: d.bytes()}
		if p := (&journal.Proposal{Lane: c.Lane, Verb: c.Verb, Fields: c.Fields, Body: c.Body, Done: func(uint64, int64, error) {}}); !d.failed && p.Validate() != nil {
			return nil, p.Validate()
		}
		if c.Verb == (job.Announce{}).Verb() || c.Verb == (job.SetMember{}).Verb() { // only a leader makes them
			return nil, fmt.Errorf("a group with the command %s", c.Verb)
		}
		g.Commands = append(g.Commands, c)
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	switch {
	case (g.Start == 0) != (len(g.Commands) > 0):
		return nil, errors.New("a group without commands")
	case g.Start != 0:
		announce := job.Announce{Node: g.Node, Origin: g.Origin, Start: g.Start, Level: g.Level}
		fields, _ := announce.Encode()
		if _, err := job.Decode(announce.Verb(), fields, nil); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func appendBytes(b, value []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// decoder reads the content of a frame.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.failed, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.failed = true
		return 0
	}
	value := d.b[0]
	d.b = d.b[1:]
	return value
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.failed, d.b = true, nil
		return nil
	}
	value := d.b[:n:n]
	d.b = d.b[n:]
	return value
}

func (d *decoder) end() error {
	if d.failed || len(d.b) > 0 {
		return errors.New("a frame that cannot be read")
	}
	return nil
}
