package node

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// ErrBusy: the leader cannot change the members now, because an earlier change is not finished. Try again.
var ErrBusy = errors.New("an earlier change of the members is not finished")

// ErrNotLeading: another node leads, or none.
var ErrNotLeading = errors.New("this node does not lead")

// Change gives a member a role. The states get the command when the change takes effect.
func (n *Node) Change(m job.Member) error {
	l := n.leading
	if l == nil || !l.ready {
		return ErrNotLeading
	}
	n.flush()
	fields, _ := job.SetMember{Member: m}.Encode()
	r := journal.Record{Verb: job.SetMember{}.Verb(), Salt: n.o.Salt, Seq: l.seq + 1, At: n.Time(), Fields: fields}
	typ := map[job.MemberRole]pb.ConfChangeType{job.Voter: pb.ConfChangeAddNode, job.Learner: pb.ConfChangeAddLearnerNode, job.Removed: pb.ConfChangeRemoveNode}[m.Role]
	l.changing = true
	err := n.rn.ProposeConfChange(&pb.ConfChangeV2{
		Changes: []*pb.ConfChangeSingle{{Type: typ.Enum(), NodeId: new(m.ID)}}, Context: journal.AppendRecord(nil, &r),
	})
	n.work() // Raft writes an empty entry instead of a change that it refuses, and write sees it
	refused := l.changing
	l.changing = false
	switch {
	case err != nil || n.leading != l:
		return errors.Join(ErrNotLeading, err)
	case refused:
		return ErrBusy
	}
	return nil
}

// changes notes whether Raft has taken a change, which has a seq then.
func (l *leading) changes(entries []*pb.Entry) {
	for _, e := range entries {
		if e.GetType() == pb.EntryConfChangeV2 && e.GetTerm() == l.term {
			l.changing = false
			l.seq++
			l.bytes += len(e.Data)
			_, r, err := decodeChange(e)
			if err == nil {
				_, err = follow(&l.state, &r)
			}
			if err != nil {
				panic(err)
			}
		}
	}
}

// decodeChange returns what an entry changes, and the record of it.
func decodeChange(e *pb.Entry) (*pb.ConfChangeV2, journal.Record, error) {
	cc := &pb.ConfChangeV2{}
	if err := proto.Unmarshal(e.Data, cc); err != nil {
		return nil, journal.Record{}, err
	}
	r, err := journal.ParseRecord(cc.Context)
	r.Place = &journal.Place{Index: e.GetIndex(), Term: e.GetTerm()}
	return cc, r, err
}

// change delivers a change of the members.
func (n *Node) change(d *Delivery, e *pb.Entry) error {
	cc, r, err := decodeChange(e)
	if err != nil {
		return err
	}
	if r.Seq != n.pos.Seq+1 {
		return fmt.Errorf("a change of the members has seq %d, and %d was the last one", r.Seq, n.pos.Seq)
	}
	n.rn.ApplyConfChange(cc)
	n.pos.Seq, n.pos.At = r.Seq, max(n.pos.At, r.At)
	if _, err := follow(&n.state, &r); err != nil {
		return err
	}
	d.Records = append(d.Records, r)
	return nil
}

// Members returns the members as far as the node has delivered, and the names of those that were removed. The caller must not
// change the lists.
func (n *Node) Members() (members []job.Member, removed []string) {
	return n.state.Members, n.state.Removed
}

// ConfState returns members as Raft knows them.
func ConfState(members []job.Member) *pb.ConfState {
	c := &pb.ConfState{}
	for _, m := range members {
		switch m.Role {
		case job.Voter:
			c.Voters = append(c.Voters, m.ID)
		case job.Learner:
			c.Learners = append(c.Learners, m.ID)
		}
	}
	return c
}

// Successor returns the other voter that lacks the fewest entries, as far as the leader knows. Its role is 0 if there is none.
func (n *Node) Successor() (best job.Member) {
	least := ^uint64(0)
	for _, m := range n.state.Members {
		if entries, known := n.Behind(m.ID); known && m.Role == job.Voter && m.ID != n.o.ID && entries < least {
			best, least = m, entries
		}
	}
	return best
}

// Level returns the newest level that the programs of all members know.
func (n *Node) Level() int { return n.state.Level() }

// Alive returns the members that the leader has heard of lately, with itself.
func (n *Node) Alive() map[uint64]bool {
	alive := map[uint64]bool{}
	n.rn.WithProgress(func(of uint64, _ raft.ProgressType, p tracker.Progress) {
		alive[of] = p.RecentActive || of == n.o.ID
	})
	return alive
}

// Away returns the members of which this node, which leads, has heard nothing for 30 seconds.
func (n *Node) Away() map[uint64]bool {
	away := map[uint64]bool{}
	if n.leading != nil {
		for id, ticks := range n.leading.silent {
			if ticks >= awayTicks {
				away[id] = true
			}
		}
	}
	return away
}

// Behind returns how many entries a member lacks, as far as the leader knows.
func (n *Node) Behind(id uint64) (entries uint64, known bool) {
	last := n.pos.Index
	n.rn.WithProgress(func(of uint64, _ raft.ProgressType, p tracker.Progress) {
		if of == id {
			entries, known = last-min(last, p.Match), true
		}
	})
	return entries, known
}

// has reports whether this node has the entry of a note, in its state or on its disk.
func (n *Node) has(note *pb.SnapshotMetadata) bool {
	if note.GetIndex() <= n.pos.Index {
		return true
	}
	term, err := n.o.Storage.Term(note.GetIndex())
	return err == nil && term == note.GetTerm()
}

// tell tells the leader up to which entry this node has all of them. It may not know that yet, for example after the node got
// a base.
func (n *Node) tell(m *pb.Message) {
	n.told = n.pos.Index + 1
	n.out.Messages = append(n.out.Messages, Message{To: m.GetFrom(), Raft: &pb.Message{
		Type: pb.MsgAppResp.Enum(), From: new(n.o.ID), To: new(m.GetFrom()), Term: new(m.GetTerm()), Index: new(n.pos.Index),
	}})
}

// remind lets the leader send its note again to members that it waits for because they fetch a base. One that has it answers
// that it lacks nothing before.
func (n *Node) remind() {
	n.rn.WithProgress(func(of uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.State == tracker.StateSnapshot {
			n.fetching = append(n.fetching, of)
		}
	})
	for _, id := range n.fetching {
		n.rn.ReportSnapshot(id, raft.SnapshotFailure)
	}
	n.fetching = n.fetching[:0]
}

// Abandon returns all commands of this process that are not answered. The caller must not use the node any more.
func (n *Node) Abandon() (list []Settled) {
	n.out = Ready{}
	for lane := range n.own.lanes {
		for _, p := range n.own.lanes[lane] {
			n.fail(p, journal.ErrNotStored)
		}
	}
	for _, g := range n.own.groups {
		for _, p := range g.proposals {
			if _, waits := n.own.waits[p]; waits {
				n.fail(p, journal.ErrUnknown)
			}
		}
	}
	return n.out.Settled
}
