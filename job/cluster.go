package job

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// A log of several nodes has commands about these nodes themselves. The state of each node has their result, so a copy of
// the state knows the members of the cluster, and which commands of each node it includes.

// MaxMembers bounds the members of a cluster, and MaxAddressBytes their addresses.
const (
	MaxMembers      = 9
	MaxAddressBytes = 255
)

// Why a change of the nodes is refused.
var (
	ErrNoNode = errors.New("the cluster has no such node")
	ErrQuorum = errors.New("too few nodes would be left that vote")
)

// MaxRemoved bounds the nodes that a cluster remembers as removed. Their names cannot be used again.
const MaxRemoved = 100

// Origin is what a log of several nodes knows of the commands of one node. The process of the node draws an id when it
// starts, announces it, and numbers its commands from 1 on. So each command is carried out once, however often the process
// sends it, and a command that is missing delays those after it instead of being skipped.
//
// The leader decides by it which commands it writes, the log which ones are answered, and Apply which ones are carried
// out, all by these two methods.
type Origin struct {
	ID    uint64
	Start uint64 // how many processes of this node have announced an id
	Last  uint64 // the number of the last command in the log
}

// Announce notes that the next process of the node has started. From then on, no command of the process before it is
// taken. It returns false if another process announced itself first: this announcement then has no effect.
func (o *Origin) Announce(id, start uint64) bool {
	if start != o.Start+1 {
		return false
	}
	*o = Origin{ID: id, Start: start}
	return true
}

// Take notes that a command is in the log. It returns false if the command is of an earlier process, was taken before, or
// if one before it is missing: the command then has no effect.
func (o *Origin) Take(id, number uint64) bool {
	if id != o.ID || number != o.Last+1 {
		return false
	}
	o.Last = number
	return true
}

// Cluster is what a state knows of the log of several nodes from which it was made. The zero value: it was made by a
// single server.
type Cluster struct {
	ID string
	// Index and Term are those of the last entry that the state includes in full.
	Index, Term uint64
	Members     []Member     // by name
	Removed     []string     // the names of the last MaxRemoved nodes that were removed, in this order
	Origins     []NodeOrigin // by name
}

// NodeOrigin is the origin of a node, and the newest level that the program of its process knows.
type NodeOrigin struct {
	Node  string
	Level int
	Origin
}

// Level returns the newest level that the programs of all members know, or 0 if one has not announced itself yet.
func (c *Cluster) Level() int {
	level := math.MaxInt32
	for _, m := range c.Members {
		if n, found := slices.BinarySearchFunc(c.Origins, m.Node, byNode); found {
			level = min(level, c.Origins[n].Level)
		} else {
			return 0
		}
	}
	return level
}

// Follow notes the next command of the log. It returns false if the command has no effect, because it is a repeat or out
// of its order. cmd may be nil if it is neither a SetMember nor an Announce.
func (c *Cluster) Follow(p *Place, cmd Command) bool {
	if p.Index != 0 {
		c.Index, c.Term = p.Index, p.Term
	}
	switch cmd := cmd.(type) {
	case Announce:
		o := c.origin(cmd.Node)
		if !o.Announce(cmd.Origin, cmd.Start) {
			return false
		}
		o.Level = cmd.Level
		return true
	case SetMember:
		if p.Origin != 0 && !c.origin(p.Node).Take(p.Origin, p.Number) {
			return false
		}
		c.set(cmd.Member)
		return true
	}
	return p.Origin == 0 || c.origin(p.Node).Take(p.Origin, p.Number)
}

// Of returns the origin of a node.
func (c *Cluster) Of(node string) Origin {
	if n, found := slices.BinarySearchFunc(c.Origins, node, byNode); found {
		return c.Origins[n].Origin
	}
	return Origin{}
}

// Member returns a member by its name. If it was removed, only its name and its role are known. If there is none, its role is 0.
func (c *Cluster) Member(node string) (m Member) {
	if n, found := slices.BinarySearchFunc(c.Members, node, byName); found {
		m = c.Members[n]
	} else if slices.Contains(c.Removed, node) {
		m = Member{Node: node, Role: Removed}
	}
	return m
}

func byName(m Member, node string) int { return cmp.Compare(m.Node, node) }

func byNode(o NodeOrigin, node string) int { return cmp.Compare(o.Node, node) }

func (c *Cluster) origin(node string) *NodeOrigin {
	n, found := slices.BinarySearchFunc(c.Origins, node, byNode)
	if !found {
		c.Origins = slices.Insert(c.Origins, n, NodeOrigin{Node: node})
	}
	return &c.Origins[n]
}

// set gives a member its role and its address. A node that was removed has no origin any more, so no command of it is
// taken.
func (c *Cluster) set(m Member) {
	n, found := slices.BinarySearchFunc(c.Members, m.Node, byName)
	switch {
	case m.Role == Removed:
		if found {
			c.Members = slices.Delete(c.Members, n, n+1)
		}
		c.Origins = slices.DeleteFunc(c.Origins, func(o NodeOrigin) bool { return o.Node == m.Node })
		c.Removed = append(slices.DeleteFunc(c.Removed, func(name string) bool { return name == m.Node }), m.Node)
		c.Removed = c.Removed[max(0, len(c.Removed)-MaxRemoved):]
	case found:
		c.Members[n] = m
	default:
		c.Members = slices.Insert(c.Members, n, m)
	}
}

// Clone returns a copy that shares no memory.
func (c *Cluster) Clone() Cluster {
	d := *c
	d.Members, d.Removed, d.Origins = slices.Clone(c.Members), slices.Clone(c.Removed), slices.Clone(c.Origins)
	return d
}

// Place is where a command is in a log of several nodes. The zero value: the log has one process.
type Place struct {
	Node   string
	Origin uint64 // 0: no process numbered the command
	Number uint64
	// Index and Term are those of the entry that ends with this command. 0: the entry has more commands.
	Index, Term uint64
}

// MemberRole is what a member does for the log.
type MemberRole uint8

const (
	Voter   MemberRole = iota + 1 // a command is stored once most voters have it on disk
	Learner                       // it has all commands, and does not vote
	Removed                       // it is no member any more
)

var memberRoles = []string{"", "voter", "learner", "removed"}

func (r MemberRole) String() string { return memberRoles[r] }

// Member is a node of a cluster.
type Member struct {
	ID      uint64 // of Raft. No other member ever had it
	Node    string // its name, which no other member ever had
	Address string
	Role    MemberRole
}

// SetMember gives a member its role and its address.
type SetMember struct{ Member }

func (SetMember) Verb() string { return "member" }

func (m SetMember) Encode() (fieldText, body []byte) {
	var f fields
	f.hex("id", m.ID)
	f.text("node", m.Node)
	f.text("address", m.Address)
	f.text("role", m.Role.String())
	return f, nil
}

func decodeSetMember(r *fieldReader) Command {
	var m SetMember
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "id":
			m.ID = r.hex(key, raw)
		case "node":
			m.Node = r.name(key, raw)
		case "address":
			m.Address = r.bounded(key, raw, MaxAddressBytes)
		case "role":
			m.Role = MemberRole(max(0, slices.Index(memberRoles, raw)))
		default:
			r.unknown(key)
		}
	}
	if m.ID == 0 || m.Node == "" || m.Address == "" || m.Role == 0 {
		r.fail(fmt.Errorf("a member needs an id, a node, an address and a role"))
	}
	return m
}

// Announce says that a process of a node has started, under which origin it numbers its commands, and the newest level
// that its program knows.
type Announce struct {
	Node          string
	Origin, Start uint64
	Level         int
}

func (Announce) Verb() string { return "announce" }

func (a Announce) Encode() (fieldText, body []byte) {
	var f fields
	f.text("node", a.Node)
	f.hex("origin", a.Origin)
	f.int("start", int64(a.Start))
	f.int("level", int64(a.Level))
	return f, nil
}

func decodeAnnounce(r *fieldReader) Command {
	var a Announce
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "node":
			a.Node = r.name(key, raw)
		case "origin":
			a.Origin = r.hex(key, raw)
		case "start":
			a.Start = uint64(r.int(key, raw, 1, math.MaxInt64))
		case "level":
			a.Level = int(r.int(key, raw, 1, math.MaxInt32))
		default:
			r.unknown(key)
		}
	}
	if a.Node == "" || a.Origin == 0 || a.Start == 0 || a.Level == 0 {
		r.fail(fmt.Errorf("an announcement needs a node, an origin, a start and a level"))
	}
	return a
}

// hex appends a number as 16 hexadecimal digits.
func (f *fields) hex(key string, value uint64) {
	f.key(key)
	*f = fmt.Appendf(*f, "%016x", value)
}

// hex reads a number of 16 hexadecimal digits, which is not 0.
func (r *fieldReader) hex(key, raw string) uint64 {
	n, err := strconv.ParseUint(raw, 16, 64)
	if err != nil || fmt.Sprintf("%016x", n) != raw || n == 0 {
		r.fail(fmt.Errorf("field %s=%s is not 16 hexadecimal digits", key, raw))
	}
	return n
}

// ClusterStatus is what a node knows of its cluster.
type ClusterStatus struct {
	Cluster string `json:"cluster" doc:"the id of the cluster"`
	Group   int    `json:"group" doc:"the group of nodes that share a log"`
	Node    string `json:"node" doc:"the name of the node that answers"`
	Role    string `json:"role" enum:"leader,follower,candidate,learner" doc:"what this node does"`
	Term    uint64 `json:"term" doc:"the period in which one node leads without interruption"`
	Leader  string `json:"leader" doc:"the name of the node that leads, or empty if this node knows none"`
	Seq     uint64 `json:"seq" doc:"of the last command that this node has"`
	// ClockOffsetMs is how far the wall clock of the node is ahead of the median of all nodes.
	ClockOffsetMs int64          `json:"clock_offset_ms" doc:"how far the wall clock of this node is ahead of the median of all nodes"`
	Nodes         []MemberStatus `json:"nodes" maxItems:"9"`
}

// MemberStatus is what a node knows of a member.
type MemberStatus struct {
	Node    string  `json:"node"`
	Address string  `json:"address" doc:"its --cluster-listen"`
	Role    string  `json:"role" enum:"voter,learner" doc:"a learner has all commands, and does not vote"`
	Leads   bool    `json:"leads"`
	Lag     *uint64 `json:"lag" minimum:"0" doc:"entries of the log that it lacks, or null if the leader was not asked"`
}
