package node

import (
	"errors"
	"time"

	"github.com/daybookq/daybook/journal"
)

const (
	// answerWithin is how many ticks a command may wait for its answer.
	answerWithin = int(5 * time.Second / TickEvery)
	// announceEvery is the number of ticks between two announcements of an origin.
	announceEvery = 2
	// resendEvery is for how many ticks nothing may come back before all groups are sent again.
	resendEvery = 20
)

// own are the commands of this process.
type own struct {
	lanes [2][]*journal.Proposal // not in a group yet
	// waits has the tick at which each command came that is not answered yet.
	waits     map[*journal.Proposal]int
	number    uint64   // of the last command in a group
	groups    []*group // that have not come back, in order
	sent      int      // how many of them this leader got
	progress  int      // the tick at which a group came back, or was sent first
	announced int      // the tick at which the origin was announced last
}

// group is a group with the commands that it was made of.
type group struct {
	Group
	proposals []*journal.Proposal
}

// ErrNoLeader: no node leads, so the command was not sent.
var ErrNoLeader = errors.New("no node leads")

// Propose takes a command, until Ready returns it in Settled or in a delivery.
func (n *Node) Propose(p *journal.Proposal) {
	n.own.lanes[p.Lane] = append(n.own.lanes[p.Lane], p)
	n.own.waits[p] = n.ticks
}

// Waiting returns how many commands are not answered yet.
func (n *Node) Waiting() int { return len(n.own.waits) }

// expire answers the commands that have waited too long. Those in a group may still come back. The others are dropped.
func (n *Node) expire() {
	for lane := range n.own.lanes {
		queue := n.own.lanes[lane]
		i := 0
		for i < len(queue) && n.own.waits[queue[i]] <= n.ticks-answerWithin {
			n.fail(queue[i], errors.Join(journal.ErrNotStored, ErrNoLeader))
			i++
		}
		n.own.lanes[lane] = queue[i:]
	}
	for _, g := range n.own.groups {
		for _, p := range g.proposals {
			if since, waits := n.own.waits[p]; waits && since <= n.ticks-answerWithin {
				n.fail(p, journal.ErrUnknown)
			}
		}
	}
	if len(n.own.groups) > 0 && n.own.progress <= n.ticks-resendEvery {
		n.own.sent, n.own.progress = 0, n.ticks
	}
}

func (n *Node) fail(p *journal.Proposal, err error) {
	delete(n.own.waits, p)
	n.out.Settled = append(n.out.Settled, Settled{Proposal: p, Err: err})
}

// send makes groups, and sends those that the leader has not got.
func (n *Node) send() {
	if n.leader == 0 {
		return
	}
	if of := n.state.Of(n.o.Name); of.ID != n.o.Origin {
		if n.own.announced <= n.ticks-announceEvery {
			if n.forward(&Group{Node: n.o.Name, Origin: n.o.Origin, Start: of.Start + 1, Level: n.o.Level}) {
				n.own.announced = n.ticks
			}
		}
		return
	}
	for len(n.own.groups) < maxGroups && n.form() {
	}
	for n.own.sent < len(n.own.groups) {
		if n.own.sent == 0 {
			n.own.progress = n.ticks
		}
		if !n.forward(&n.own.groups[n.own.sent].Group) {
			return
		}
		n.own.sent++
	}
}

// forward sends a group to the leader. It returns false if that is this node and takes nothing now.
func (n *Node) forward(g *Group) bool {
	if n.leader == n.o.ID {
		return n.Group(n.o.ID, g)
	}
	n.out.Messages = append(n.out.Messages, Message{To: n.leader, Group: g})
	return true
}

// form makes a group of all control commands that wait, and of bulk commands up to maxGroup.
func (n *Node) form() bool {
	g := &group{Group: Group{Node: n.o.Name, Origin: n.o.Origin, First: n.own.number + 1}}
	bytes := 0
	for lane, queue := range n.own.lanes {
		i := 0
		for i < len(queue) {
			p := queue[i]
			size := int(p.Cost())
			if bytes+size > maxGroup && len(g.proposals) > 0 {
				break
			}
			i++
			if err := p.Complete(); err != nil {
				n.fail(p, err)
				continue
			}
			bytes += size
			g.proposals = append(g.proposals, p)
			g.Commands = append(g.Commands, Command{p.Lane, p.Verb, p.Fields, p.Body})
		}
		n.own.lanes[lane] = queue[i:]
	}
	if len(g.proposals) == 0 {
		return false
	}
	n.own.number += uint64(len(g.proposals))
	n.own.groups = append(n.own.groups, g)
	return true
}

// ownGroup returns the group of this process that an entry has, or nil if it came back before, or is of another process.
func (n *Node) ownGroup(h *Header) *group {
	if h.Origin != n.o.Origin || h.Start != 0 || len(n.own.groups) == 0 {
		return nil
	}
	if g := n.own.groups[0]; g.First == h.Number && len(g.Commands) == h.N {
		return g
	}
	return nil
}

// came forgets a group that is in the log.
func (n *Node) came(g *group) {
	if len(n.own.groups) > 0 && n.own.groups[0] == g && n.state.Of(n.o.Name).Last >= g.First {
		n.own.groups = n.own.groups[1:]
		n.own.sent = max(n.own.sent-1, 0)
		n.own.progress = n.ticks
	}
}

// Resend sends the groups again from a command on, because the leader misses it.
func (n *Node) Resend(r *Resend) {
	if r.Origin != n.o.Origin {
		return
	}
	for i, g := range n.own.groups {
		if g.First >= r.Number {
			n.own.sent = min(n.own.sent, i)
			return
		}
	}
}
