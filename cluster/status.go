package cluster

import (
	"slices"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
)

// ClusterStatus returns what this node knows of the cluster. It never waits.
func (c *Cluster) ClusterStatus() job.ClusterStatus {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	me := c.o.Identity
	s := job.ClusterStatus{
		Cluster: me.Cluster, Node: me.Node, Role: "follower", Term: c.notes.term, Seq: c.notes.pos.Seq,
		ClockOffsetMs: c.notes.clockAhead.Milliseconds(), Nodes: []job.MemberStatus{},
	}
	for _, m := range c.notes.members {
		of := job.MemberStatus{Node: m.Node, Address: m.Address, Role: m.Role.String(), Leads: m.ID == c.notes.leader}
		if behind, known := c.notes.behind[m.ID]; known {
			of.Lag = &behind
		}
		if of.Leads {
			s.Leader = m.Node
		}
		if m.ID == me.ID && m.Role == job.Learner {
			s.Role = "learner"
		}
		s.Nodes = append(s.Nodes, of)
	}
	switch {
	case c.notes.leader == me.ID:
		s.Role = "leader"
	case c.notes.leader == 0 && s.Role != "learner":
		s.Role = "candidate"
	}
	return s
}

// progress notes how far the members are, and which ones are away, if this node leads.
func (s *notes) progress(n *node.Node) {
	behind, away := map[uint64]uint64{}, n.Away()
	if _, leads := n.Leads(); leads {
		for _, m := range members(n) {
			if entries, known := n.Behind(m.ID); known {
				behind[m.ID] = entries
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind, s.away = behind, away
}

// Away reports whether this node leads and has heard nothing of a member for 30 seconds. Time in which this process was
// suspended, or did not lead, does not count.
func (c *Cluster) Away(name string) bool {
	m := c.member(name)
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	return c.notes.leads != 0 && c.notes.away[m.ID]
}

// promoteBelow is how many entries a learner may lack when it becomes a voter.
const promoteBelow = 1000

// promote makes learners that have caught up voters.
func (c *Cluster) promote(n *node.Node) {
	if _, leads := n.Leads(); !leads {
		return
	}
	for _, m := range members(n) {
		if entries, known := n.Behind(m.ID); m.Role == job.Learner && known && entries < promoteBelow {
			m.Role = job.Voter
			if n.Change(m) == nil {
				c.o.Logger.Info("a node has all entries, and votes from now on", "node", m.Node)
			}
			return
		}
	}
}

func (c *Cluster) members() []job.Member {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	return slices.Clone(c.notes.members)
}

// leader returns the member that leads.
func (c *Cluster) leader() (job.Member, bool) {
	c.notes.mu.Lock()
	id := c.notes.leader
	c.notes.mu.Unlock()
	if id == 0 {
		return job.Member{}, false
	}
	return c.byID(id)
}

func members(n *node.Node) []job.Member {
	list, _ := n.Members()
	return list
}
