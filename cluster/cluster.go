package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/daybookq/daybook/cluster/internal/entrylog"
	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// leaderless is how long no node may lead before commands are refused at once.
const leaderless = 2 * time.Second

// barrierWait bounds a question up to which seq a state must be.
const barrierWait = 5 * time.Second

var (
	// ErrNoLeader: no node leads the cluster, because most nodes cannot reach each other, or an election is going on.
	ErrNoLeader = errors.New("no node leads the cluster")
	// ErrLogFailed: a write of the log failed. The next Open finds out what is on the disk.
	ErrLogFailed = errors.New("cannot write the log")
	// ErrRemoved: this node is no member any more.
	ErrRemoved = errors.New("this node was removed from the cluster; next step: let it join under a name that no node ever had, with an empty data directory")
)

// NeedsBase is the reason why Run ends if this node lacks entries that no other member has any more. It goes on once its
// state has been replaced by that of another member.
type NeedsBase struct {
	Index uint64 // the state must include at least this entry
	Why   error  // the state of this node is damaged; nil: it lacks entries
}

func (e *NeedsBase) Error() string {
	if e.Why != nil {
		return fmt.Sprintf("the state of this node is damaged, so it needs that of another node: %v", e.Why)
	}
	return fmt.Sprintf("this node lacks entries before %d, which the leader no longer has; it needs the state of another node", e.Index)
}

// Options are the settings of a node.
type Options struct {
	Dir      string // of the cluster's files
	Identity *Identity
	Listener net.Listener // of the other members
	Dial     func(ctx context.Context, address string) (net.Conn, error)
	// State and Seq and At are those of the store.
	State job.Cluster
	Seq   uint64
	At    int64
	// Refuse returns why the leader does not write a command now, as a word, or "". It must not wait.
	Refuse func(verb string, bulk bool) string
	// Checkpoint makes a copy of the state in a directory that does not exist.
	Checkpoint func(ctx context.Context, dir string) (Base, error)
	// Level returns the level whose rules the state follows. Nil: 0.
	Level func() int
	// Answer answers a question of another node's engine while this node leads. Nil: there are no questions.
	Answer func(ctx context.Context, question []byte) ([]byte, error)
	// Opsqueue returns whether this node serves clients of Opsqueue: "", OpsqueueWanted or OpsqueueServed. One node of a cluster
	// at most may serve them. nil: no.
	Opsqueue func() string
	// Wall is the wall clock. Nil: time.Now.
	Wall func() time.Time
	// Refusal returns the error of a command that another node has refused for a reason of Refuse. Nil: ErrNotStored.
	Refusal func(why string) error
	Hooks   journal.Hooks // for tests
	Logger  *slog.Logger
}

// Cluster is the log of one node. It is an ingest.Log.
type Cluster struct {
	o        Options
	listener net.Listener
	log      *entrylog.Log
	origin   uint64 // of this process
	clock    journal.Clock
	lastAt   atomic.Int64
	flight   flight
	calls    *caller
	notes    notes
	events   *events
	failed   chan error
	base     served
	note     atomic.Pointer[node.Position] // what the store has on disk

	// Of the loop.
	offers     []offered
	links      map[linkKey]*runningLink
	reads      map[uint64]map[chan<- uint64]bool // who waits for the answer to a question, by its ticket
	deliveries deliveries
	groupConns groupConns
	writing    []time.Time // when each write began that is not durable yet
	left       time.Time   // when another node was told to lead because of a slow disk

	ctx   context.Context // of Run
	parts sync.WaitGroup
	close sync.Once
}

// Open opens the log of a node. If it fails, for example because the log cannot be read or does not follow the state of the
// store, it closes the listener.
func Open(o Options) (_ *Cluster, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Listener.Close())
		}
	}()
	c := &Cluster{
		o: o, listener: o.Listener, origin: draw(), events: newEvents(), failed: make(chan error, 1), links: map[linkKey]*runningLink{}, reads: map[uint64]map[chan<- uint64]bool{},
		deliveries: deliveries{wake: make(chan struct{}, 1)},
	}
	c.notes.members, c.notes.removed, c.notes.without = slices.Clone(o.State.Members), slices.Clone(o.State.Removed), time.Now()
	c.calls, c.clock.Wall = newCaller(o.Dial, o.Identity), o.Wall
	// What the store has when it is opened is on the disk.
	c.note.Store(&node.Position{Index: o.State.Index, Term: o.State.Term, Seq: o.Seq, At: o.At})
	c.lastAt.Store(o.At)
	c.clock.Start(o.At)
	c.flight.freed.L = &c.flight.mu
	if err := os.RemoveAll(filepath.Join(o.Dir, checkpointDir)); err != nil { // an earlier process may have left it
		return nil, err
	}
	if c.log, err = entrylog.Open(entrylog.Options{Dir: LogDir(o.Dir), Hooks: o.Hooks, Logger: o.Logger}); err != nil {
		return nil, err
	}
	first, _ := c.log.FirstIndex()
	last, _ := c.log.LastIndex()
	if err := fits(first, last, c.log.Term, &o.State); err != nil {
		return nil, errors.Join(err, c.log.Close())
	}
	return c, nil
}

// DirOf returns the directory of the cluster's files in a data directory.
func DirOf(data string) string { return filepath.Join(data, "cluster") }

// Found makes the files of a cluster with one node, whose state includes the entry with index 1 of term 1.
func Found(dir string, i *Identity) error {
	return begin(dir, i, 1, 1)
}

// begin makes the files of a node whose state includes an entry.
func begin(dir string, i *Identity, index, term uint64) error {
	if err := writeBase(dir, index, term); err != nil {
		return err
	}
	return i.write(dir)
}

// writeBase writes in the log of a directory that the state of the node includes an entry. It drops all entries.
func writeBase(dir string, index, term uint64) error {
	l, err := entrylog.Open(entrylog.Options{Dir: LogDir(dir)})
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	l.Base(index, term, func(err error) { written <- err })
	return errors.Join(<-written, l.Close(), syncDir(filepath.Join(dir, "0")), syncDir(dir))
}

// storage is what Raft reads.
type storage struct {
	*entrylog.Log
	c *Cluster
}

func (s storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	st := s.State()
	return &pb.HardState{Term: new(st.Term), Vote: new(st.Vote), Commit: new(st.Commit)}, node.ConfState(s.c.o.State.Members), nil
}

// Snapshot returns a note: which entries the store has on disk. A member that lacks some of them fetches the state of
// another node.
func (s storage) Snapshot() (*pb.Snapshot, error) {
	pos := s.c.note.Load()
	s.c.notes.mu.Lock()
	members := s.c.notes.members
	s.c.notes.mu.Unlock()
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(pos.Index), Term: new(pos.Term), ConfState: node.ConfState(members)}}, nil
}

// Run takes part in the cluster, and delivers the commands of all nodes, until ctx is done.
func (c *Cluster) Run(ctx context.Context, after uint64, deliver func([]journal.Record)) error {
	if after != c.o.Seq {
		return fmt.Errorf("run log: the state is at %d, and was at %d", after, c.o.Seq)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.ctx = ctx
	n, err := node.New(node.Options{
		ID: c.o.Identity.ID, Name: c.o.Identity.Node, Storage: storage{c.log, c}, State: c.o.State,
		Position: node.Position{Index: c.o.State.Index, Term: c.o.State.Term, Seq: c.o.Seq, At: c.o.At},
		Origin:   c.origin, Level: job.Level, Salt: c.o.Identity.Salt, Now: c.clock.Now(), Logger: raftLogger{c.o.Logger},
		Refuse: func(x *node.Command) string {
			if c.o.Refuse == nil {
				return ""
			}
			return c.o.Refuse(x.Verb, x.Lane == journal.Bulk)
		},
	})
	if err != nil {
		return err
	}
	c.parts.Go(func() { c.accept(ctx) })
	c.parts.Go(func() { c.deliver(ctx, deliver) })
	c.parts.Go(func() { c.maintain(ctx) })
	err = c.loop(ctx, n)
	c.flight.stop()
	cancel()
	c.listener.Close()
	c.parts.Wait()
	c.calls.close()
	for _, f := range c.events.end() {
		f(n)
	}
	c.settle(n.Abandon())
	if needs, is := errors.AsType[*NeedsBase](err); is && needs.Why != nil {
		// The base must have all entries that this node has acknowledged.
		last, _ := c.log.LastIndex()
		needs.Index = max(needs.Index, last)
	}
	return err
}

// Distrust ends Run, because the state of this node is damaged, so that the node fetches the state of another member. It
// reports false if there is none.
func (c *Cluster) Distrust(why error) bool {
	others := slices.ContainsFunc(c.members(), func(m job.Member) bool { return m.ID != c.o.Identity.ID })
	if others {
		c.fail(&NeedsBase{Why: why})
	}
	return others
}

// Propose gives a command to the log.
func (c *Cluster) Propose(ctx context.Context, p *journal.Proposal) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), c.Health()); err != nil {
		return err
	}
	if err := c.flight.take(ctx, p); err != nil {
		return err
	}
	if !c.event(func(n *node.Node) { n.Propose(p) }) {
		c.flight.release(p)
		return journal.ErrClosed
	}
	return nil
}

// Barrier returns a seq; a state up to there includes every command that any node knew to be stored before the call.
func (c *Cluster) Barrier(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, barrierWait, ErrNoLeader)
	defer cancel()
	answer := make(chan uint64, 1)
	var ticket uint64 // the loop has it
	c.event(func(n *node.Node) {
		ticket = n.ReadIndex()
		if c.reads[ticket] == nil {
			c.reads[ticket] = map[chan<- uint64]bool{}
		}
		c.reads[ticket][answer] = true
	})
	select {
	case seq := <-answer:
		return seq, nil
	case <-ctx.Done():
		c.event(func(*node.Node) { delete(c.reads[ticket], answer) })
		return 0, context.Cause(ctx)
	}
}

// Leads reports whether this node leads and takes commands, and the term.
func (c *Cluster) Leads() (term uint64, leads bool) {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	return c.notes.leads, c.notes.leads != 0
}

// Now returns the time of the log, of which the leader tells the other nodes with each message. The leader hears of the
// time that a node knows before it gives a command of the node a time.
func (c *Cluster) Now() int64 {
	if _, leads := c.Leads(); leads {
		return max(c.lastAt.Load(), c.clock.Now())
	}
	return c.lastAt.Load()
}

// AcceptTime sets the clock to the wall clock if that is later and this node leads.
func (c *Cluster) AcceptTime() {
	if _, leads := c.Leads(); leads {
		c.clock.Accept()
	}
}

// Health returns nil while the log takes commands.
func (c *Cluster) Health() error {
	if c.flight.stopped.Load() {
		return journal.ErrClosed
	}
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	if since := c.notes.without; !since.IsZero() && time.Since(since) > leaderless {
		return fmt.Errorf("%w: %w", journal.ErrFailed, ErrNoLeader)
	}
	return nil
}

// Origin returns the origin of this process (job.Origin).
func (c *Cluster) Origin() uint64 { return c.origin }

// UUID returns the identity of the log, which is the same at all nodes.
func (c *Cluster) UUID() string { return c.o.Identity.UUID }

// First returns 1: Run delivers what the store lacks, or fails.
func (c *Cluster) First() uint64 { return 1 }

// Records yields nothing: Run delivers what the store lacks.
func (c *Cluster) Records(uint64) iter.Seq2[journal.Record, error] {
	return func(func(journal.Record, error) bool) {}
}

// Status returns figures for operators.
func (c *Cluster) Status() journal.Status {
	c.notes.mu.Lock()
	pos := c.notes.pos
	c.notes.mu.Unlock()
	s := journal.Status{UUID: c.o.Identity.UUID, ClockOffset: c.clock.Offset()}
	s.First, s.Appended, s.Synced, s.LastAt = 1, max(pos.Seq, c.o.Seq), max(pos.Seq, c.o.Seq), c.lastAt.Load()
	s.Bytes, _ = c.log.Bytes()
	s.InFlightBytes, s.InFlightLimit = c.flight.bytes(), journal.MaxInFlightBytes+journal.MaxControlInFlightBytes
	return s
}

// Close closes the files.
func (c *Cluster) Close() (err error) {
	c.close.Do(func() {
		c.flight.stop()
		err = c.log.Close()
		if closed := c.listener.Close(); !errors.Is(closed, net.ErrClosed) {
			err = errors.Join(err, closed)
		}
	})
	return err
}

func (c *Cluster) wall() time.Time {
	if c.o.Wall != nil {
		return c.o.Wall()
	}
	return time.Now()
}

func (c *Cluster) level() int {
	if c.o.Level == nil {
		return 0
	}
	return c.o.Level()
}

// MaxLevel returns the newest level that the programs of all members know.
func (c *Cluster) MaxLevel() int {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	return c.notes.maxLevel
}

// member returns a member by its name. Its role is 0 if this node does not know it.
func (c *Cluster) member(name string) job.Member {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	state := job.Cluster{Members: c.notes.members, Removed: c.notes.removed}
	return state.Member(name)
}

func (c *Cluster) byID(id uint64) (m job.Member, known bool) {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	i := slices.IndexFunc(c.notes.members, func(m job.Member) bool { return m.ID == id })
	if i < 0 {
		return m, false
	}
	return c.notes.members[i], true
}
