package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/wal"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// member is a node with a state in memory, which survives its restarts.
type member struct {
	t        testing.TB
	dir      string
	address  string
	id       *Identity
	log      *Cluster
	opsqueue atomic.Value // its answer to OpsqueueAt of other nodes
	slow     atomic.Bool  // syncs of its disk take until it is false
	syncs    atomic.Int64
	cancel   context.CancelFunc
	ended    chan error
	listener net.Listener // of the first start

	mu      sync.Mutex
	records []string // by seq
	at      int64
	state   job.Cluster
}

// newMembers founds a cluster of n nodes.
func newMembers(t testing.TB, n int) []*member {
	members := make([]*member, n)
	var all []job.Member
	for i := range members {
		l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		m := &member{t: t, dir: t.TempDir(), address: l.Addr().String(), listener: l}
		m.id = &Identity{Cluster: "00000000000000c1", ID: uint64(i + 1), Node: fmt.Sprint("n", i+1), UUID: "0b5c7e0e-7a1f-4a53-9a9a-3d6c1f0f6f3e", Salt: 7}
		all = append(all, job.Member{ID: m.id.ID, Node: m.id.Node, Address: m.address, Role: job.Voter})
		testkit.NoError(t, Found(filepath.Join(m.dir, "cluster"), m.id))
		members[i] = m
	}
	for _, m := range members {
		m.state = job.Cluster{ID: m.id.Cluster, Index: 1, Term: 1, Members: slices.Clone(all)}
		m.start()
	}
	t.Cleanup(func() {
		for _, m := range members {
			m.stop()
		}
	})
	return members
}

func (m *member) start() {
	listener := m.listener
	m.listener = nil
	if listener == nil { // it starts again, and a connection of another test may have its port for a while
		testkit.Eventually(m.t, "the port is free", func() (free bool) {
			var err error
			listener, err = net.Listen("tcp", m.address)
			return err == nil
		})
	}
	m.mu.Lock()
	o := Options{
		Dir: filepath.Join(m.dir, "cluster"), Identity: m.id, Listener: listener, State: m.state.Clone(), Seq: uint64(len(m.records)), At: m.at, Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
		Opsqueue: func() string { says, _ := m.opsqueue.Load().(string); return says },
	}
	m.mu.Unlock()
	o.Hooks.Sync = func(l *wal.Log) error {
		m.syncs.Add(1)
		testkit.Eventually(m.t, "the disk is fast", func() bool { return !m.slow.Load() })
		return l.Sync()
	}
	m.log = testkit.Must(Open(o))(m.t)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.ended = cancel, make(chan error, 1)
	go func() { m.ended <- m.log.Run(ctx, o.Seq, m.take) }()
}

// take applies records.
func (m *member) take(list []journal.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range list {
		r := &list[i]
		if r.Seq != uint64(len(m.records))+1 {
			m.t.Errorf("record %d follows %d", r.Seq, len(m.records))
		}
		cmd, err := job.Decode(r.Verb, r.Fields, r.Body)
		if err != nil {
			cmd = nil
		}
		m.state.Follow((*job.Place)(r.Place), cmd)
		m.records, m.at = append(m.records, fmt.Sprintf("%s %s %d", r.Verb, r.Fields, r.At)), r.At
	}
}

func (m *member) stop() {
	if m.log == nil {
		return
	}
	m.cancel()
	testkit.Check(m.t, <-m.ended)
	testkit.Check(m.t, m.log.Close())
	m.log = nil
}

// propose proposes a command and waits for its answer.
func (m *member) propose(text string) (uint64, error) {
	type answer struct {
		seq uint64
		err error
	}
	answered := make(chan answer, 1)
	p := &journal.Proposal{Lane: journal.Control, Verb: "note", Fields: []byte(text), Done: func(seq uint64, _ int64, err error) { answered <- answer{seq, err} }}
	if err := m.log.Propose(m.t.Context(), p); err != nil {
		return 0, err
	}
	a := <-answered
	return a.seq, a.err
}

// TestThreeNodes: commands of all nodes get into the log of all, also while nodes stop and start, and none twice.
func TestThreeNodes(t *testing.T) {
	members := newMembers(t, 3)
	stored := map[string]uint64{}
	number := 0
	for round := range 6 {
		var mu sync.Mutex
		var proposers sync.WaitGroup
		for _, m := range members {
			for range 4 {
				proposers.Go(func() {
					for range 20 {
						mu.Lock()
						number++
						text := fmt.Sprint("text=", number)
						mu.Unlock()
						var seq uint64
						var err error
						testkit.Eventually(t, text+" is taken", func() bool {
							seq, err = m.propose(text)
							return !errors.Is(err, journal.ErrNotStored) && !errors.Is(err, journal.ErrFailed)
						})
						mu.Lock()
						if err == nil {
							stored[text] = seq
						} else if !errors.Is(err, journal.ErrUnknown) {
							t.Errorf("%s: %v", text, err)
						}
						mu.Unlock()
					}
				})
			}
		}
		proposers.Wait()
		if round == 5 {
			break
		}
		m := members[round%3]
		if round == 4 {
			for _, m = range members {
				if _, leads := m.log.Leads(); leads {
					break
				}
			}
		}
		m.stop()
		m.start()
	}
	var last uint64
	for _, seq := range stored {
		last = max(last, seq)
	}
	for _, m := range members {
		for {
			seq, err := m.log.Barrier(t.Context())
			if err == nil && seq >= last {
				break
			}
		}
		testkit.Eventually(t, "all records are delivered", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return uint64(len(m.records)) >= last
		})
	}
	at := map[string]int{}
	for _, m := range members {
		m.mu.Lock()
		for i, text := range m.records[:last] {
			testkit.Equal(t, text, members[0].records[i], m.id.Node, "record", i+1)
		}
		m.mu.Unlock()
	}
	for i, text := range members[0].records {
		var verb, fields string
		fmt.Sscan(text, &verb, &fields)
		if verb == "note" && at[fields] != 0 {
			t.Errorf("%s is record %d and record %d", fields, at[fields], i+1)
		}
		at[fields] = i + 1
	}
	for text, seq := range stored {
		testkit.Equal(t, at[text], int(seq), text)
	}
	if len(stored) < number*9/10 {
		t.Errorf("%d of %d commands were stored", len(stored), number)
	}
}

// TestJoinsTwice: a node that asks once more to be a learner, because it does not know yet that it votes, stays a voter.
func TestJoinsTwice(t *testing.T) {
	members := newMembers(t, 3)
	var leader *member
	testkit.Eventually(t, "a node leads", func() bool {
		at := slices.IndexFunc(members, func(m *member) bool { _, leads := m.log.Leads(); return leads })
		leader = members[max(at, 0)]
		return at >= 0
	})
	for _, m := range members {
		_, err := leader.log.calls.ask(t.Context(), leader.address, question{Op: opAdd, Member: job.Member{ID: m.id.ID, Node: m.id.Node, Address: m.address, Role: job.Learner}, Level: job.Level})
		testkit.NoError(t, err, m.id.Node)
		testkit.Equal(t, leader.log.member(m.id.Node).Role, job.Voter, m.id.Node)
	}
}

// TestTimes: a leader gives no command an earlier time than its clock had before the command was proposed.
func TestTimes(t *testing.T) {
	m := newMembers(t, 1)[0]
	testkit.Eventually(t, "the node leads", func() bool { _, leads := m.log.Leads(); return leads })
	for i := range 20 {
		before := m.log.Now()
		seq := testkit.Must(m.propose(fmt.Sprint("command ", i)))(t)
		testkit.Eventually(t, "the command is delivered", func() bool { // which follows its answer
			m.mu.Lock()
			defer m.mu.Unlock()
			return uint64(len(m.records)) >= seq
		})
		m.mu.Lock()
		testkit.Holds(t, m.at >= before, "command", i, "was proposed at", before, "and has the time", m.at)
		m.mu.Unlock()
	}
}

// TestOpenFails: a log that cannot be opened leaves nothing behind.
func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	testkit.NoError(t, os.MkdirAll(filepath.Dir(LogDir(dir)), 0o755))
	testkit.NoError(t, os.WriteFile(LogDir(dir), nil, 0o644)) // no directory
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	c, err := Open(Options{Dir: dir, Identity: &Identity{}, Listener: l, Logger: slog.New(slog.DiscardHandler)})
	testkit.Failed(t, err)
	testkit.Holds(t, c == nil, "an unusable log", c)
	testkit.Fails(l.Accept())(t, net.ErrClosed)
}

// TestOpsqueueAt: a node finds out which other one serves clients of Opsqueue, and which ones do not answer. Of two that begin
// together, the node with the smaller id goes on.
func TestOpsqueueAt(t *testing.T) {
	members := newMembers(t, 3)
	ask := func(m *member) string {
		node, silent := m.log.OpsqueueAt(t.Context(), m.opsqueue.Load() == OpsqueueServed)
		return fmt.Sprint(node, silent)
	}
	set := func(of map[int]string) {
		for i, m := range members {
			m.opsqueue.Store(of[i])
		}
	}
	for _, c := range []struct {
		says map[int]string
		want [3]string
	}{
		{map[int]string{}, [3]string{"[]", "[]", "[]"}},
		{map[int]string{1: OpsqueueServed}, [3]string{"n2[]", "[]", "n2[]"}},
		{map[int]string{1: OpsqueueServed, 0: OpsqueueWanted}, [3]string{"n2[]", "n1[]", ""}}, // n2 would not ask any more
		{map[int]string{1: OpsqueueWanted, 0: OpsqueueWanted}, [3]string{"[]", "n1[]", ""}},
		{map[int]string{1: OpsqueueServed, 0: OpsqueueServed}, [3]string{"[]", "n1[]", ""}},
	} {
		set(c.says)
		for i, want := range c.want {
			if want != "" {
				testkit.Equal(t, ask(members[i]), want, "at", i, "if the nodes say", c.says)
			}
		}
	}
	set(map[int]string{0: OpsqueueServed})
	members[1].stop()
	testkit.Equal(t, ask(members[0]), "[n2]", "while the other node is down")
	testkit.Equal(t, ask(members[2]), "n1[n2]", "at the third node")
}

// TestSlowDisk: if the disk of the leader is slow, another node leads, and takes commands.
func TestSlowDisk(t *testing.T) {
	members := newMembers(t, 3)
	leads := func(m *member) bool { _, leads := m.log.Leads(); return leads }
	var leader *member
	testkit.Eventually(t, "a node leads", func() bool {
		i := slices.IndexFunc(members, leads)
		if i >= 0 {
			leader = members[i]
		}
		return i >= 0
	})
	leader.slow.Store(true)
	defer leader.slow.Store(false)
	answered := make(chan error, 1)
	go func() { _, err := leader.propose("text=slow"); answered <- err }()
	testkit.Eventually(t, "another node leads", func() bool {
		return slices.ContainsFunc(members, func(m *member) bool { return m != leader && leads(m) })
	})
	for _, m := range members {
		if m != leader {
			testkit.Must(m.propose("text=fast"))(t)
		}
	}
	leader.slow.Store(false)
	err := <-answered
	testkit.Holds(t, err == nil || errors.Is(err, journal.ErrUnknown) || errors.Is(err, journal.ErrNotStored), err)
}

// TestCommandsShareSyncs: commands that come while a sync runs are made durable together by the next one.
func TestCommandsShareSyncs(t *testing.T) {
	m := newMembers(t, 1)[0]
	testkit.Eventually(t, "the node leads", func() bool { _, leads := m.log.Leads(); return leads })
	testkit.Must(m.propose("text=first"))(t)
	m.slow.Store(true)
	const commands = 300
	answers := make(chan error, commands)
	for i := range commands {
		testkit.NoError(t, m.log.Propose(t.Context(), &journal.Proposal{
			Lane: journal.Control, Verb: "note", Fields: fmt.Append(nil, "text=", i), Done: func(_ uint64, _ int64, err error) { answers <- err },
		}))
	}
	before := m.syncs.Load()
	m.slow.Store(false)
	for range commands {
		testkit.NoError(t, <-answers)
	}
	testkit.Holds(t, m.syncs.Load()-before < commands/10, commands, "commands took", m.syncs.Load()-before, "syncs")
}

// TestContradiction: if another member knows a commit index beyond the log of this node, whose disk must have lied, the node
// stops with a next step. The process goes on.
func TestContradiction(t *testing.T) {
	members := newMembers(t, 3)
	m := members[0]
	testkit.Eventually(t, "a node leads", func() bool { return m.log.ClusterStatus().Leader != "" })
	m.log.event(func(n *node.Node) {
		n.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(n.Status().GetTerm() + 1), Commit: new(uint64(1 << 40))})
		n.Ready()
	})
	err := <-m.ended
	m.ended <- nil // for stop
	testkit.Holds(t, err != nil && strings.Contains(err.Error(), "its data contradict") && strings.Contains(err.Error(), "next step"), err)
	testkit.Failed(t, m.log.Propose(t.Context(), &journal.Proposal{Verb: "note", Done: func(uint64, int64, error) {}}))
}

// TestGroupConnections: a leader that takes no groups does not read the connections that they come over. When a member opens
// another one, the last one ends.
func TestGroupConnections(t *testing.T) {
	members := newMembers(t, 2)
	m, from := members[0], members[1].id
	held, release := make(chan struct{}), make(chan struct{})
	m.log.event(func(*node.Node) { close(held); <-release })
	<-held
	served := func() (client net.Conn, ended chan error) {
		client, end := net.Pipe()
		t.Cleanup(func() { client.Close() })
		ended = make(chan error, 1)
		go func() { ended <- m.log.serve(t.Context(), end) }()
		testkit.NoError(t, greet(t.Context(), client, &hello{m.id.Cluster, from.ID, m.id.ID, from.Node, groupKind, job.Level}))
		group := testkit.Must(encodeFrame(nil, &node.Message{Group: &node.Group{Node: from.Node, Origin: 1, First: 1, Commands: node.Commands{{Verb: "note"}}}}))(t)
		testkit.Must(client.Write(group))(t)
		return client, ended
	}
	_, first := served()
	_, second := served()
	testkit.Failed(t, <-first, context.Canceled)
	select {
	case err := <-second:
		t.Error("the second connection has ended:", err)
	default:
	}
	close(release)
}

// TestDistrust: a node whose state is damaged needs a base with all entries that it has acknowledged, also with those that
// came after the damage was found.
func TestDistrust(t *testing.T) {
	members := newMembers(t, 3)
	m := members[0]
	testkit.Eventually(t, "commands are taken", func() bool { _, err := m.propose("text=first"); return err == nil })
	var proposers sync.WaitGroup
	for i := range 200 {
		proposers.Go(func() { members[1+i%2].propose(fmt.Sprint("text=", i)) }) // its answer does not matter
	}
	testkit.Holds(t, m.log.Distrust(errors.New("damaged")), "there are other members")
	needs, is := errors.AsType[*NeedsBase](<-m.ended)
	m.ended <- nil // for stop
	testkit.MustHold(t, is, "the node ends because it needs a base")
	last := testkit.Must(m.log.log.LastIndex())(t)
	testkit.Holds(t, needs.Why != nil && last > 1 && needs.Index >= last, needs.Index, "and the log ends with", last)
	proposers.Wait()
}
