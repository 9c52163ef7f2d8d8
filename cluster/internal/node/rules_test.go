package node

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// newCalm returns a world of three machines, one of which leads, and the leader.
func newCalm(t *testing.T) (*world, *machine) {
	w, _ := newWorld(1, none)
	t.Cleanup(w.end)
	w.heal()
	for _, m := range w.machines {
		if _, leads := m.node.Leads(); leads {
			return w, m
		}
	}
	t.Fatal("no node leads")
	return nil, nil
}

// large proposes a create of one job with a long payload, and returns where its answer is.
func (w *world) large(m *machine, lane journal.Lane, size int) *error {
	c := &job.Create{Frame: job.LineFrame, Longest: size, Payloads: append(bytes.Repeat([]byte("x"), size), '\n'), Groups: []job.Group{{
		Lines: 1, Client: "default", Type: "default", Attributes: job.Attributes{Kind: job.Text, Priority: 4, MaxAttempts: 3, LeaseMs: 60_000, RetentionMs: 1_000_000},
	}}}
	fields, body := c.Encode()
	answer := new(error)
	*answer = errPending
	m.node.Propose(&journal.Proposal{Lane: lane, Verb: c.Verb(), Fields: fields, Body: body, Done: func(_ uint64, _ int64, err error) { *answer = err }})
	return answer
}

// errPending: there is no answer yet.
var errPending = ErrBusy

// TestLargeGroup: a group that is larger than all bounds passes alone.
func TestLargeGroup(t *testing.T) {
	w, m := newCalm(t)
	var answers []*error
	for range 10 {
		answers = append(answers, w.large(m, journal.Control, 4<<20)) // in one group, of more than maxUncommitted
	}
	w.heal()
	for _, err := range answers {
		testkit.NoError(t, *err)
	}
}

// TestBounds: while the followers are silent, a leader takes a bounded number of bytes, and sends each a bounded number.
func TestBounds(t *testing.T) {
	w, m := newCalm(t)
	const size = 1 << 20
	from := w.machines[m.id%3]
	cluster := from.store.Cluster()
	next := cluster.Of(from.node.o.Name)
	taken := 0
	sent := map[uint64]int{}
	for m.node.Group(from.id, &Group{Node: from.node.o.Name, Origin: next.ID, First: next.Last + 1, Commands: Commands{{Lane: journal.Control, Verb: "create", Body: make([]byte, size)}}}) {
		taken, next.Last = taken+size, next.Last+1
		testkit.MustHold(t, taken < 10*maxUncommitted, "the leader takes everything")
		w.ready(m)
		for len(m.writes) > 0 {
			x := m.writes[0]
			m.writes = m.writes[1:]
			w.written(m, &x, true)
		}
		for _, e := range w.net {
			if e.from == m.id && e.m.Raft != nil {
				for _, entry := range e.m.Raft.Entries {
					sent[e.to] += len(entry.Data)
				}
			}
		}
		w.net = nil
	}
	testkit.Holds(t, taken >= maxUncommitted/2 && taken <= maxUncommitted+2*size, "the leader has taken", taken, "bytes that are not delivered")
	for _, of := range w.machines {
		if of != m {
			testkit.Holds(t, sent[of.id] >= maxInFlight/2 && sent[of.id] <= maxInFlight+2*size, "node", of.id, "got", sent[of.id], "bytes")
		}
	}
}

// TestOneChangeAtATime: a leader changes one member, and no other before that change is carried out.
func TestOneChangeAtATime(t *testing.T) {
	w, m := newCalm(t)
	testkit.NoError(t, m.node.Change(member(4, job.Learner)))
	testkit.Failed(t, m.node.Change(member(5, job.Learner)), ErrBusy)
	w.add()
	w.heal()
	testkit.NoError(t, m.node.Change(member(5, job.Learner)))
}

// TestFollowersForwardNothing: Raft at a follower drops proposals, because the commands of a process must keep their order.
func TestFollowersForwardNothing(t *testing.T) {
	w, m := newCalm(t)
	for _, of := range w.machines {
		if of != m {
			of.node.Step(&pb.Message{Type: pb.MsgProp.Enum(), From: new(of.id), To: new(of.id), Entries: []*pb.Entry{{Data: []byte("x")}}})
			for _, e := range of.node.Ready().Messages {
				testkit.Holds(t, e.Raft == nil || e.Raft.GetType() != pb.MsgProp, "node", of.id, "forwards a proposal")
			}
		}
	}
}

// TestCommitBehindState: the commit index on the disk may be behind the state of the node, because it is written late.
func TestCommitBehindState(t *testing.T) {
	w, m := newCalm(t)
	w.close(m)
	m.fs = m.fs.CrashClone(vfs.CrashCloneCfg{})
	m.durable.hard.Commit = new(uint64(1))
	w.start(m)
	testkit.Equal(t, m.node.Status().GetCommit(), m.saved.cluster.Index, "the commit index of the node")
}
