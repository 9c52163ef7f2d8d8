package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/cluster/internal/node"
	"github.com/daybookq/daybook/job"
)

const (
	dialTimeout      = 2 * time.Second
	handshakeTimeout = 5 * time.Second
	// writeTimeout is how long a node may take to read what another one sends. It is longer than a pause of a process,
	// and shorter than a connection of which the network has forgotten one end.
	writeTimeout = 10 * time.Second
	// silence is how long the other end of a connection of kind raft may confirm nothing of what was sent, or have no room
	// for more of it. Each node reads these connections all the time.
	silence     = time.Second
	redialAfter = 50 * time.Millisecond
	linkQueue   = 1024 // messages that wait for a connection to take them
)

// The kinds of connections. Commands that are forwarded have a connection of their own, because the leader does not read
// them while too many bytes are under way, and must read answers meanwhile.
const (
	raftKind  = "raft"
	groupKind = "groups"
)

// hello is the first line of a connection.
type hello struct {
	cluster  string
	from, to uint64
	node     string
	kind     string
	level    int
}

func (h *hello) String() string {
	return fmt.Sprintf("daybook-cluster v=1 cluster=%s from=%016x to=%016x node=%s kind=%s level=%d\n", h.cluster, h.from, h.to, h.node, h.kind, h.level)
}

func parseHello(line string) (h hello, err error) {
	_, err = fmt.Sscanf(line, "daybook-cluster v=1 cluster=%s from=%x to=%x node=%s kind=%s level=%d\n", &h.cluster, &h.from, &h.to, &h.node, &h.kind, &h.level)
	return h, err
}

// link sends messages to one member, over one connection at a time. It loses them while the member cannot be reached.
type link struct {
	c       *Cluster
	to      job.Member
	kind    string
	queue   chan node.Message
	refused string // the last reason why the member refused a connection; only for the log
}

// send queues a message, and returns false if it is lost.
func (l *link) send(m node.Message) bool {
	select {
	case l.queue <- m:
		return true
	default:
		return false
	}
}

// run sends what is queued until ctx is done.
func (l *link) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.connected(ctx)
		for range len(l.queue) { // they are old by now
			<-l.queue
		}
		l.c.event(func(n *node.Node) {
			n.Lost(l.to.ID)
			if groups := l.c.links[linkKey{l.to.ID, groupKind}]; groups != nil && l.kind == raftKind {
				groups.cancel() // it may be dead, too, and would not notice for long
				delete(l.c.links, linkKey{l.to.ID, groupKind})
			}
		})
		if refused, is := errors.AsType[refusedError](err); is && strings.HasPrefix(string(refused), removed) {
			l.c.fail(ErrRemoved)
		}
		if err != nil && ctx.Err() == nil && err.Error() != l.refused {
			l.refused = err.Error()
			l.c.o.Logger.Info("cannot send to a member", "node", l.to.Node, "address", l.to.Address, "kind", l.kind, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(redialAfter):
		}
	}
}

// connected sends over one connection until it breaks.
func (l *link) connected(ctx context.Context) error {
	conn, err := l.c.dial(ctx, l.to, l.kind)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	broken := make(chan struct{})
	go func() { // the member sends nothing, so a read ends when the connection does
		defer close(broken)
		conn.Read(make([]byte, 1))
		conn.Close()
	}()
	defer func() { conn.Close(); <-broken }()
	l.refused = ""
	w := bufio.NewWriterSize(conn, 256<<10)
	var b []byte
	for {
		var m node.Message
		select {
		case m = <-l.queue:
		case <-broken:
			return errors.New("the connection broke")
		}
		conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		for more := true; more; {
			if b, err = encodeFrame(b[:0], &m); err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			if cap(b) > 4<<20 {
				b = nil
			}
			select {
			case m = <-l.queue:
			default:
				more = false
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

// dial connects to a member.
func (c *Cluster) dial(ctx context.Context, to job.Member, kind string) (net.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := c.o.Dial(dialing, to.Address)
	if err != nil {
		return nil, err
	}
	if kind == raftKind {
		err = limitSilence(conn)
	}
	if err == nil {
		err = greet(ctx, conn, &hello{c.o.Identity.Cluster, c.o.Identity.ID, to.ID, c.o.Identity.Node, kind, job.Level})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// refusedError is the reason why another node refuses a connection.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// removed begins the refusal of a node that is no member any more.
const removed = "removed: "

// greet sends the first line and reads the answer. It fails when ctx is done, or after handshakeTimeout.
func greet(ctx context.Context, conn net.Conn, h *hello) error {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write([]byte(h.String())); err != nil {
		return err
	}
	line, err := readLine(conn)
	if err != nil {
		return err
	}
	if reason, refused := strings.CutPrefix(line, "refused "); refused {
		return refusedError(strings.TrimSpace(reason))
	}
	if line != "ok\n" {
		return fmt.Errorf("the answer is %.40q", line)
	}
	if !stop() {
		return ctx.Err()
	}
	return conn.SetDeadline(time.Time{})
}

// readLine reads a line of at most 1 KiB, byte by byte, because frames follow it.
func readLine(conn net.Conn) (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < 1<<10; {
		if _, err := conn.Read(b); err != nil {
			return "", err
		}
		if line = append(line, b[0]); b[0] == '\n' {
			return string(line), nil
		}
	}
	return "", errors.New("the line is too long")
}

// accept serves connections of other members until the listener is closed.
func (c *Cluster) accept(ctx context.Context) {
	var served sync.WaitGroup
	defer served.Wait()
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			c.o.Logger.Warn("cannot accept a connection of a member", "error", err)
			time.Sleep(redialAfter)
			continue
		}
		served.Go(func() {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			if err := c.serve(ctx, conn); err != nil && ctx.Err() == nil {
				c.o.Logger.Debug("a connection of a member ended", "address", conn.RemoteAddr(), "error", err)
			}
		})
	}
}

// serve reads what a member sends.
func (c *Cluster) serve(ctx context.Context, conn net.Conn) error {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	line, err := readLine(conn)
	if err != nil {
		return err
	}
	h, err := parseHello(line)
	if err == nil {
		err = c.welcome(&h)
	}
	if err != nil {
		_, failed := fmt.Fprintf(conn, "refused %s\n", err)
		return errors.Join(err, failed)
	}
	if _, err := conn.Write([]byte("ok\n")); err != nil {
		return err
	}
	switch h.kind {
	case callKind:
		return c.answerCalls(ctx, conn, h.cluster != c.o.Identity.Cluster)
	case baseKind:
		return c.serveBase(ctx, conn)
	}
	conn.SetDeadline(time.Time{})
	if h.kind == groupKind {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		c.groupConns.replace(h.from, cancel)
	}
	r := bufio.NewReaderSize(conn, 256<<10)
	for {
		m, err := readFrame(r)
		if err != nil {
			return err
		}
		if (m.Group != nil) != (h.kind == groupKind) {
			return fmt.Errorf("a frame that does not belong into a connection of kind %s", h.kind)
		}
		if err := c.received(ctx, h.from, m); err != nil {
			return err
		}
	}
}

// welcome returns why a member may not connect, or nil.
func (c *Cluster) welcome(h *hello) error {
	me := c.o.Identity
	switch {
	case h.kind == callKind && h.cluster == "none": // a node that wants to join
		return nil
	case h.cluster != me.Cluster:
		return fmt.Errorf("this is node %s of cluster %s, and you are a node of cluster %s", me.Node, me.Cluster, h.cluster)
	case h.kind == callKind || h.kind == baseKind && h.to == 0:
		return nil
	case h.to != me.ID:
		return fmt.Errorf("this is node %s with id %016x, and you look for %016x; the node at this address was replaced", me.Node, me.ID, h.to)
	case h.kind != raftKind && h.kind != groupKind && h.kind != baseKind:
		return fmt.Errorf("connections of kind %s are unknown", h.kind)
	}
	if m := c.member(h.node); m.Role == job.Removed || m.Role != 0 && m.ID != h.from {
		return refusedError(removed + h.node)
	}
	return nil
}

// received passes a message to the node. It waits while the node has too much to do.
func (c *Cluster) received(ctx context.Context, from uint64, m node.Message) error {
	if m.Group == nil {
		return c.eventually(ctx, func(n *node.Node) {
			n.Hear(m.Now)
			switch {
			case m.Raft != nil:
				if n.Step(m.Raft) {
					c.lacks(m.Raft)
				}
			default:
				n.Resend(m.Resend)
			}
		})
	}
	taken := make(chan struct{})
	if err := c.eventually(ctx, func(n *node.Node) {
		n.Hear(m.Now)
		c.offer(n, offered{ctx, from, m.Group, taken})
	}); err != nil {
		return err
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
