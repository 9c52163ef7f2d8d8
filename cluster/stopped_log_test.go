package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// TestStopped: the logs of stopped nodes have the commands that were delivered, with their places. An entry that only the leader
// has is not committed.
func TestStopped(t *testing.T) {
	members := newMembers(t, 3)
	var leader *member
	for i := range 5 {
		for _, m := range members {
			testkit.Eventually(t, "a command is taken", func() bool {
				_, err := m.propose(fmt.Sprintf("text=%s-%d", m.id.Node, i))
				return err == nil
			})
		}
	}
	testkit.Eventually(t, "a node leads", func() bool {
		for _, m := range members {
			if _, leads := m.log.Leads(); leads {
				leader = m
			}
		}
		return leader != nil
	})
	for _, m := range members {
		testkit.Must(m.log.Barrier(t.Context()))(t)
	}
	for _, m := range members {
		if m != leader {
			m.stop()
		}
	}
	before := testkit.Must(leader.log.log.LastIndex())(t)
	unknown := make(chan error, 1)
	p := &journal.Proposal{Lane: journal.Control, Verb: "note", Fields: []byte("text=alone"), Done: func(_ uint64, _ int64, err error) { unknown <- err }}
	testkit.NoError(t, leader.log.Propose(t.Context(), p))
	appended := func() bool { return testkit.Must(leader.log.log.LastIndex())(t) > before }
	testkit.Eventually(t, "the leader appends the command, or leads no more", func() bool {
		_, leads := leader.log.Leads()
		return !leads || appended()
	})
	alone := appended()
	leader.stop()
	testkit.Failed(t, <-unknown)

	for _, m := range members {
		s := testkit.Must(OpenStopped(filepath.Join(m.dir, "cluster")))(t)
		report := testkit.Must(s.Verify())(t)
		testkit.Holds(t, report.Damage == nil && report.Verdict == journal.Accept, report)
		var got []string
		state := job.Cluster{Members: slices.Clone(members[0].state.Members)}
		for r, err := range s.Commands(1) {
			testkit.NoError(t, err)
			cmd, _ := job.Decode(r.Verb, r.Fields, r.Body) // notes are no commands of package job
			testkit.Holds(t, state.Follow((*job.Place)(r.Place), cmd), "command", r.Seq, "has no effect")
			got = append(got, fmt.Sprintf("%s %s %d", r.Verb, r.Fields, r.At))
		}
		testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(m.records), m.id.Node)
		testkit.Equal(t, [2]uint64{s.Log.Base, s.Log.First}, [2]uint64{1, 2}, m.id.Node)
		testkit.Equal(t, s.Log.LastSeq, uint64(len(m.records)), m.id.Node)
		testkit.NoError(t, s.Holds(s.UUID, &m.state))
		if m == leader && alone {
			testkit.Equal(t, [2]uint64{s.Log.Commit, s.Log.Last}, [2]uint64{before, before + 1}, "the commit index and the last entry of the leader")
		}

		// Other states.
		state = m.state.Clone()
		testkit.Failed(t, s.Holds("another", &state), journal.ErrForeign)
		state.ID = "00000000000000c2"
		testkit.Failed(t, s.Holds(s.UUID, &state), journal.ErrForeign, "00000000000000c2")
		testkit.Failed(t, s.Holds("", &job.Cluster{}), journal.ErrCursor, "there is no store")
		state = m.state.Clone()
		state.Term += 3
		testkit.Failed(t, s.Holds(s.UUID, &state), journal.ErrCursor, "and the log has one of term")
		state.Index = s.Log.Last + 1
		testkit.Failed(t, s.Holds(s.UUID, &state), journal.ErrCursor, "and the log has the entries 2 to")
		listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		testkit.Fails(Open(Options{Dir: filepath.Join(m.dir, "cluster"), Identity: m.id, Listener: listener, State: state}))(t, journal.ErrCursor, "and the log has the entries 2 to")

		// The log of another cluster, and no log.
		s.Identity.Salt++
		report = testkit.Must(s.Verify())(t)
		testkit.Holds(t, report.Damage != nil && report.Verdict == journal.Refuse, report)
		testkit.Contains(t, report.Damage.Error(), "has the salt 00000007, and the journal of this cluster 00000008")
		testkit.NoError(t, os.RemoveAll(filepath.Join(m.dir, "cluster", "0")))
		testkit.Fails(OpenStopped(filepath.Join(m.dir, "cluster")))(t, ErrNoLog, m.id.Node, "next step")
	}
	none, err := OpenStopped(t.TempDir())
	testkit.Holds(t, none == nil && err == nil, none, err)
}
