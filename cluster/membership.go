package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// mayRemove returns why a member must not be removed, or nil: most of the other voters must be alive, or nothing could be
// stored any more.
func (c *Cluster) mayRemove(ctx context.Context, m job.Member) error {
	if m.Role != job.Voter {
		return nil
	}
	heard, err := ofNode(ctx, c, (*node.Node).Alive)
	if err != nil {
		return err
	}
	others, answer := 0, 0
	for _, other := range c.members() {
		if other.Role == job.Voter && other.ID != m.ID {
			others++
			if heard[other.ID] {
				answer++
			}
		}
	}
	switch {
	case others == 0:
		return fmt.Errorf("%w: %s is the only node that votes", job.ErrQuorum, m.Node)
	case answer <= others/2:
		return fmt.Errorf("%w: without %s, %d of the other %d nodes that vote answer; start them, or remove those first that are gone for good", job.ErrQuorum, m.Node, answer, others)
	}
	return nil
}

// setAddress stores another address of a member.
func (c *Cluster) setAddress(ctx context.Context, to job.Member) error {
	m := c.member(to.Node)
	if m.ID != to.ID || m.Role == job.Removed {
		return fmt.Errorf("%w: %s", job.ErrNoNode, to.Node)
	}
	if m.Address == to.Address {
		return nil
	}
	m.Address = to.Address
	fields, _ := job.SetMember{Member: m}.Encode()
	done := make(chan error, 1)
	err := c.Propose(ctx, &journal.Proposal{Lane: journal.Control, Verb: job.SetMember{}.Verb(), Fields: fields, Done: func(_ uint64, _ int64, err error) { done <- err }})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mayJoin returns why a node cannot join, or nil.
func (c *Cluster) mayJoin(q *question) error {
	if err := job.CheckName("node", q.Member.Node); err != nil {
		return err
	}
	if level := c.level(); q.Level < level {
		return fmt.Errorf("the cluster follows the rules of level %d, and this program knows %d; next step: let a newer version of the program join", level, q.Level)
	}
	m := c.member(q.Member.Node)
	switch {
	case m.Role == job.Removed:
		return fmt.Errorf("node %s was removed; next step: let it join under a name that no node ever had, with an empty data directory", q.Member.Node)
	case m.Role != 0 && m.ID != q.Member.ID:
		return fmt.Errorf("the name %s belongs to another node of the cluster; next step: choose a name that no node ever had", q.Member.Node)
	case m.Role == 0 && len(c.members()) >= job.MaxMembers:
		return fmt.Errorf("the cluster has %d nodes, which is the limit; next step: remove one", job.MaxMembers)
	}
	return nil
}

// change gives a member a role, and waits until this node has the change in its state. It tries again while another change is
// not finished. A node that asks again to be a learner, while the leader has made it a voter, stays a voter.
func (c *Cluster) change(ctx context.Context, m job.Member) error {
	for {
		if now := c.member(m.Node).Role; now == m.Role || now == job.Voter && m.Role == job.Learner {
			return nil
		}
		refused, err := ofNode(ctx, c, func(n *node.Node) error { return n.Change(m) })
		if err != nil || refused != nil && !errors.Is(refused, node.ErrBusy) {
			return cmp.Or(err, refused)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
