package cluster

import (
	"context"
	"errors"
	"fmt"
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

// eventsAtOnce is how many events the loop takes before it does what follows from them.
const eventsAtOnce = 256

// events are what the loop has to do with the node. Other members wait if there are many, the disk and the applier do not,
// because they answer what the node itself began.
type events struct {
	outer chan func(*node.Node)

	mu     sync.Mutex
	inner  []func(*node.Node)
	closed bool
	wake   chan struct{}
}

func newEvents() *events {
	return &events{outer: make(chan func(*node.Node), 64), wake: make(chan struct{}, 1)}
}

// event queues an event of this process. It never waits. It returns false if Run has ended.
func (c *Cluster) event(f func(*node.Node)) bool {
	e := c.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.inner = append(e.inner, f)
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return true
}

// end takes the last events. Those that come later have no effect.
func (e *events) end() []func(*node.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return e.inner
}

// eventually queues an event of another process, and waits while there are many.
func (c *Cluster) eventually(ctx context.Context, f func(*node.Node)) error {
	select {
	case c.events.outer <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// offered is a group that a leader has not taken yet.
type offered struct {
	ctx   context.Context // of the connection that it came over; when it is done, nobody waits
	from  uint64
	group *node.Group
	taken chan struct{}
}

// groupConns ends the connection over which a member sent its groups when it opens another one, because a leader that takes
// no groups does not read it, and so would not find out that it is dead.
type groupConns struct {
	mu   sync.Mutex
	last map[uint64]context.CancelFunc
}

func (g *groupConns) replace(member uint64, cancel context.CancelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		g.last = map[uint64]context.CancelFunc{}
	}
	if before := g.last[member]; before != nil {
		before()
	}
	g.last[member] = cancel
}

// offer offers a group to the node, now and after each event until the node takes it.
func (c *Cluster) offer(n *node.Node, o offered) {
	if o.ctx.Err() != nil {
		return
	}
	if n.Group(o.from, o.group) {
		close(o.taken)
	} else {
		c.offers = append(c.offers, o)
	}
}

// loop is the only goroutine that calls the node. It ends when ctx is done, or with the reason why the node cannot go on.
func (c *Cluster) loop(ctx context.Context, n *node.Node) (err error) {
	defer func() {
		if p := recover(); p != nil { // Raft panics if its own log contradicts itself
			err = fmt.Errorf("the node stops, because its data contradict what other members know: %v; next step: empty its data directory and let it join under another name", p)
		}
	}()
	ticks := time.NewTicker(node.TickEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-c.failed:
			return err
		case <-ticks.C:
			n.Tick(c.clock.Now())
			c.promote(n)
			c.leaveSlowDisk(n)
			c.notes.progress(n)
		case f := <-c.events.outer:
			f(n)
		case <-c.events.wake:
		}
		for more := eventsAtOnce; more > 0; more-- {
			select {
			case f := <-c.events.outer:
				f(n)
				continue
			default:
			}
			break
		}
		c.events.mu.Lock()
		inner := c.events.inner
		c.events.inner = nil
		c.events.mu.Unlock()
		n.Clock(c.clock.Now()) // after the commands among these events were proposed
		for _, f := range inner {
			f(n)
		}
		offers := c.offers
		c.offers = nil
		for _, o := range offers {
			c.offer(n, o)
		}
		c.carryOut(n, n.Ready())
		c.publish(n)
	}
}

// ofNode returns the result of f, which the loop calls with the node.
func ofNode[T any](ctx context.Context, c *Cluster, f func(*node.Node) T) (result T, err error) {
	answer := make(chan T, 1)
	if !c.event(func(n *node.Node) { answer <- f(n) }) {
		return result, ErrNoLeader
	}
	select {
	case result = <-answer:
		return result, nil
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// carryOut does what the node wants.
func (c *Cluster) carryOut(n *node.Node, rd node.Ready) {
	for i := range rd.Messages {
		m := &rd.Messages[i]
		if !c.send(m) {
			n.Lost(m.To)
		}
	}
	for i := range rd.Writes {
		w := &rd.Writes[i]
		c.writing = append(c.writing, time.Now())
		c.log.Append(w.Entries, entrylog.State{Term: w.Term, Vote: w.Vote, Commit: w.Commit}, func(err error) {
			if err != nil {
				c.fail(fmt.Errorf("%w: %w", ErrLogFailed, err))
				return
			}
			c.event(func(n *node.Node) {
				c.writing = c.writing[1:]
				n.Written(w)
			})
		})
	}
	c.settle(rd.Settled)
	for i := range rd.Deliveries {
		c.deliveries.add(&rd.Deliveries[i])
	}
	for _, r := range rd.Reads {
		for answer := range c.reads[r.Ticket] {
			answer <- r.Seq
		}
		delete(c.reads, r.Ticket)
	}
}

// slowDisk is how long a write of the leader may take. After that another node leads.
const slowDisk = time.Second

// leaveSlowDisk lets another node lead if the disk of this one is slow, because all commands wait for it.
func (c *Cluster) leaveSlowDisk(n *node.Node) {
	if _, leads := n.Leads(); !leads || len(c.writing) == 0 || time.Since(c.writing[0]) < slowDisk || time.Since(c.left) < slowDisk {
		return
	}
	c.left = time.Now()
	if to := n.Successor(); to.ID != 0 {
		c.o.Logger.Warn("the disk of this node is slow; another node leads from now on", "node", to.Node, "write", time.Since(c.writing[0]))
		n.Transfer(to.ID)
	}
}

// fail ends the loop.
func (c *Cluster) fail(err error) {
	select {
	case c.failed <- err:
	default: // it has another reason already
	}
}

// lacks ends the loop, because this node needs a base.
func (c *Cluster) lacks(m *pb.Message) {
	c.fail(&NeedsBase{Index: m.Snapshot.GetMetadata().GetIndex()})
}

// send gives a message to the link of its member.
func (c *Cluster) send(m *node.Message) bool {
	kind := raftKind
	if m.Group != nil {
		kind = groupKind
	}
	key := linkKey{m.To, kind}
	l := c.links[key]
	to, known := c.byID(m.To)
	switch {
	case l != nil && (!known || l.to.Address == to.Address):
		return l.send(*m)
	case !known:
		return false
	case l != nil:
		l.cancel()
	}
	ctx, cancel := context.WithCancel(c.ctx)
	l = &runningLink{link{c: c, to: to, kind: kind, queue: make(chan node.Message, linkQueue)}, cancel}
	c.links[key] = l
	c.parts.Go(func() { l.run(ctx) })
	return l.send(*m)
}

type linkKey struct {
	to   uint64
	kind string
}

type runningLink struct {
	link
	cancel context.CancelFunc
}

// settle answers commands of this process.
func (c *Cluster) settle(list []node.Settled) {
	for _, s := range list {
		c.flight.release(s.Proposal)
		err := s.Err
		if errors.Is(err, node.ErrNoLeader) {
			err = errors.Join(journal.ErrNotStored, ErrNoLeader)
		} else if refused, is := errors.AsType[*node.Refused](err); is && c.o.Refusal != nil {
			err = c.o.Refusal(refused.Why)
		}
		s.Proposal.Done(s.Seq, s.At, err)
	}
}

// deliveries are what the node has delivered and the engine has not taken.
type deliveries struct {
	mu   sync.Mutex
	list []*node.Delivery
	wake chan struct{}
}

func (d *deliveries) add(x *node.Delivery) {
	d.mu.Lock()
	d.list = append(d.list, x)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// recordBytes is about the bytes of a record beside its fields and its body.
const recordBytes = 128

// deliver passes records to the engine until ctx is done.
func (c *Cluster) deliver(ctx context.Context, take func([]journal.Record)) {
	d := &c.deliveries
	for {
		d.mu.Lock()
		list := d.list
		d.list = nil
		d.mu.Unlock()
		for _, x := range list {
			if n := len(x.Records); n > 0 {
				raise(&c.lastAt, x.Records[n-1].At)
			}
			c.settle(x.Settled)
			bytes := 0
			for i := range x.Records {
				bytes += recordBytes + len(x.Records[i].Fields) + len(x.Records[i].Body)
			}
			if len(x.Records) > 0 {
				take(x.Records)
			}
			c.event(func(n *node.Node) {
				n.Delivered(x)
				c.notes.mu.Lock()
				c.notes.positions.add(x.Pos, bytes) // not before: Raft reads entries until it knows that they were delivered
				c.notes.mu.Unlock()
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
	}
}

// raise sets a time to a later one.
func raise(at *atomic.Int64, to int64) {
	for {
		now := at.Load()
		if now >= to || at.CompareAndSwap(now, to) {
			return
		}
	}
}

// notes are what other goroutines know of the node.
type notes struct {
	mu      sync.Mutex
	members []job.Member // as delivered
	removed []string
	behind  map[uint64]uint64
	away    map[uint64]bool
	leader  uint64
	term    uint64
	leads   uint64 // the term in which this node leads and takes commands, or 0
	pos     node.Position
	positions
	without time.Time // since when no leader is known; zero: one is known
	// maxLevel is the newest level that the programs of all members know. clockAhead is how far the wall clock of this node
	// is ahead of the median of all.
	maxLevel   int
	clockAhead time.Duration
}

// publish notes what other goroutines need to know of the node. A node that begins to lead continues the time of the log.
func (c *Cluster) publish(n *node.Node) {
	raise(&c.lastAt, n.Time())
	s := &c.notes
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader, s.term = n.Leader()
	if term, leads := n.Leads(); leads && s.leads != term && n.Time() > c.clock.Now() {
		c.clock.Start(n.Time())
	}
	if leads, _ := n.Leads(); leads != s.leads {
		s.leads, s.away = leads, nil // what an earlier term has noted does not hold for this one
	}
	s.pos = n.Position()
	if members, removed := n.Members(); !slices.Equal(members, s.members) {
		s.members, s.removed = slices.Clone(members), slices.Clone(removed)
		if slices.Contains(removed, c.o.Identity.Node) {
			c.fail(ErrRemoved)
		}
	}
	s.maxLevel = n.Level()
	switch {
	case s.leader != 0:
		s.without = time.Time{}
	case s.without.IsZero():
		s.without = time.Now()
	}
}
