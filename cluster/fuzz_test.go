package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// sent are messages of each kind.
func sent() []node.Message {
	commands := node.Commands{
		{Lane: journal.Control, Verb: "claim", Fields: []byte("max=1")}, {Lane: journal.Bulk, Verb: "create", Fields: []byte("n=1"), Body: []byte("line\n")},
	}
	return []node.Message{
		{Now: 1, Raft: &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: proto.Uint64(1), To: proto.Uint64(2), Term: proto.Uint64(3), Commit: proto.Uint64(4)}},
		{Now: 2, Raft: &pb.Message{Type: pb.MsgApp.Enum(), From: proto.Uint64(1), To: proto.Uint64(2), Term: proto.Uint64(3), Entries: []*pb.Entry{
			{Index: proto.Uint64(5), Term: proto.Uint64(3), Data: []byte("node=n1 origin=0000000000000007 number=1 first=9 n=1\n")},
		}}},
		{Now: 3, Group: &node.Group{Node: "n1", Origin: 7, First: 1, Commands: commands}},
		{Now: 4, Group: &node.Group{Node: "n1", Origin: 7, Start: 2, Level: 1}},
		{Now: 5, Resend: &node.Resend{Origin: 7, Number: 9}},
	}
}

// FuzzFrame: no bytes of another node panic, and a frame that is accepted reads back as itself. It allocates at most what its
// length says, and the leader can write each group. Raft then trusts the messages of members.
func FuzzFrame(f *testing.F) {
	for _, m := range sent() {
		f.Add(testkit.Must(encodeFrame(nil, &m))(f))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readFrame(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		again, err := readFrame(bufio.NewReader(bytes.NewReader(testkit.Must(encodeFrame(nil, &m))(t))))
		testkit.NoError(t, err)
		testkit.Holds(t, proto.Equal(m.Raft, again.Raft) && reflect.DeepEqual(m.Group, again.Group) && reflect.DeepEqual(m.Resend, again.Resend) && m.Now == again.Now, m, "reads back as", again)
		if g := m.Group; g != nil && g.Start == 0 {
			for _, c := range g.Commands {
				r := journal.Record{Verb: c.Verb, Seq: 1, Fields: c.Fields, Body: c.Body}
				testkit.NoError(t, r.Validate())
			}
		}
	})
}

// TestForgedGroups: a group that no process makes is refused before it gets to the leader, which could not write it.
func TestForgedGroups(t *testing.T) {
	for want, g := range map[string]*node.Group{
		"level":                               {Node: "n1", Origin: 7, Start: 2, Level: -1},
		"needs a node, an origin":             {Origin: 7, Start: 2, Level: 1},
		"a group with the command announce":   {Node: "n1", Origin: 7, First: 1, Commands: node.Commands{{Verb: "announce", Fields: []byte("x=y")}}},
		"a group with the command member":     {Node: "n1", Origin: 7, First: 1, Commands: node.Commands{{Verb: "member", Fields: []byte("x=y")}}},
		"a group without commands":            {Node: "n1", Origin: 7, First: 1},
		"does not consist of 1 to 32 letters": {Node: "n1", Origin: 7, First: 1, Commands: node.Commands{{Verb: "A"}}},
	} {
		testkit.Fails(decodeGroup(encodeGroup(nil, g)))(t, want)
	}
}

// FuzzCall: no bytes of another node panic as a question, as an answer, as the list of the files of a base, or as a first line.
// A text is read up to its limit only, and no file of a base is outside its directory.
func FuzzCall(f *testing.F) {
	for _, v := range []any{
		question{Op: opAdd, Member: job.Member{ID: 7, Node: "n2", Address: "127.0.0.1:1", Role: job.Learner}, Level: 1}, question{Op: opEngine, Content: []byte("{}")},
		reply{Error: "no node leads", Word: "no_leader"}, reply{Status: job.ClusterStatus{Node: "n1", Term: 3}, Clock: 5}, offerOf{ID: "x", Index: 9, Term: 1, Files: []baseFile{{"MANIFEST-1", 7}}},
	} {
		var b bytes.Buffer
		testkit.NoError(f, writeText(&b, testkit.Must(json.Marshal(v))(f)))
		f.Add(b.Bytes())
	}
	h := hello{"00000000000000c1", 1, 2, "n1", callKind, 1}
	f.Add([]byte(h.String()))
	f.Add([]byte("99999999999\n"))
	f.Add([]byte("-1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if text, err := readText(bufio.NewReader(bytes.NewReader(b)), maxCall); err == nil {
			testkit.Holds(t, len(text) <= maxCall && len(text) < len(b), len(text), "of", len(b), "bytes")
			var q question
			if json.Unmarshal(text, &q) == nil {
				testkit.Must(json.Marshal(q))(t)
			}
			var r reply
			if json.Unmarshal(text, &r) == nil {
				testkit.Must(json.Marshal(r))(t)
			}
		}
		if o, err := readOffer(bufio.NewReader(bytes.NewReader(b))); err == nil {
			for _, file := range o.Files {
				testkit.Equal(t, filepath.Dir(filepath.Join("base", "store", file.Name)), filepath.Join("base", "store"), fmt.Sprintf("%q", file.Name))
			}
		}
		if h, err := parseHello(string(b)); err == nil {
			testkit.Equal(t, testkit.Must(parseHello(h.String()))(t), h)
		}
	})
}
