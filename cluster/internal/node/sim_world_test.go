package node

import (
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// A world is some machines in one goroutine: nodes, logs with writes that are not durable yet, stores that are written to
// the disk late, and a network that loses, repeats, delays and reorders messages and cuts machines off, also in one
// direction. A seed decides everything.
type world struct {
	*rand.Rand
	machines []*machine
	net      []envelope
	now      int64
	trace    io.Writer
	fault    fault
	load
	figures figures
}

// fault is a mistake that the simulation must notice.
type fault int

const (
	none        fault = iota
	forgetVote        // a term and a vote are not durable when they are answered
	earlyWrite        // writes are answered before they are durable: the disk lies
	lateStart         // a leader takes commands before it has delivered the earlier terms
	withoutRule       // a leader takes commands out of their order, and processes learn that these are stored
)

type figures struct {
	Cuts, Elections, Acked, Unknown, NotStored, Refused, Again, Reads, Applied, Jobs, Compared, Starts, Bases, Changes int
}

type envelope struct {
	from, to uint64
	m        Message
}

// machine is a member. What is not in durable or saved is lost with the power.
type machine struct {
	id         uint64
	up         bool
	mute, deaf bool // nothing that it sends arrives; nothing that is sent to it arrives
	node       *Node
	disk       *disk // what Raft reads
	durable    *disk // what a power cut leaves
	writes     []Write
	taken      []Delivery
	fs         *vfs.MemFS // of the store
	store      *store.Store
	applied    uint64 // by it
	saved      saved
	delivered  uint64            // the index up to which the node knows that its entries were delivered
	asked      map[uint64]uint64 // the seq that an answer must have, by ticket
}

// saved is how far the store on the disk is.
type saved struct {
	cluster job.Cluster
	seq     uint64 // more than that of the end of an entry if the store has a part of one
	whole   bool   // it has no part of an entry
}

func newWorld(seed uint64, f fault) (*world, func() uint64) {
	h := fnv.New64a()
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), trace: h, fault: f, now: 1_000_000, load: newLoad()}
	founders := []job.Member{member(1, job.Voter), member(2, job.Voter), member(3, job.Voter)}
	for range 3 {
		w.add(founders...)
	}
	return w, h.Sum64
}

func member(id uint64, role job.MemberRole) job.Member {
	return job.Member{ID: id, Node: fmt.Sprint("n", id), Address: "a", Role: role}
}

// add starts a new machine. A later one knows no members, and gets a base.
func (w *world) add(founders ...job.Member) {
	m := &machine{id: uint64(len(w.machines)) + 1, fs: vfs.NewCrashableMem(), saved: saved{whole: true}}
	w.open(m)
	m.durable = &disk{m: m, hard: &pb.HardState{Term: new(uint64(0))}}
	if len(founders) > 0 {
		m.store.Found("00000000000000c1", founders...)
		m.durable.first, m.durable.term, m.durable.hard.Term = 1, 1, new(uint64(1))
	}
	w.save(m)
	w.machines = append(w.machines, m)
	w.start(m)
}

// change lets the leader change the members: there are three to five voters, and new machines learn first.
func (w *world) change(m *machine) {
	if _, leads := m.node.Leads(); !leads {
		return
	}
	members := m.store.Cluster().Members
	count := map[job.MemberRole]int{}
	for _, of := range members {
		count[of.Role]++
	}
	set := func(id uint64, role job.MemberRole) {
		if err := m.node.Change(member(id, role)); err == nil {
			w.figures.Changes++
		}
	}
	of := members[w.IntN(len(members))]
	switch behind, known := m.node.Behind(of.ID); {
	case count[job.Learner] == 0 && count[job.Voter] < 5 && len(w.machines) < 9:
		set(uint64(len(w.machines))+1, job.Learner)
		w.add()
	case of.Role == job.Learner && known && behind < 20:
		set(of.ID, job.Voter)
	case of.Role == job.Voter && count[job.Voter] > 3:
		set(of.ID, job.Removed)
	}
}

// base gives a machine the state of another one that includes an index.
func (w *world) base(m *machine, index uint64) {
	for _, from := range w.machines {
		if from.up && !from.mute && !from.deaf && from.saved.cluster.Index >= index && from.saved.whole {
			for _, s := range m.node.Abandon() {
				s.Proposal.Done(s.Seq, s.At, s.Err)
			}
			w.close(m)
			m.fs, m.saved = from.fs.CrashClone(vfs.CrashCloneCfg{}), from.saved
			m.durable = &disk{m: m, first: m.saved.cluster.Index, term: m.saved.cluster.Term, hard: m.durable.hard}
			w.start(m)
			w.figures.Bases++
			return
		}
	}
}

// receive passes a message to a machine.
func (w *world) receive(m *machine, e envelope) {
	m.node.Hear(e.m.Now)
	switch {
	case e.m.Raft != nil:
		if m.node.Step(proto.Clone(e.m.Raft).(*pb.Message)) {
			w.base(m, e.m.Raft.Snapshot.GetMetadata().GetIndex())
		}
	case e.m.Resend != nil:
		m.node.Resend(e.m.Resend)
	case !w.group(m, e.from, e.m.Group):
		w.net = append(w.net, e)
	}
}

// group passes a group to a machine, which takes it out of its order if that is the fault.
func (w *world) group(m *machine, from uint64, g *Group) bool {
	if l := m.node.leading; w.fault == withoutRule && l != nil && g.Start == 0 {
		expect(&l.state, g)
	}
	return m.node.Group(from, g)
}

// expect makes a group the next one of its process.
func expect(state *job.Cluster, g *Group) {
	for i := range state.Origins {
		if o := &state.Origins[i]; o.Node == g.Node && o.ID == g.Origin {
			o.Last = g.First - 1
		}
	}
}

func (w *world) start(m *machine) {
	if m.store == nil {
		w.open(m)
	}
	m.disk, m.writes, m.taken, m.asked = m.durable.clone(), nil, nil, map[uint64]uint64{}
	n, err := New(Options{
		ID: m.id, Name: fmt.Sprint("n", m.id), Storage: m.disk, Position: m.position(), State: m.store.Cluster(), Origin: w.Uint64() | 1, Level: 1, Salt: 7, Now: w.clock(m),
		Refuse: func(c *Command) string {
			if c.Lane == journal.Bulk && len(c.Body)%10 == 7 {
				return "disk_full"
			}
			return ""
		},
		Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)},
	})
	if err != nil {
		panic(err)
	}
	m.node, m.up, m.delivered = n, true, m.position().Index
	w.figures.Starts++
}

// position returns how far the store in memory is.
func (m *machine) position() Position {
	c := m.store.Cluster()
	return Position{Index: c.Index, Term: c.Term, Seq: m.store.Applied(), At: m.store.At()}
}

// clock returns the time of a machine. The clocks differ, and those of machines that were off stand still meanwhile.
func (w *world) clock(m *machine) int64 { return w.now + int64(m.id)*137 }

// powerCut ends a machine. Some of the writes that wait are durable, and perhaps a part of the next one.
func (w *world) powerCut(m *machine) {
	whole := w.IntN(len(m.writes) + 1)
	for i := range m.writes[:whole] {
		w.keep(m, &m.writes[i], len(m.writes[i].Entries))
	}
	if whole < len(m.writes) && w.IntN(2) == 0 {
		next := &m.writes[whole]
		w.keep(m, next, w.IntN(len(next.Entries)+1))
	}
	w.hangUp(m)
	w.close(m)
	m.fs = m.fs.CrashClone(vfs.CrashCloneCfg{})
	m.up = false
	w.figures.Cuts++
}

// keep makes a write durable, with its first n entries.
func (w *world) keep(m *machine, x *Write, n int) {
	if w.fault != earlyWrite {
		m.durable.put(x, n, w.fault != forgetVote)
	}
}

// ready does what a driver does.
func (w *world) ready(m *machine) {
	leader, term := m.node.Leader()
	if own := m.node.own.groups; w.fault == withoutRule && len(own) > 0 {
		expect(&m.node.state, &own[0].Group)
	}
	rd := m.node.Ready()
	if l, t := m.node.Leader(); l == m.id && (l != leader || t != term) {
		w.figures.Elections++
	}
	if l := m.node.leading; w.fault == lateStart && l != nil && !l.ready {
		l.ready, l.end = true, end{m.node.pos.Seq, m.node.pos.At, m.node.state.Clone()}
	}
	m.writes = append(m.writes, rd.Writes...)
	if w.fault == earlyWrite {
		for i := range rd.Writes {
			w.written(m, &rd.Writes[i], false)
		}
	}
	for _, e := range rd.Messages {
		w.net = append(w.net, envelope{m.id, e.To, e})
	}
	m.taken = append(m.taken, rd.Deliveries...)
	for i := range rd.Deliveries {
		d := &rd.Deliveries[i]
		for _, s := range d.Settled {
			s.Proposal.Done(s.Seq, s.At, s.Err)
		}
		for i := range d.Records {
			w.delivered(m, &d.Records[i])
		}
		w.commit(m)
	}
	for _, s := range rd.Settled {
		s.Proposal.Done(s.Seq, s.At, s.Err)
	}
	for _, r := range rd.Reads {
		w.figures.Reads++
		if r.Seq < m.asked[r.Ticket] {
			panic(fmt.Sprintf("node %d reads at %d, and %d was answered before the question", m.id, r.Seq, m.asked[r.Ticket]))
		}
		delete(m.asked, r.Ticket)
	}
}

// written makes a write durable and answers it.
func (w *world) written(m *machine, x *Write, durable bool) {
	m.disk.put(x, len(x.Entries), true)
	if durable {
		m.durable.put(x, len(x.Entries), w.fault != forgetVote)
	}
	m.node.Written(x)
}

func (w *world) step() {
	m := w.machines[w.IntN(len(w.machines))]
	switch k := w.IntN(1000); {
	case k < 80:
		w.now += int64(w.IntN(30))
		if m.up {
			m.node.Tick(w.clock(m))
		}
	case k < 480: // one of the first messages, so they are reordered
		if len(w.net) == 0 {
			return
		}
		i := w.IntN(min(8, len(w.net)))
		e := w.net[i]
		w.net = slices.Delete(w.net, i, i+1)
		to := w.machines[e.to-1]
		if p := w.IntN(100); p < 3 || to.deaf || w.machines[e.from-1].mute || !to.up {
			if from := w.machines[e.from-1]; from.up && w.IntN(2) == 0 {
				from.node.Lost(e.to)
			}
			return
		} else if p < 6 {
			w.net = append(w.net, e) // again, perhaps much later
		}
		m = to
		w.receive(m, e)
	case k < 740: // the disk finishes one write
		if m.up && len(m.writes) > 0 {
			x := m.writes[0]
			m.writes = m.writes[1:]
			if w.fault == earlyWrite {
				m.durable.put(&x, len(x.Entries), true)
			} else {
				w.written(m, &x, true)
			}
		}
	case k < 820:
		if m.up && len(m.taken) > 0 {
			d := m.taken[0]
			m.taken = m.taken[1:]
			m.node.Delivered(&d)
			m.delivered = d.Pos.Index
		}
	case k < 845:
		if m.up { // the store is written to the disk; the log has all of it
			w.save(m)
		}
	case k < 850:
		if m.up && len(m.writes) == 0 {
			index := min(m.saved.cluster.Index, m.delivered)
			index -= min(index, uint64(w.IntN(10)))
			m.disk.cut(index)
			m.durable.cut(index)
		}
	case k < 956:
		if m.up {
			for range 1 + w.IntN(3) {
				w.propose(m)
			}
		}
	case k < 968:
		if m.up {
			w.change(m)
		}
	case k < 980:
		if m.up {
			m.asked[m.node.ReadIndex()] = w.acked
		}
	case k < 988: // the power fails
		if m.up && w.IntN(3) == 0 {
			w.powerCut(m)
		}
	case k < 996:
		if !m.up {
			w.start(m)
		}
	default:
		m.mute, m.deaf = !m.mute && w.IntN(2) == 0, !m.deaf && w.IntN(2) == 0
	}
	if m.up {
		w.ready(m)
	}
}

// heal ends all faults, and lets the machines work until all of them have delivered everything.
func (w *world) heal() {
	w.fault = none
	for _, m := range w.machines {
		m.mute, m.deaf = false, false
		if !m.up {
			w.start(m)
		}
	}
	w.work(400)
}

// work lets the machines work without faults for some ticks. The network loses what it would carry to or from one that is
// cut off.
func (w *world) work(ticks int) {
	for range ticks {
		w.now += 50
		for _, m := range w.machines {
			m.node.Tick(w.clock(m))
			w.ready(m)
			w.save(m)
			for len(m.writes)+len(m.taken) > 0 {
				writes, taken := m.writes, m.taken
				m.writes, m.taken = nil, nil
				for i := range writes {
					w.written(m, &writes[i], true)
				}
				for i := range taken {
					m.node.Delivered(&taken[i])
					m.delivered = taken[i].Pos.Index
				}
				w.ready(m)
			}
		}
		net := w.net
		w.net = nil
		for _, e := range net {
			if to := w.machines[e.to-1]; !to.deaf && !w.machines[e.from-1].mute {
				w.receive(to, e)
			}
		}
	}
}
