package node

import (
	"reflect"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// FuzzEntry: no entry panics, the records of one that is accepted follow each other, and its header reads back as it was.
func FuzzEntry(f *testing.F) {
	two := journal.AppendRecord(nil, &journal.Record{Verb: "create", Salt: 7, Seq: 9, At: 1, Fields: []byte("n=1"), Body: []byte("line\n")})
	two = journal.AppendRecord(two, &journal.Record{Verb: journal.MarkVerb, Salt: 7, Seq: 10, At: 1})
	for _, h := range []Header{
		{Node: "n1", Origin: 7, Number: 3, Seq: 9, N: 2, Refused: []int{1}, Why: "disk_full"}, {Node: "n1", Origin: 7, Start: 2, Seq: 9, N: 2}, {Node: "n1", Origin: 7, Number: 3, Seq: 9, N: 1 << 60},
	} {
		f.Add(false, append(h.append(nil), two...))
	}
	fields, _ := job.SetMember{Member: job.Member{ID: 7, Node: "n2", Address: "127.0.0.1:1", Role: job.Voter}}.Encode()
	change := pb.ConfChangeV2{Context: journal.AppendRecord(nil, &journal.Record{Verb: "member", Salt: 7, Seq: 9, At: 1, Fields: fields})}
	f.Add(true, testkit.Must(proto.Marshal(&change))(f))
	f.Fuzz(func(t *testing.T, members bool, data []byte) {
		e := &pb.Entry{Index: proto.Uint64(5), Term: proto.Uint64(2), Data: data}
		if members {
			e.Type = pb.EntryConfChangeV2.Enum()
		}
		list, err := Records(e)
		if err != nil {
			return
		}
		for i, r := range list {
			testkit.NoError(t, r.Validate())
			testkit.Holds(t, r.Seq == list[0].Seq+uint64(i) && (r.Place.Index == 5) == (i == len(list)-1), r.Seq, "is command", i, "of", len(list))
		}
		if members || len(data) == 0 {
			return
		}
		h, text, err := ParseHeader(data)
		testkit.NoError(t, err)
		testkit.Equal(t, len(list), h.N)
		again, rest, err := ParseHeader(append(h.append(nil), text...))
		testkit.NoError(t, err)
		testkit.Holds(t, reflect.DeepEqual(again, h) && len(rest) == len(text), h, "reads back as", again)
	})
}
