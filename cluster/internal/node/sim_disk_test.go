package node

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// disk is the log of a machine.
type disk struct {
	m           *machine
	first, term uint64      // the index before the first entry, and its term
	log         []*pb.Entry // log[i] has index first+i+1
	hard        *pb.HardState
}

func (d *disk) clone() *disk {
	return &disk{d.m, d.first, d.term, slices.Clone(d.log), proto.Clone(d.hard).(*pb.HardState)}
}

func (d *disk) InitialState() (*pb.HardState, *pb.ConfState, error) {
	cluster := d.m.store.Cluster()
	return d.hard, ConfState(cluster.Members), nil
}

func (d *disk) Entries(lo, hi, size uint64) ([]*pb.Entry, error) {
	if lo <= d.first {
		return nil, raft.ErrCompacted
	}
	list := d.log[lo-d.first-1 : hi-d.first-1 : hi-d.first-1]
	bytes := uint64(0)
	for i, e := range list {
		if bytes += uint64(len(e.Data)); i > 0 && bytes > size {
			return list[:i:i], nil
		}
	}
	return list, nil
}

func (d *disk) Term(i uint64) (uint64, error) {
	switch {
	case i < d.first:
		return 0, raft.ErrCompacted
	case i == d.first:
		return d.term, nil
	case i > d.first+uint64(len(d.log)):
		return 0, raft.ErrUnavailable
	}
	return d.log[i-d.first-1].GetTerm(), nil
}
func (d *disk) LastIndex() (uint64, error)  { return d.first + uint64(len(d.log)), nil }
func (d *disk) FirstIndex() (uint64, error) { return d.first + 1, nil }

// Snapshot returns a note of the state on the disk.
func (d *disk) Snapshot() (*pb.Snapshot, error) {
	s := &d.m.saved.cluster
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(s.Index), Term: new(s.Term), ConfState: ConfState(s.Members)}}, nil
}

// cut removes entries that the state on the disk has.
func (d *disk) cut(index uint64) {
	if index > d.first && index <= d.first+uint64(len(d.log)) {
		d.term, _ = d.Term(index)
		d.log = slices.Clone(d.log[index-d.first:])
		d.first = index
	}
}

// put carries out a write, with its first n entries. Like package entrylog, it says of no entry that it is committed before it has
// that entry.
func (d *disk) put(w *Write, n int, hard bool) {
	if len(w.Entries) > 0 {
		at := w.Entries[0].GetIndex() - d.first - 1
		d.log = append(d.log[:at:at], w.Entries[:n]...)
	}
	if w.Term != 0 && hard {
		last, _ := d.LastIndex()
		d.hard = &pb.HardState{Term: new(w.Term), Vote: new(w.Vote), Commit: new(min(w.Commit, last))}
	}
}
