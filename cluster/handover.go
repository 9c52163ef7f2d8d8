package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
)

// transfer lets another node lead, and returns it.
func (c *Cluster) transfer(ctx context.Context, name string) (job.Member, error) {
	if name == c.o.Identity.Node {
		return job.Member{}, nil
	}
	to, err := c.successor(ctx, name)
	if err != nil {
		return to, err
	}
	c.event(func(n *node.Node) { n.Transfer(to.ID) })
	for {
		if leader, known := c.leader(); known && leader.ID != c.o.Identity.ID {
			if leader.ID != to.ID && name != "" {
				return leader, fmt.Errorf("node %s leads now, and not node %s", leader.Node, name)
			}
			return leader, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return to, fmt.Errorf("node %s did not take over in time", to.Node)
		}
	}
}

// HandOver lets another node lead, if this one does.
func (c *Cluster) HandOver(ctx context.Context) error {
	if _, leads := c.Leads(); !leads {
		return nil
	}
	_, err := c.transfer(ctx, "")
	return err
}

// successor returns the voter with this name, or with "" the one that lacks the fewest entries.
func (c *Cluster) successor(ctx context.Context, name string) (job.Member, error) {
	if name != "" {
		m := c.member(name)
		if m.Role != job.Voter || m.ID == c.o.Identity.ID {
			return m, fmt.Errorf("%w that votes: %s", job.ErrNoNode, name)
		}
		return m, nil
	}
	best, err := ofNode(ctx, c, (*node.Node).Successor)
	if err == nil && best.ID == 0 {
		err = fmt.Errorf("%w: no other node can lead", job.ErrQuorum)
	}
	return best, err
}
