package api

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// defaultMaxConnections take 300 MB if all of them are open and idle.
	defaultMaxConnections = 16384
	// A connection must have been without a request for idleGrace before it is closed for a new one. A client that has
	// just connected sends its request sooner.
	idleGrace = time.Second
	// What the kernel keeps for a connection that does not read or that is not read from. By itself it keeps four
	// megabytes and more, so that a few hundred clients take what all connections of the machine share. At 50 ms from a
	// client this allows 10 MB/s.
	socketBytes = 512 << 10
)

// listener accepts connections, of which at most so many are open: each takes a file descriptor, and the journal and
// the store need some as well. When there is one too many, the one that has been silent for the longest is closed: one
// that never sent a request, or if there is none, one between two requests. While all are in use, new ones wait in the
// backlog of the operating system.
type listener struct {
	net.Listener
	most   int
	closed chan struct{}

	mu      sync.Mutex
	open    int
	silent  *list.List // of *connection: those that have not sent a request yet, the oldest first
	idle    *list.List // of *connection: those between two requests, the one that has been idle for the longest first
	evicted int64
	changed chan struct{} // capacity 1: a connection was closed, or has no request any more
}

func newListener(l net.Listener, most int) *listener {
	return &listener{
		Listener: l, most: most, closed: make(chan struct{}), silent: list.New(), idle: list.New(), changed: make(chan struct{}, 1),
	}
}

// place is where a connection is in the lists of its listener; mu of the listener guards it.
type place struct {
	in    *list.List // silent, idle, or nil while it has a request
	at    *list.Element
	since time.Time
	gone  bool // it is not counted any more
}

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		_, _ = tcp.SetWriteBuffer(socketBytes), tcp.SetReadBuffer(socketBytes) // fails on a connection that is gone already, which its first read finds
	}
	c := newConnection(accepted)
	for {
		wait := l.admit(c)
		if wait == 0 {
			return c, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-l.changed:
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			_ = accepted.Close() // nothing was sent by it
			return nil, net.ErrClosed
		}
		timer.Stop()
	}
}

// admit counts a connection if there is room, or there is one that can be closed for it. Otherwise it returns how long
// to wait at most.
func (l *listener) admit(c *connection) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed: // nothing would close it any more
		return time.Minute
	default:
	}
	if l.open >= l.most {
		front := l.silent.Front()
		if front == nil {
			front = l.idle.Front()
		}
		if front == nil {
			return time.Minute // or until one of them changes
		}
		oldest := front.Value.(*connection)
		if left := idleGrace - time.Since(oldest.place.since); left > 0 {
			return left
		}
		l.forget(oldest)
		l.evicted++
		_ = oldest.Conn.Close() // net/http notices, and ends what it has for it
	}
	l.open++
	l.put(c, l.silent)
	return 0
}

// put moves a connection to the end of a list; nil is none.
func (l *listener) put(c *connection, in *list.List) {
	p := &c.place
	if p.in != nil {
		p.in.Remove(p.at)
	}
	if p.in, p.at = in, nil; in != nil {
		p.at, p.since = in.PushBack(c), time.Now()
	}
}

func (l *listener) forget(c *connection) {
	l.put(c, nil)
	c.place.gone = true
	l.open--
}

// watch is net/http's hook for what connections are doing.
func (l *listener) watch(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.place.gone {
		return
	}
	switch state {
	case http.StateActive:
		l.put(c, nil)
		return
	case http.StateIdle:
		l.put(c, l.idle)
	case http.StateClosed, http.StateHijacked:
		l.forget(c)
	default:
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Close ends Accept.
func (l *listener) Close() error {
	l.mu.Lock()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	l.mu.Unlock()
	return l.Listener.Close()
}

// closeSilent closes the connections that have not sent a request yet: net/http's Shutdown would wait five seconds for
// each to send one.
func (l *listener) closeSilent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.silent.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*connection).Conn.Close() // it is about to be closed either way
	}
}

func (l *listener) connections() (open int, evicted int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.evicted
}
