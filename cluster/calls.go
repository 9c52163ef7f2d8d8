package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
)

// callKind is a connection with one question and one answer, both in JSON.
const callKind = "call"

// callTimeout bounds a call, which may wait for a change of the members to be stored.
const callTimeout = 10 * time.Second

// maxCall bounds a question or an answer.
const maxCall = 1 << 20

// question is what one node asks another.
type question struct {
	Op      string     // one of the ops below
	Member  job.Member `json:",omitzero"` // that joins, or is removed
	Level   int        `json:",omitzero"` // the newest level of the program that asks
	Content []byte     `json:",omitzero"` // of opEngine
}

const (
	opJoin     = "join"     // who are you? The answer has the identity of the cluster
	opAdd      = "add"      // make me a learner
	opSet      = "set"      // a member has another address
	opRemove   = "remove"   // make this node no member
	opTransfer = "transfer" // let this node lead, or any other if none is named
	opStatus   = "status"
	opEngine   = "engine" // a question of the engine to the leader's engine
)

// reply is the answer to a question.
type reply struct {
	Error    string   `json:",omitzero"`
	Leader   string   `json:",omitzero"` // the address of the leader, which must be asked instead
	Identity Identity `json:",omitzero"`
	Status   Status   `json:",omitzero"`
	Content  []byte   `json:",omitzero"`
}

// ask sends a question to the node at an address, and to the leader if that node is not the leader.
func (c *Cluster) ask(ctx context.Context, address string, q question) (r reply, err error) {
	return ask(ctx, c.o.Dial, c.o.Identity, address, q)
}

func ask(ctx context.Context, dial func(context.Context, string) (net.Conn, error), of *Identity, address string, q question) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for range 4 { // the leader may change meanwhile
		if r, err = askOnce(ctx, dial, of, address, q); err != nil {
			return r, fmt.Errorf("ask %s: %w", address, err)
		}
		switch {
		case r.Leader != "" && r.Leader != address:
			address = r.Leader
			continue
		case r.Error != "":
			return r, errors.New(r.Error)
		}
		return r, nil
	}
	return r, ErrNoLeader
}

func askOnce(ctx context.Context, dial func(context.Context, string) (net.Conn, error), of *Identity, address string, q question) (r reply, err error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	h := hello{cluster: "none", node: "none", kind: callKind, level: job.Level}
	if of != nil {
		h.cluster, h.from, h.node = of.Cluster, of.ID, of.Node
	}
	if err := greet(conn, &h); err != nil {
		return r, err
	}
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return r, err
	}
	text, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if err := writeText(conn, text); err != nil {
		return r, err
	}
	if text, err = readText(conn); err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

func writeText(w io.Writer, text []byte) error {
	if len(text) > maxCall {
		return fmt.Errorf("a message of %d bytes", len(text))
	}
	_, err := fmt.Fprintf(w, "%d\n%s", len(text), text)
	return err
}

func readText(conn net.Conn) ([]byte, error) {
	line, err := readLine(conn)
	if err != nil {
		return nil, err
	}
	var n int
	if _, err := fmt.Sscanf(line, "%d\n", &n); err != nil || n < 0 || n > maxCall {
		return nil, fmt.Errorf("a message of %.20q bytes", line)
	}
	text := make([]byte, n)
	_, err = io.ReadFull(conn, text)
	return text, err
}

// answerCall answers the question of a connection.
func (c *Cluster) answerCall(ctx context.Context, conn net.Conn) error {
	conn.SetDeadline(time.Now().Add(callTimeout))
	text, err := readText(conn)
	if err != nil {
		return err
	}
	var q question
	var r reply
	if err = json.Unmarshal(text, &q); err == nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		r, err = c.reply(ctx, &q)
	}
	if err != nil {
		r = reply{Error: err.Error()}
	}
	if text, err = json.Marshal(r); err != nil {
		return err
	}
	return writeText(conn, text)
}

// reply answers a question, or names the leader.
func (c *Cluster) reply(ctx context.Context, q *question) (r reply, err error) {
	switch q.Op {
	case opJoin:
		return reply{Identity: Identity{Cluster: c.o.Identity.Cluster, UUID: c.o.Identity.UUID, Salt: c.o.Identity.Salt}}, c.mayJoin(q)
	case opStatus:
		return reply{Status: c.Members()}, nil
	}
	if _, leads := c.Leads(); !leads {
		leader, known := c.leader()
		if !known {
			return r, ErrNoLeader
		}
		return reply{Leader: leader.Address}, nil
	}
	switch q.Op {
	case opAdd:
		if err := c.mayJoin(q); err != nil {
			return r, err
		}
		q.Member.Role = job.Learner
		return r, c.change(ctx, q.Member)
	case opRemove:
		m := c.member(q.Member.Node)
		if m.Role == 0 || m.Role == job.Removed {
			return r, fmt.Errorf("there is no node %s in the cluster", q.Member.Node)
		}
		m.Role = job.Removed
		return r, c.change(ctx, m)
	case opTransfer:
		return r, c.transfer(ctx, q.Member.Node)
	}
	return r, fmt.Errorf("the question %q is unknown", q.Op)
}

// mayJoin returns why a node cannot join, or nil.
func (c *Cluster) mayJoin(q *question) error {
	if err := job.CheckName("node", q.Member.Node); err != nil {
		return err
	}
	m := c.member(q.Member.Node)
	switch {
	case m.Role != 0 && m.ID != q.Member.ID:
		return fmt.Errorf("the name %s was used by another node of the cluster; choose a name that no node ever had", q.Member.Node)
	case m.Role == job.Removed:
		return fmt.Errorf("node %s was removed; let it join under a name that no node ever had, with an empty data directory", q.Member.Node)
	}
	active := 0
	for _, m := range c.members() {
		if m.Role != job.Removed {
			active++
		}
	}
	if m.Role == 0 && active >= job.MaxMembers {
		return fmt.Errorf("the cluster has %d nodes, which is the limit", active)
	}
	return nil
}

// change changes a member, and waits until this node has the change in its state. It tries again while another change is
// not finished.
func (c *Cluster) change(ctx context.Context, m job.Member) error {
	for {
		if now := c.member(m.Node); now == m {
			return nil
		}
		done := make(chan error, 1)
		if !c.event(func(n *node.Node) { done <- n.Change(m) }) {
			return ErrNoLeader
		}
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, node.ErrBusy) {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transfer lets another node lead.
func (c *Cluster) transfer(ctx context.Context, name string) error {
	to, err := c.successor(name)
	if err != nil {
		return err
	}
	c.event(func(n *node.Node) { n.Transfer(to.ID) })
	for {
		if leader, known := c.leader(); known && leader.ID == to.ID {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("node %s did not take over in time", to.Node)
		}
	}
}

// HandOver lets another node lead, if this one does.
func (c *Cluster) HandOver(ctx context.Context) error {
	if _, leads := c.Leads(); !leads {
		return nil
	}
	return c.transfer(ctx, "")
}

// successor returns the voter with this name, or with "" the one that lacks the fewest entries.
func (c *Cluster) successor(name string) (job.Member, error) {
	if name != "" {
		m := c.member(name)
		if m.Role != job.Voter || m.ID == c.o.Identity.ID {
			return m, fmt.Errorf("node %q is not another voter of the cluster", name)
		}
		return m, nil
	}
	best, least := job.Member{}, ^uint64(0)
	behind := make(chan map[uint64]uint64, 1)
	c.event(func(n *node.Node) {
		all := map[uint64]uint64{}
		for _, m := range n.Members() {
			if entries, known := n.Behind(m.ID); known {
				all[m.ID] = entries
			}
		}
		behind <- all
	})
	select {
	case all := <-behind:
		for _, m := range c.members() {
			if entries, known := all[m.ID]; known && m.Role == job.Voter && m.ID != c.o.Identity.ID && entries < least {
				best, least = m, entries
			}
		}
	case <-time.After(callTimeout):
	}
	if best.ID == 0 {
		return best, errors.New("no other node can lead")
	}
	return best, nil
}
