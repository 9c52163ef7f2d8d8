package node

import (
	"fmt"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// leading is the state of a leader, for one term. After the start it describes the end of its log, which the node has not
// delivered yet.
type leading struct {
	term  uint64
	from  uint64 // index of the empty entry with which the term begins; 0: not known yet
	ready bool   // it takes commands
	end

	pending []*pb.Entry // appended, and not given to Raft yet
	senders []uint64    // of pending
	before  end         // before the first one of pending
	bytes   int         // of entries that are not delivered

	changing bool // Change waits for Raft's decision

	// silent has for how many ticks of this term nothing was heard of each other member. Time in which this process was
	// suspended has no ticks, so it does not count.
	silent map[uint64]int
}

// awayTicks is for how many ticks the leader must have heard nothing of a member that is away.
const awayTicks = int(30 * time.Second / TickEvery)

// listen notes at a tick which members the leader has heard of lately.
func (l *leading) listen(alive map[uint64]bool) {
	silent := map[uint64]int{}
	for id, heard := range alive {
		if !heard {
			silent[id] = l.silent[id] + 1
		}
	}
	l.silent = silent
}

// end is the end of a log.
type end struct {
	seq   uint64
	at    int64
	state job.Cluster
}

// delivered notes that an entry was delivered.
func (l *leading) delivered(n *Node, e *pb.Entry) {
	switch {
	case l.ready:
		l.bytes -= len(e.Data)
	case l.from != 0 && e.GetIndex() >= l.from:
		l.ready, l.end = true, end{n.pos.Seq, n.pos.At, n.state.Clone()}
	}
}

// Group takes a group that a node has sent, if this node leads. It returns false if the leader is not ready or has too many
// bytes under way: the driver then offers the group again.
func (n *Node) Group(from uint64, g *Group) bool {
	l := n.leading
	switch {
	case l == nil:
		return true // the sender will notice that another node leads
	case !l.ready || l.changing || l.bytes > maxUncommitted:
		return false
	}
	if role := l.state.Member(g.Node).Role; role != job.Voter && role != job.Learner {
		return true // it is not, or no longer, a member
	}
	origin := l.state.Of(g.Node)
	if g.Start != 0 {
		if origin.Announce(g.Origin, g.Start) {
			announce := job.Announce{Node: g.Node, Origin: g.Origin, Start: g.Start, Level: g.Level}
			fields, _ := announce.Encode()
			n.append(from, Header{Node: g.Node, Origin: g.Origin, Start: g.Start}, Commands{{Verb: announce.Verb(), Fields: fields}})
		}
		return true
	}
	switch next := origin.Last + 1; {
	case g.Origin != origin.ID || g.First < next:
		return true // it is in the log, or its process has ended
	case g.First > next:
		n.ask(from, g.Origin, next)
		return true
	}
	n.append(from, Header{Node: g.Node, Origin: g.Origin, Number: g.First}, g.Commands)
	return true
}

// ask asks a process to send its groups again.
func (n *Node) ask(from, origin, number uint64) {
	if r := (&Resend{origin, number}); from == n.o.ID {
		n.Resend(r)
	} else {
		n.out.Messages = append(n.out.Messages, Message{To: from, Resend: r})
	}
}

// append gives commands their seqs and the time, and appends them as an entry.
func (n *Node) append(from uint64, h Header, commands Commands) {
	l := n.leading
	if len(l.pending) == 0 {
		l.before = end{l.seq, l.at, l.state.Clone()}
	}
	h.Seq, h.N = l.seq+1, len(commands)
	l.at = n.Time()
	text := make([]byte, 0, commands.bytes())
	for i := range commands {
		c := &commands[i]
		r := journal.Record{Verb: c.Verb, Salt: n.o.Salt, Seq: l.seq + 1, At: l.at, Fields: c.Fields, Body: c.Body}
		if n.o.Refuse != nil {
			if why := n.o.Refuse(c); why != "" {
				h.Refused, h.Why = append(h.Refused, i), why
				r.Verb, r.Fields, r.Body = journal.MarkVerb, nil, nil
			}
		}
		text = journal.AppendRecord(text, &r)
		l.seq++
		r.Place = h.place(nil, i)
		if taken, err := follow(&l.state, &r); err != nil || !taken {
			panic(fmt.Errorf("the leader appends a command that has no effect, %s %s: %w", r.Verb, r.Fields, err))
		}
	}
	data := append(h.append(make([]byte, 0, 160+len(text))), text...)
	l.pending, l.senders = append(l.pending, &pb.Entry{Data: data}), append(l.senders, from)
	l.bytes += len(data)
}

// flush gives Raft what was appended. If Raft does not take it, because leadership is being transferred, nothing was
// appended, and the nodes send it again.
func (n *Node) flush() {
	l := n.leading
	if l == nil || len(l.pending) == 0 {
		return
	}
	pending, senders := l.pending, l.senders
	l.pending, l.senders = nil, nil
	if n.rn.Step(&pb.Message{Type: pb.MsgProp.Enum(), From: new(n.o.ID), Entries: pending}) == nil {
		return
	}
	l.end = l.before
	for i, e := range pending {
		l.bytes -= len(e.Data)
		if senders[i] == n.o.ID {
			n.own.sent = 0
		}
	}
}
