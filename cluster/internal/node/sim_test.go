package node

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/cryptotest"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// A world is some machines in one goroutine: nodes, disks with writes that are not durable yet, states that are written to
// the disk late, and a network that loses, repeats, delays and reorders messages and cuts machines off. A seed decides
// everything.
type world struct {
	*rand.Rand
	machines []*machine
	net      []envelope
	now      int64
	trace    io.Writer
	fault    fault

	commands map[string]*fate // by text
	log      []string         // the commands by seq, from 1 on; as the first node that delivered each had it
	acked    uint64           // the highest seq of an answered command
	figures  figures
}

// fault is a mistake that the simulation must notice.
type fault int

const (
	none       fault = iota
	forgetVote       // a term and a vote are not durable when they are answered
	earlyWrite       // writes are answered before they are durable
	lateStart        // a leader takes commands before it has delivered the earlier terms
)

type figures struct {
	Cuts, Elections, Acked, Unknown, NotStored, Refused, Reads, Applied, Starts, Bases, Changes int
}

// fate is what a process was told of a command.
type fate struct {
	seq uint64
	err error
	any bool
}

type envelope struct {
	from, to uint64
	m        Message
}

// machine is a member. What is not in durable or saved is lost with the power.
type machine struct {
	id      uint64
	up, cut bool
	node    *Node
	disk    *disk // what Raft reads
	durable *disk // what a power cut leaves
	writes  []Write
	taken   []Delivery
	state   state // in memory
	saved   state // on disk
	starts  int
	asked   map[uint64]uint64 // the seq that an answer must have, by ticket
}

// state is what a store has: all commands, and the position.
type state struct {
	pos     Position
	cluster job.Cluster
	seq     uint64 // of the last command; more than pos.Seq if the store has a part of an entry
}

func (s *state) clone() state {
	return state{s.pos, s.cluster.Clone(), s.seq}
}

func (s *state) conf() *pb.ConfState { return ConfState(s.cluster.Members) }

type disk struct {
	m           *machine
	first, term uint64      // the index before the first entry, and its term
	log         []*pb.Entry // log[i] has index first+i+1
	hard        *pb.HardState
}

func (d *disk) clone() *disk {
	return &disk{d.m, d.first, d.term, slices.Clone(d.log), proto.Clone(d.hard).(*pb.HardState)}
}

func (d *disk) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return d.hard, d.m.state.conf(), nil
}

func (d *disk) Entries(lo, hi, size uint64) ([]*pb.Entry, error) {
	if lo <= d.first {
		return nil, raft.ErrCompacted
	}
	list := d.log[lo-d.first-1 : hi-d.first-1 : hi-d.first-1]
	bytes := uint64(0)
	for i, e := range list {
		if bytes += uint64(len(e.Data)); i > 0 && bytes > size {
			return list[:i:i], nil
		}
	}
	return list, nil
}

func (d *disk) Term(i uint64) (uint64, error) {
	switch {
	case i < d.first:
		return 0, raft.ErrCompacted
	case i == d.first:
		return d.term, nil
	case i > d.first+uint64(len(d.log)):
		return 0, raft.ErrUnavailable
	}
	return d.log[i-d.first-1].GetTerm(), nil
}
func (d *disk) LastIndex() (uint64, error)  { return d.first + uint64(len(d.log)), nil }
func (d *disk) FirstIndex() (uint64, error) { return d.first + 1, nil }

// Snapshot returns a note of the state on the disk.
func (d *disk) Snapshot() (*pb.Snapshot, error) {
	s := &d.m.saved
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(s.pos.Index), Term: new(s.pos.Term), ConfState: s.conf()}}, nil
}

// cut removes entries that the state on the disk has.
func (d *disk) cut(index uint64) {
	if index > d.first && index <= d.first+uint64(len(d.log)) {
		d.term, _ = d.Term(index)
		d.log = slices.Clone(d.log[index-d.first:])
		d.first = index
	}
}

// put carries out a write.
func (d *disk) put(w *Write, hard bool) {
	if len(w.Entries) > 0 {
		at := w.Entries[0].GetIndex() - d.first - 1
		d.log = append(d.log[:at:at], w.Entries...)
	}
	if w.Term != 0 && hard {
		d.hard = &pb.HardState{Term: new(w.Term), Vote: new(w.Vote), Commit: new(w.Commit)}
	}
}

func newWorld(seed uint64, f fault) (*world, func() uint64) {
	h := fnv.New64a()
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), trace: h, fault: f, now: 1_000_000, commands: map[string]*fate{}}
	founders := job.Cluster{Members: []job.Member{member(1, job.Voter), member(2, job.Voter), member(3, job.Voter)}}
	for range 3 {
		w.add(founders.Clone(), Position{Index: 1, Term: 1})
	}
	return w, h.Sum64
}

func member(id uint64, role job.MemberRole) job.Member {
	return job.Member{ID: id, Node: fmt.Sprint("n", id), Address: "a", Role: role}
}

// add starts a new machine. A later one knows no members, and gets a base.
func (w *world) add(of job.Cluster, pos Position) {
	m := &machine{id: uint64(len(w.machines)) + 1, saved: state{pos: pos, cluster: of}}
	m.durable = &disk{m: m, first: pos.Index, term: pos.Term, hard: &pb.HardState{Term: new(pos.Term)}}
	w.machines = append(w.machines, m)
	w.start(m)
}

// change lets the leader change the members: there are three to five voters, and new machines learn first.
func (w *world) change(m *machine) {
	if _, leads := m.node.Leads(); !leads {
		return
	}
	count := map[job.MemberRole]int{}
	for _, of := range m.state.cluster.Members {
		count[of.Role]++
	}
	set := func(id uint64, role job.MemberRole) {
		if err := m.node.Change(member(id, role)); err == nil {
			w.figures.Changes++
		}
	}
	of := m.state.cluster.Members[w.IntN(len(m.state.cluster.Members))]
	switch behind, known := m.node.Behind(of.ID); {
	case count[job.Learner] == 0 && count[job.Voter] < 5 && len(w.machines) < 9:
		set(uint64(len(w.machines))+1, job.Learner)
		w.add(job.Cluster{}, Position{})
	case of.Role == job.Learner && known && behind < 20:
		set(of.ID, job.Voter)
	case of.Role == job.Voter && count[job.Voter] > 3:
		set(of.ID, job.Removed)
	}
}

// base gives a machine the state of another one that includes an index.
func (w *world) base(m *machine, index uint64) {
	for _, from := range w.machines {
		if from.up && !from.cut && from.saved.pos.Index >= index && from.saved.pos.Seq == from.saved.seq {
			for _, s := range m.node.Abandon() {
				s.Proposal.Done(s.Seq, s.At, s.Err)
			}
			m.saved = from.saved.clone()
			m.durable = &disk{m: m, first: m.saved.pos.Index, term: m.saved.pos.Term, hard: m.durable.hard}
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
	case !m.node.Group(e.from, e.m.Group):
		w.net = append(w.net, e)
	}
}

func (w *world) start(m *machine) {
	m.starts++
	m.disk, m.state, m.writes, m.taken, m.asked = m.durable.clone(), m.saved.clone(), nil, nil, map[uint64]uint64{}
	pos := m.state.pos
	pos.Seq = m.state.seq
	n, err := New(Options{
		ID: m.id, Name: fmt.Sprint("n", m.id), Storage: m.disk, Position: pos, State: m.state.cluster, Origin: w.Uint64() | 1, Level: 1, Salt: 7, Now: w.clock(m),
		Refuse: func(c *Command) string {
			if c.Lane == journal.Bulk && c.Fields[len(c.Fields)-1] == '7' {
				return "disk_full"
			}
			return ""
		},
		Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)},
	})
	if err != nil {
		panic(err)
	}
	m.node, m.up = n, true
	w.figures.Starts++
}

// clock returns the time of a machine. The clocks differ, and those of machines that were off stand still meanwhile.
func (w *world) clock(m *machine) int64 { return w.now + int64(m.id)*137 }

// propose lets a process propose a command, whose fate the world remembers.
func (w *world) propose(m *machine) {
	text := fmt.Sprintf("id=%d", len(w.commands))
	f := &fate{}
	w.commands[text] = f
	p := &journal.Proposal{Lane: journal.Lane(w.IntN(2)), Verb: "create", Fields: []byte(text), Body: make([]byte, w.IntN(300)), Tag: f}
	before := m.node.Time()
	p.Done = func(seq uint64, at int64, err error) {
		if f.any {
			panic(text + " was answered twice")
		}
		if err == nil && at < before {
			panic(fmt.Sprintf("%s has the time %d, and the log's was %d before", text, at, before))
		}
		*f = fate{seq, err, true}
		switch refused, is := errors.AsType[*Refused](err); {
		case err == nil:
			w.acked = max(w.acked, seq)
			w.figures.Acked++
		case is && refused.Why == "disk_full":
			w.figures.Refused++
		case errors.Is(err, journal.ErrNotStored):
			w.figures.NotStored++
		default:
			w.figures.Unknown++
		}
	}
	m.node.Propose(p)
}

// ready does what a driver does.
func (w *world) ready(m *machine) {
	leader, term := m.node.Leader()
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

// delivered applies a record, and compares it with what the other machines had at this seq.
func (w *world) delivered(m *machine, r *journal.Record) {
	if r.Seq != m.state.seq+1 {
		panic(fmt.Sprintf("node %d delivers %d after %d", m.id, r.Seq, m.state.seq))
	}
	text := fmt.Sprintf("%s %s %d %+v", r.Verb, r.Fields, r.At, *r.Place)
	switch at := int(r.Seq) - 1; {
	case at == len(w.log):
		w.log = append(w.log, text)
	case at > len(w.log) || w.log[at] != text:
		panic(fmt.Sprintf("node %d has %q at %d, another node has not", m.id, text, r.Seq))
	}
	if f, own := r.Tag.(*fate); own && (!f.any || f.seq != r.Seq) {
		panic(fmt.Sprintf("a tag of %+v at %d", f, r.Seq))
	}
	m.state.seq = r.Seq
	if _, err := follow(&m.state.cluster, r); err != nil {
		panic(err)
	}
	if r.Place.Index != 0 {
		m.state.pos = Position{r.Place.Index, r.Place.Term, r.Seq, r.At}
	}
	w.figures.Applied++
	fmt.Fprintln(w.trace, m.id, r.Seq, text)
}

// written makes a write durable and answers it.
func (w *world) written(m *machine, x *Write, durable bool) {
	m.disk.put(x, true)
	if durable {
		m.durable.put(x, w.fault != forgetVote)
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
		if p := w.IntN(100); p < 3 || to.cut || w.machines[e.from-1].cut || !to.up {
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
				m.durable.put(&x, true)
			} else {
				w.written(m, &x, true)
			}
		}
	case k < 820:
		if m.up && len(m.taken) > 0 {
			d := m.taken[0]
			m.taken = m.taken[1:]
			m.node.Delivered(&d)
		}
	case k < 845:
		if m.up { // the store is written to the disk; the log has all of it
			m.saved = m.state.clone()
		}
	case k < 850:
		if m.up && len(m.writes) == 0 {
			index := m.saved.pos.Index - min(m.saved.pos.Index, uint64(w.IntN(10)))
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
			m.up = false
			w.figures.Cuts++
		}
	case k < 996:
		if !m.up {
			w.start(m)
		}
	default:
		m.cut = !m.cut && w.IntN(2) == 0
	}
	if m.up {
		w.ready(m)
	}
}

// heal ends all faults, and lets the machines work until all of them have delivered everything.
func (w *world) heal() {
	w.fault = none
	for _, m := range w.machines {
		m.cut = false
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
			m.saved = m.state.clone()
			for len(m.writes)+len(m.taken) > 0 {
				writes, taken := m.writes, m.taken
				m.writes, m.taken = nil, nil
				for i := range writes {
					w.written(m, &writes[i], true)
				}
				for i := range taken {
					m.node.Delivered(&taken[i])
				}
				w.ready(m)
			}
		}
		net := w.net
		w.net = nil
		for _, e := range net {
			if to := w.machines[e.to-1]; !to.cut && !w.machines[e.from-1].cut {
				w.receive(to, e)
			}
		}
	}
}

// check compares the answers with the log.
func (w *world) check() {
	last := w.machines[0]
	for _, m := range w.machines {
		if m.state.seq > last.state.seq {
			last = m
		}
	}
	for _, m := range w.machines {
		if conf := last.state.conf(); !slices.Contains(conf.Voters, m.id) && !slices.Contains(conf.Learners, m.id) {
			continue // a member that was removed, or never added, gets nothing more
		}
		if !reflect.DeepEqual(m.state.cluster, last.state.cluster) {
			panic(fmt.Sprintf("node %d knows %+v of the cluster, node %d knows %+v", m.id, m.state.cluster, last.id, last.state.cluster))
		}
		if m.state.seq != uint64(len(w.log)) {
			panic(fmt.Sprintf("node %d has %d commands, and the log has %d", m.id, m.state.seq, len(w.log)))
		}
		if waiting := m.node.Waiting(); waiting > 0 {
			panic(fmt.Sprintf("node %d has not answered %d commands", m.id, waiting))
		}
		if len(m.asked) > 0 {
			panic(fmt.Sprintf("node %d has not answered %d questions", m.id, len(m.asked)))
		}
	}
	at := map[string]uint64{}
	for i, text := range w.log {
		var verb, id string
		if n, _ := fmt.Sscan(text, &verb, &id); n != 2 || verb != "create" {
			continue
		}
		if at[id] != 0 {
			panic(fmt.Sprintf("command %s is in the log at %d and at %d", id, at[id], i+1))
		}
		at[id] = uint64(i + 1)
	}
	for id, f := range w.commands {
		switch seq := at[id]; {
		case !f.any: // its process lost its power
		case f.err == nil && seq != f.seq:
			panic(fmt.Sprintf("command %s was answered with seq %d, and is at %d", id, f.seq, seq))
		case errors.Is(f.err, journal.ErrNotStored) && seq != 0:
			panic(fmt.Sprintf("command %s was answered with %v, and is at %d", id, f.err, seq))
		}
	}
}

// play plays a seed. It returns what is wrong, and a hash of all that happened.
func play(t *testing.T, seed uint64, steps int, f fault) (wrong string, hash uint64, figures figures) {
	cryptotest.SetGlobalRandom(t, seed) // Raft draws its timeouts there
	w, sum := newWorld(seed, f)
	defer func() {
		if p := recover(); p != nil {
			wrong = fmt.Sprint(p)
		}
		figures, hash = w.figures, sum()
	}()
	for range steps {
		w.step()
	}
	w.heal()
	w.check()
	return
}

// TestSeeds: no command that was answered is lost or doubled, all nodes deliver the same, and a read never misses what was
// answered before it.
func TestSeeds(t *testing.T) {
	seeds := 3000
	if testing.Short() {
		seeds = 40
	}
	var sum figures
	for seed := range uint64(seeds) {
		wrong, _, f := play(t, seed, 6000, none)
		if wrong != "" {
			t.Errorf("seed %d: %s; %+v", seed, wrong, f)
		}
		sum = figures{sum.Cuts + f.Cuts, sum.Elections + f.Elections, sum.Acked + f.Acked, sum.Unknown + f.Unknown, sum.NotStored + f.NotStored, sum.Refused + f.Refused, sum.Reads + f.Reads, sum.Applied + f.Applied, sum.Starts + f.Starts, sum.Bases + f.Bases, sum.Changes + f.Changes}
	}
	t.Logf("%+v", sum)
}

// TestSameSeed: a seed plays out the same way each time.
func TestSameSeed(t *testing.T) {
	for seed := range uint64(10) {
		_, a, _ := play(t, seed, 6000, none)
		_, b, _ := play(t, seed, 6000, none)
		if a != b {
			t.Errorf("seed %d: %x and %x", seed, a, b)
		}
	}
}

// TestFaults: the simulation notices faults of the driver and of the node.
func TestFaults(t *testing.T) {
	for f, name := range map[fault]string{forgetVote: "a vote is forgotten", earlyWrite: "a write is answered too early", lateStart: "a leader begins too early"} {
		found := 0
		example := ""
		for seed := range uint64(60) {
			if wrong, _, _ := play(t, seed, 6000, f); wrong != "" {
				found++
				example = wrong
			}
		}
		t.Logf("%s: %d of 60 seeds, such as %s", name, found, example)
		if found == 0 {
			t.Errorf("%s: no seed notices it", name)
		}
	}
}
