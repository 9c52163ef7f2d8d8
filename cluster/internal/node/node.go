package node

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// TickEvery is the time between two ticks. A leader sends heartbeats at each tick, and a follower begins an election after 10
// to 19 ticks without one.
const TickEvery = 50 * time.Millisecond

// The bounds of a node. All are bytes.
const (
	maxMessage     = 1 << 20  // of entries in a message to a follower, unless one is larger
	maxInFlight    = 16 << 20 // of entries that a follower has not answered
	maxApplying    = 16 << 20 // of committed entries that the driver has not taken
	maxUncommitted = 32 << 20 // of entries that the leader has appended and not delivered
	maxGroup       = 1 << 20  // of bulk commands in a group, unless one is larger
)

const (
	maxGroups     = 8 // of own commands that have not come back
	electionTicks = 10
	remindEvery   = 20 // ticks
)

// Position is how far the state of a node is. At and Seq are those of the last command in it.
type Position struct {
	Index, Term uint64 // of the last entry that is included in full
	Seq         uint64
	At          int64
}

// Options are the settings of a node.
type Options struct {
	ID      uint64 // of this member, for Raft. No other member ever had it.
	Name    string
	Storage raft.Storage
	// Position and State are those of the state of this node.
	Position Position
	State    job.Cluster
	// Origin is drawn at random by the process.
	Origin uint64
	Level  int    // the newest level that the program knows
	Salt   uint32 // of the records; the same at all nodes
	Now    int64  // unix ms
	// Refuse returns why the leader does not write a command now, as a word, or "". Nil: it writes all.
	Refuse func(c *Command) string
	Logger raft.Logger
}

// Node is one member. Its methods must not be called by several goroutines at once.
type Node struct {
	o  Options
	rn *raft.RawNode

	now     int64  // of the clock of this node
	heard   int64  // the latest time of a leader's clock that this node knows
	ticks   int    // since the start; timers are in ticks
	leader  uint64 // 0: none is known
	term    uint64 // of leader
	leading *leading
	own     own
	reads   reads
	told    uint64 // 1 more than the index that tell has told a leader last
	// fetching is empty between calls of remind.
	fetching []uint64

	// What was delivered. skip is the seq up to which the state of the node had the commands of the next entry.
	pos   Position
	state job.Cluster
	skip  uint64

	out Ready
}

// Ready is what the driver has to do, in this order within each list. The lists are independent.
type Ready struct {
	Writes     []Write
	Messages   []Message
	Deliveries []Delivery
	Settled    []Settled // own commands that will not be delivered
	Reads      []Read
}

// Write is what must be durable before its Answers are sent. The driver passes it to Node.Written then.
type Write struct {
	Entries            []*pb.Entry
	Term, Vote, Commit uint64 // 0, 0, 0: they have not changed
	Base               *pb.SnapshotMetadata
	answers            []*pb.Message
}

// Message is what the driver sends to another node. It may lose it, and then calls Node.Lost.
type Message struct {
	To     uint64
	Now    int64 // Node.Time of the sender. The receiver passes it to Node.Hear
	Raft   *pb.Message
	Group  *Group
	Resend *Resend
}

// Resend asks a process to send its groups again, from the command with this number on.
type Resend struct{ Origin, Number uint64 }

// Delivery is committed commands. The driver calls Done of the commands of this process in the order of Settled, takes the
// records, and passes the delivery to Node.Delivered.
type Delivery struct {
	Settled []Settled
	Records []journal.Record
	Pos     Position
	answers []*pb.Message
}

// Settled is the fate of a command of this process.
type Settled struct {
	Proposal *journal.Proposal
	Seq      uint64
	At       int64
	Err      error
}

// Refused is the error of a command that the leader did not write, for the reason that Options.Refuse returned.
type Refused struct{ Why string }

func (r *Refused) Error() string { return "the leader does not take the command now: " + r.Why }
func (r *Refused) Unwrap() error { return journal.ErrNotStored }

// New returns a node that continues from what is stored.
func New(o Options) (*Node, error) {
	n := &Node{o: o, now: o.Now, heard: o.Position.At, pos: o.Position, state: o.State.Clone(), skip: o.Position.Seq}
	n.own.announced = -announceEvery
	n.own.waits = map[*journal.Proposal]int{}
	var err error
	n.rn, err = raft.NewRawNode(&raft.Config{
		ID: o.ID, ElectionTick: electionTicks, HeartbeatTick: 1, Storage: storage{o.Storage, o.Position.Index}, Applied: o.Position.Index, AsyncStorageWrites: true,
		MaxSizePerMsg: maxMessage, MaxCommittedSizePerReady: maxApplying, MaxInflightMsgs: 256, MaxInflightBytes: maxInFlight, MaxUncommittedEntriesSize: 2 * maxUncommitted,
		CheckQuorum: true, PreVote: true, DisableProposalForwarding: true, StepDownOnRemoval: true, Logger: o.Logger,
	})
	return n, err
}

// storage is what Raft reads. The commit index on disk may be behind the state of the node.
type storage struct {
	raft.Storage
	applied uint64
}

func (s storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	hard, conf, err := s.Storage.InitialState()
	if err == nil && hard.GetCommit() < s.applied {
		hard = &pb.HardState{Term: new(hard.GetTerm()), Vote: new(hard.GetVote()), Commit: new(s.applied)}
	}
	return hard, conf, err
}

// Clock is called before other events, with the time of the node's clock in unix ms. Invariant: a leader gives no command an
// earlier time than its clock had when it took the command. Otherwise leases would be shorter than their runners believe.
func (n *Node) Clock(now int64) { n.now = max(n.now, now) }

// Tick is called at each tick, with the time of the node's clock in unix ms.
func (n *Node) Tick(now int64) {
	n.Clock(now)
	n.ticks++
	n.rn.Tick()
	if n.leading != nil {
		n.leading.listen(n.Alive())
		if n.ticks%remindEvery == 0 {
			n.remind()
		}
	}
	n.expire()
	n.reads.retry = true
}

// Step takes a message of another node. It ignores one that does not fit. If it reports that this node lacks entries that
// nobody sends it any more, the driver fetches the state of another member that includes at least the index of the message's
// note, and begins again from there.
func (n *Node) Step(m *pb.Message) (lacks bool) {
	if m.GetType() == pb.MsgSnap && m.GetTerm() >= n.term && !n.has(m.Snapshot.GetMetadata()) {
		if n.told == n.pos.Index+1 { // the leader has nothing that follows from there
			return true
		}
		n.tell(m)
		return false
	}
	_ = n.rn.Step(m) // its errors are: a message of a node that has been removed, a proposal
	return false
}

// Hear notes the time of another node.
func (n *Node) Hear(now int64) { n.heard = max(n.heard, now) }

// Time returns the time of the log in unix ms: that of the leader, as far as this node has heard of it. A command that this
// node sends to a leader from now on gets this time or a later one, because the leader hears of it.
func (n *Node) Time() int64 {
	if n.leading != nil {
		return max(n.heard, n.leading.at, n.pos.At, n.now)
	}
	return max(n.heard, n.pos.At)
}

// Written says that a write is durable.
func (n *Node) Written(w *Write) { n.answer(w.answers) }

// Delivered says that the driver has taken a delivery.
func (n *Node) Delivered(d *Delivery) { n.answer(d.answers) }

func (n *Node) answer(list []*pb.Message) {
	for _, m := range list {
		if m.GetTo() == n.o.ID {
			n.Step(m)
		} else {
			n.out.Messages = append(n.out.Messages, Message{To: m.GetTo(), Raft: m})
		}
	}
}

// Lost says that messages to another node were lost.
func (n *Node) Lost(to uint64) {
	n.rn.ReportUnreachable(to)
	if to == n.leader {
		n.own.sent = 0
	}
}

// Leader returns the member that leads as far as this node knows, or 0, and the term.
func (n *Node) Leader() (id, term uint64) { return n.leader, n.term }

// Leads reports whether this node leads and takes commands.
func (n *Node) Leads() (term uint64, leads bool) {
	if n.leading == nil || !n.leading.ready {
		return 0, false
	}
	return n.leading.term, true
}

// Position returns how far the node has delivered.
func (n *Node) Position() Position { return n.pos }

// Status returns Raft's view.
func (n *Node) Status() raft.Status { return n.rn.Status() }

// Transfer asks Raft to make another member the leader.
func (n *Node) Transfer(to uint64) { n.rn.TransferLeader(to) }

// Campaign begins an election at once.
func (n *Node) Campaign() error { return n.rn.Campaign() }

// Ready returns what there is to do. The node panics, as Raft does, if it finds its own log or state damaged.
func (n *Node) Ready() Ready {
	n.work()
	out := n.out
	n.out = Ready{}
	for i, now := 0, n.Time(); i < len(out.Messages); i++ {
		out.Messages[i].Now = now
	}
	return out
}

// work does all that follows from the events.
func (n *Node) work() {
	n.send()
	n.flush()
	n.read()
	for n.rn.HasReady() {
		rd := n.rn.Ready()
		if s := rd.SoftState; s != nil {
			n.lead(s)
		}
		for _, s := range rd.ReadStates {
			n.confirmed(s)
		}
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				n.write(m)
			case raft.LocalApplyThread:
				n.deliver(m)
			default:
				n.out.Messages = append(n.out.Messages, Message{To: m.GetTo(), Raft: m})
			}
		}
		n.send()
		n.flush()
	}
	n.read()
}

func (n *Node) write(m *pb.Message) {
	w := Write{Entries: m.Entries, answers: m.Responses}
	if m.Term != nil {
		w.Term, w.Vote, w.Commit = m.GetTerm(), m.GetVote(), m.GetCommit()
	}
	if m.Snapshot != nil {
		w.Base = m.Snapshot.Metadata
	}
	if l := n.leading; l != nil && l.from == 0 && len(m.Entries) > 0 {
		l.from = m.Entries[len(m.Entries)-1].GetIndex() // the empty entry with which the term begins
	} else if l != nil && l.changing {
		l.changes(m.Entries)
	}
	n.out.Writes = append(n.out.Writes, w)
}

// lead notes who leads.
func (n *Node) lead(s *raft.SoftState) {
	term := n.rn.BasicStatus().GetTerm()
	if s.Lead != n.leader || term != n.term {
		n.own.sent = 0 // the new leader may not have what the old one got
		n.reads.retry = true
	}
	n.leader, n.term = s.Lead, term
	switch leads := s.RaftState == raft.StateLeader; {
	case !leads:
		n.leading = nil
	case n.leading == nil || n.leading.term != term:
		n.leading = &leading{term: term}
	}
}

// errDelivery is the reason of a panic: the log of this node contradicts its state.
var errDelivery = errors.New("the log contradicts the state of this node")

// deliver turns committed entries into records.
func (n *Node) deliver(m *pb.Message) {
	d := Delivery{answers: m.Responses}
	for _, e := range m.Entries {
		if e.GetIndex() <= n.pos.Index {
			continue
		}
		var err error
		switch {
		case e.GetType() != pb.EntryNormal:
			err = n.change(&d, e)
		case len(e.Data) > 0:
			err = n.commands(&d, e)
		}
		if err != nil {
			panic(fmt.Errorf("%w: entry %d of term %d: %w", errDelivery, e.GetIndex(), e.GetTerm(), err))
		}
		n.pos.Index, n.pos.Term = e.GetIndex(), e.GetTerm()
		if l := n.leading; l != nil {
			l.delivered(n, e)
		}
	}
	d.Pos = n.pos
	n.out.Deliveries = append(n.out.Deliveries, d)
}

// commands delivers the commands of an entry.
func (n *Node) commands(d *Delivery, e *pb.Entry) error {
	h, list, err := commandsOf(e)
	if err != nil {
		return err
	}
	if h.Seq != n.pos.Seq+1 && (h.Seq > n.skip || h.Seq+uint64(h.N) <= n.skip) {
		return fmt.Errorf("its commands begin with %d, and %d was the last one", h.Seq, n.pos.Seq)
	}
	g := n.ownGroup(&h)
	refused := h.Refused
	for i, r := range list {
		if r.At < n.pos.At {
			return fmt.Errorf("command %d of %d has time %d; the last time was %d", i+1, h.N, r.At, n.pos.At)
		}
		if r.Seq <= n.skip {
			continue
		}
		n.pos.Seq, n.pos.At = r.Seq, r.At
		taken, err := follow(&n.state, &r)
		if err != nil {
			return err
		}
		no := len(refused) > 0 && refused[0] == i
		if no {
			refused = refused[1:]
		}
		if g != nil && taken {
			n.settle(d, g.proposals[i], &r, no, h.Why)
		}
		d.Records = append(d.Records, r)
	}
	if g != nil {
		n.came(g)
	}
	return nil
}

// follow notes a command in a state of the cluster. It returns false if the command has no effect.
func follow(state *job.Cluster, r *journal.Record) (taken bool, err error) {
	var cmd job.Command
	if r.Verb == (job.Announce{}).Verb() || r.Verb == (job.SetMember{}).Verb() {
		if _, cmd, err = job.DecodeRecord(r.Verb, r.Fields, r.Body); err != nil {
			return false, err
		}
	}
	return state.Follow((*job.Place)(r.Place), cmd), nil
}

// settle notes that a command of this process is in the log, or that the leader has refused it.
func (n *Node) settle(d *Delivery, p *journal.Proposal, r *journal.Record, refused bool, why string) {
	if _, waits := n.own.waits[p]; !waits {
		return // it was answered with ErrUnknown
	}
	delete(n.own.waits, p)
	if refused {
		d.Settled = append(d.Settled, Settled{Proposal: p, Err: &Refused{why}})
		return
	}
	r.Tag = p.Tag
	d.Settled = append(d.Settled, Settled{Proposal: p, Seq: r.Seq, At: r.At})
}
