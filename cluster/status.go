package cluster

import (
	"slices"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
)

// Status is what a node knows of its cluster.
type Status struct {
	Cluster string         `json:"cluster"`
	Node    string         `json:"node"`
	Role    string         `json:"role"` // leader, follower, candidate or learner
	Term    uint64         `json:"term"`
	Leader  string         `json:"leader,omitzero"` // its name; "": none is known
	Seq     uint64         `json:"seq"`             // of the last command that this node has
	Members []MemberStatus `json:"members"`
}

// MemberStatus is what a node knows of a member.
type MemberStatus struct {
	Node    string  `json:"node"`
	Address string  `json:"address"`
	Role    string  `json:"role"`
	Behind  *uint64 `json:"behind,omitzero"` // entries that it lacks, as far as the leader knows; nil elsewhere
}

// Members returns the members, and which one leads.
func (c *Cluster) Members() Status {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	s := Status{Cluster: c.o.Identity.Cluster, Node: c.o.Identity.Node, Term: c.notes.term, Seq: c.notes.pos.Seq, Role: "follower"}
	for _, m := range c.notes.members {
		if m.Role == job.Removed {
			continue
		}
		of := MemberStatus{Node: m.Node, Address: m.Address, Role: m.Role.String()}
		if behind, known := c.notes.behind[m.ID]; known {
			of.Behind = &behind
		}
		if m.ID == c.notes.leader {
			s.Leader = m.Node
		}
		if m.ID == c.o.Identity.ID && m.Role == job.Learner {
			s.Role = "learner"
		}
		s.Members = append(s.Members, of)
	}
	switch {
	case c.notes.leader == c.o.Identity.ID:
		s.Role = "leader"
	case c.notes.leader == 0 && s.Role != "learner":
		s.Role = "candidate"
	}
	return s
}

// progress notes how far the members are, if this node leads.
func (s *notes) progress(n *node.Node) {
	behind := map[uint64]uint64{}
	if _, leads := n.Leads(); leads {
		for _, m := range n.Members() {
			if entries, known := n.Behind(m.ID); known {
				behind[m.ID] = entries
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = behind
}

// promoteBelow is how many entries a learner may lack when it becomes a voter.
const promoteBelow = 1000

// promote makes learners that have caught up voters.
func (c *Cluster) promote(n *node.Node) {
	if _, leads := n.Leads(); !leads {
		return
	}
	for _, m := range n.Members() {
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
