package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/job"
)

// callKind is a connection with questions and their answers, one after the other, in JSON.
const callKind = "call"

const (
	// callTimeout bounds a call, which may wait for a change of the members to be stored.
	callTimeout = 10 * time.Second
	// callIdle is how long a connection stays open for the next call.
	callIdle = time.Minute
	// maxCall bounds a question or an answer.
	maxCall = 1 << 20
	// maxCallers bounds the calls of this node to one other that are under way, and the connections that are kept for them.
	maxCallers = 32
)

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
	opStatus   = "status"   // of the leader
	opClock    = "clock"    // of this node
	opEngine   = "engine"   // a question of the engine to the leader's engine
	opOpsqueue = "opsqueue" // does this node serve clients of Opsqueue, or want to?
)

// reply is the answer to a question.
type reply struct {
	Error    string            `json:",omitzero"`
	Word     string            `json:",omitzero"` // of the error in words
	Leader   string            `json:",omitzero"` // the address of the leader, which must be asked instead
	Identity Identity          `json:",omitzero"`
	Status   job.ClusterStatus `json:",omitzero"`
	Clock    int64             `json:",omitzero"` // the wall clock, in unix ms
	Content  []byte            `json:",omitzero"`
	Opsqueue string            `json:",omitzero"`
}

// caller asks other nodes. It keeps connections for the next calls.
type caller struct {
	dial func(ctx context.Context, address string) (net.Conn, error)
	of   *Identity

	mu    sync.Mutex
	idle  map[string][]*callConn // by address
	slots map[string]chan struct{}
}

// callConn is a connection for calls.
type callConn struct {
	net.Conn
	r    *bufio.Reader
	used time.Time
}

func newCaller(dial func(context.Context, string) (net.Conn, error), of *Identity) *caller {
	return &caller{dial: dial, of: of, idle: map[string][]*callConn{}, slots: map[string]chan struct{}{}}
}

// ask sends a question to the node at an address, and to the leader if that node names it.
func (a *caller) ask(ctx context.Context, address string, q question) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for range 4 { // the leader may change meanwhile
		if r, err = a.askOnce(ctx, address, q); err != nil {
			return r, fmt.Errorf("ask %s: %w", address, err)
		}
		switch {
		case r.Leader != "" && r.Leader != address:
			address = r.Leader
			continue
		case r.Error != "":
			return r, &answeredError{r.Error, words[r.Word]}
		}
		return r, nil
	}
	return r, ErrNoLeader
}

// words are the errors that keep their meaning on their way between nodes.
var words = map[string]error{"no_node": job.ErrNoNode, "quorum": job.ErrQuorum, "no_leader": ErrNoLeader}

// answeredError is the error of another node.
type answeredError struct {
	text string
	is   error
}

func (e *answeredError) Error() string { return e.text }
func (e *answeredError) Unwrap() error { return e.is }

func replyOf(err error) (r reply) {
	r.Error = err.Error()
	for word, known := range words {
		if errors.Is(err, known) {
			r.Word = word
		}
	}
	return r
}

// askOnce sends a question to one node. All questions may be repeated.
func (a *caller) askOnce(ctx context.Context, address string, q question) (r reply, err error) {
	free, err := a.enter(ctx, address)
	if err != nil {
		return r, err
	}
	defer free()
	for conn := a.kept(address); conn != nil; conn = a.kept(address) {
		if r, err = a.exchange(ctx, address, conn, q); err == nil || ctx.Err() != nil {
			return r, err
		} // the other end may have closed it meanwhile
	}
	conn, err := a.dial(ctx, address)
	if err != nil {
		return r, err
	}
	h := hello{cluster: a.of.Cluster, from: a.of.ID, node: a.of.Node, kind: callKind, level: job.Level}
	if err := greet(ctx, conn, &h); err != nil {
		return r, errors.Join(err, conn.Close())
	}
	return a.exchange(ctx, address, &callConn{Conn: conn, r: bufio.NewReader(conn)}, q)
}

// enter waits until fewer than maxCallers calls to a node are under way.
func (a *caller) enter(ctx context.Context, address string) (free func(), err error) {
	a.mu.Lock()
	slots := a.slots[address]
	if slots == nil {
		slots = make(chan struct{}, maxCallers)
		a.slots[address] = slots
	}
	a.mu.Unlock()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// kept returns a connection that an earlier call has left, or nil.
func (a *caller) kept(address string) *callConn {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.idle[address]
	n := len(list)
	if n == 0 {
		return nil
	}
	a.idle[address] = list[:n-1]
	return list[n-1]
}

// exchange sends a question over a connection, and keeps the connection for later.
func (a *caller) exchange(ctx context.Context, address string, conn *callConn, q question) (r reply, err error) {
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return r, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	text, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if err := writeText(conn, text); err != nil {
		return r, err
	}
	if text, err = readText(conn.r, maxCall); err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	conn.used = time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle[address] = append(a.idle[address], conn)
	return r, nil
}

// tidy closes the connections that nobody has used for a while, such as those to nodes that were removed.
func (a *caller) tidy() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for address, list := range a.idle {
		a.idle[address] = slices.DeleteFunc(list, func(conn *callConn) bool {
			old := time.Since(conn.used) > callIdle/2
			if old {
				conn.Close()
			}
			return old
		})
	}
}

// close closes the connections that are kept.
func (a *caller) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range a.idle {
		for _, conn := range list {
			conn.Close()
		}
	}
	clear(a.idle)
}

// writeText writes a text and its length.
func writeText(w io.Writer, text []byte) error {
	_, err := w.Write(append(fmt.Appendf(make([]byte, 0, len(text)+12), "%d\n", len(text)), text...))
	return err
}

// readText reads what writeText has written, of at most limit bytes.
func readText(r *bufio.Reader, limit int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	var n int
	if _, err := fmt.Sscanf(string(line), "%d\n", &n); err != nil || n < 0 || n > limit {
		return nil, fmt.Errorf("a message of %.20q bytes", line)
	}
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	return text, err
}

// answerCalls answers the questions of a connection, until it is closed or idle for too long. A stranger is a node that is
// no member: it may only join.
func (c *Cluster) answerCalls(ctx context.Context, conn net.Conn, stranger bool) error {
	r := bufio.NewReader(conn)
	for {
		conn.SetDeadline(time.Now().Add(callIdle))
		text, err := readText(r, maxCall)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		conn.SetDeadline(time.Now().Add(2 * callTimeout))
		var q question
		var answer reply
		if err = json.Unmarshal(text, &q); err == nil {
			if stranger && q.Op != opJoin && q.Op != opAdd {
				return fmt.Errorf("a node that is no member asks for %q", q.Op)
			}
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			answer, err = c.reply(ctx, &q)
			cancel()
		}
		if err != nil {
			answer = replyOf(err)
		}
		if text, err = json.Marshal(answer); err != nil {
			return err
		}
		if err := writeText(conn, text); err != nil {
			return err
		}
	}
}

// askLeader is ask for the leader, which may be this node.
func (c *Cluster) askLeader(ctx context.Context, q question) (r reply, err error) {
	leader, known := c.leader()
	switch {
	case !known:
		return r, ErrNoLeader
	case leader.ID != c.o.Identity.ID:
		return c.calls.ask(ctx, leader.Address, q)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if r, err = c.reply(ctx, &q); err == nil && r.Leader != "" {
		return c.calls.ask(ctx, r.Leader, q)
	}
	return r, err
}

// askOthers sends a question to all other members at once, and calls answered with each result, from one goroutine at a
// time. It returns when all have answered or ctx is done.
func (c *Cluster) askOthers(ctx context.Context, q question, answered func(m job.Member, r reply, err error)) {
	var asking sync.WaitGroup
	var mu sync.Mutex // held while answered is called
	for _, m := range c.members() {
		if m.ID == c.o.Identity.ID {
			continue
		}
		asking.Go(func() {
			r, err := c.calls.askOnce(ctx, m.Address, q)
			mu.Lock()
			defer mu.Unlock()
			answered(m, r, err)
		})
	}
	asking.Wait()
}

// The answers of a node to OpsqueueAt.
const (
	OpsqueueWanted = "wanted" // it serves them unless another node does
	OpsqueueServed = "served"
)

// OpsqueueAt asks the other members, and returns the name of the one because of which this node must not serve clients of
// Opsqueue, or "". That is a node that serves them, or that wants to and has a smaller id. A node that has just begun to say that
// it serves them asks once more, and then only smaller ids count, so of two nodes that begin together exactly one goes on. silent
// are the members that did not answer within a few seconds.
func (c *Cluster) OpsqueueAt(ctx context.Context, begun bool) (node string, silent []string) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	c.askOthers(ctx, question{Op: opOpsqueue}, func(m job.Member, r reply, err error) {
		switch {
		case err != nil || r.Error != "":
			silent = append(silent, m.Node)
		case r.Opsqueue != "" && m.ID < c.o.Identity.ID, r.Opsqueue == OpsqueueServed && !begun:
			node = m.Node
		}
	})
	slices.Sort(silent)
	return node, silent
}

// Remove makes a node no member of the cluster.
func (c *Cluster) Remove(ctx context.Context, name string) error {
	_, err := c.askLeader(ctx, question{Op: opRemove, Member: job.Member{Node: name}})
	return err
}

// Transfer lets another node lead: the one with this name, or with "" the one that lacks the least. It returns when this node
// knows who leads.
func (c *Cluster) Transfer(ctx context.Context, name string) error {
	if _, err := c.askLeader(ctx, question{Op: opTransfer, Member: job.Member{Node: name}}); err != nil {
		return err
	}
	for {
		if leader, known := c.leader(); known && (name == "" || leader.Node == name) {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Describe returns what the leader knows of the members, as far as it answers within a second, and what this node knows of
// itself.
func (c *Cluster) Describe(ctx context.Context) job.ClusterStatus {
	s := c.ClusterStatus()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if r, err := c.askLeader(ctx, question{Op: opStatus}); err == nil && r.Status.Cluster == s.Cluster {
		s.Nodes = r.Status.Nodes
	}
	return s
}

// AskLeader sends a question of the engine to the leader's engine, which answers it by Options.Answer.
func (c *Cluster) AskLeader(ctx context.Context, content []byte) ([]byte, error) {
	r, err := c.askLeader(ctx, question{Op: opEngine, Content: content})
	return r.Content, err
}

// reply answers a question, or names the leader.
func (c *Cluster) reply(ctx context.Context, q *question) (r reply, err error) {
	switch q.Op {
	case opJoin:
		return reply{Identity: Identity{Cluster: c.o.Identity.Cluster, UUID: c.o.Identity.UUID, Salt: c.o.Identity.Salt}}, c.mayJoin(q)
	case opClock:
		return reply{Clock: c.wall().UnixMilli()}, nil
	case opOpsqueue:
		if c.o.Opsqueue == nil {
			return reply{}, nil
		}
		return reply{Opsqueue: c.o.Opsqueue()}, nil
	}
	if _, leads := c.Leads(); !leads {
		leader, known := c.leader()
		if !known || leader.ID == c.o.Identity.ID { // it is about to lead
			return r, ErrNoLeader
		}
		return reply{Leader: leader.Address}, nil
	}
	switch q.Op {
	case opStatus:
		return reply{Status: c.ClusterStatus()}, nil
	case opAdd:
		if err := c.mayJoin(q); err != nil {
			return r, err
		}
		q.Member.Role = job.Learner
		return r, c.change(ctx, q.Member)
	case opSet:
		return r, c.setAddress(ctx, q.Member)
	case opRemove:
		m := c.member(q.Member.Node)
		switch m.Role {
		case 0:
			return r, fmt.Errorf("%w: %s", job.ErrNoNode, q.Member.Node)
		case job.Removed:
			return r, nil
		}
		if err := c.mayRemove(ctx, m); err != nil {
			return r, err
		}
		if m.ID == c.o.Identity.ID {
			to, err := c.transfer(ctx, "")
			return reply{Leader: to.Address}, err
		}
		m.Role = job.Removed
		return r, c.change(ctx, m)
	case opTransfer:
		_, err := c.transfer(ctx, q.Member.Node)
		return r, err
	case opEngine:
		if c.o.Answer == nil {
			return r, errors.New("this node has no engine")
		}
		r.Content, err = c.o.Answer(ctx, q.Content)
		return r, err
	}
	return r, fmt.Errorf("the question %q is unknown", q.Op)
}
