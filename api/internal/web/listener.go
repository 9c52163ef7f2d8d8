package web

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// As many open and idle connections as DefaultMaxConnections take 300 MB, and 700 MB with TLS.
	DefaultMaxConnections = 16384
	// The server closes a connection for a new one only if it had no request for IdleGrace. A client that has just
	// connected sends its request sooner.
	IdleGrace = time.Second
	// socketBytes bounds the kernel's send buffer and receive buffer of a connection. The kernel's default is four
	// megabytes and more, so a few hundred clients that do not read could use up the memory that all connections of the
	// machine share. With a round trip of 50 ms, socketBytes allows 10 MB/s.
	socketBytes = 512 << 10
)

// listener accepts connections, and bounds the number of open ones: each takes a file descriptor, and the journal and
// the store need file descriptors too. When a client connects and all places are taken, the listener closes the
// connection that has waited longest for its first request. If there is none, it closes the connection that has been
// idle longest between two requests. It does not close a connection whose request has arrived, even if no byte of the
// request was read yet. While all connections have a request, new ones wait in the backlog of the operating system.
type listener struct {
	net.Listener
	most   int
	secure *handshakes // nil: without TLS
	closed chan struct{}

	mu      sync.Mutex
	open    int
	silent  *list.List // of *connection without a request so far, the oldest first
	idle    *list.List // of *connection between two requests, the longest idle first
	evicted int64
	evict   func() bool   // closes a stream that is not in use; nil: there are none
	changed chan struct{} // capacity 1; signals that a connection was closed or became idle
}

func newListener(l net.Listener, most int) *listener {
	return &listener{
		Listener: l, most: most, closed: make(chan struct{}), silent: list.New(), idle: list.New(), changed: make(chan struct{}, 1),
	}
}

// place is the position of a connection in the lists of its listener. The listener's mu guards it.
type place struct {
	in    *list.List // silent, idle, or nil while it has a request
	at    *list.Element
	since time.Time
	gone  bool // the listener no longer counts it
}

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		_, _ = tcp.SetWriteBuffer(socketBytes), tcp.SetReadBuffer(socketBytes) // fails if the client closed the connection, which the first read reports
	}
	c := newConnection(accepted)
	l.secure.begin(c)
	for {
		wait := l.admit(c)
		if wait == 0 {
			return c, nil
		}
		if wait == untilChanged && l.evict != nil {
			l.evict()
			wait = IdleGrace // by then the stream has ended, or another stream may be unused
		}
		timer := time.NewTimer(wait)
		select {
		case <-l.changed:
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			_ = accepted.Close() // no request was read from it
			return nil, net.ErrClosed
		}
		timer.Stop()
	}
}

// untilChanged is the time for which a new connection waits while all others have requests. It waits less if one of
// them changes first.
const untilChanged = time.Minute

// admit counts a new connection and returns 0 if there is a free place, or if it can close another connection.
// Otherwise it returns the time that the caller must wait before the next try, unless a connection changes first.
func (l *listener) admit(c *Connection) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed: // closeSilent has run, so nothing would close this connection
		return untilChanged
	default:
	}
	for l.open >= l.most {
		front := l.silent.Front()
		if front == nil {
			front = l.idle.Front()
		}
		if front == nil {
			return untilChanged
		}
		oldest := front.Value.(*Connection)
		if left := IdleGrace - time.Since(oldest.place.since); left > 0 {
			return left
		}
		if arrived(oldest.raw) { // on a busy machine net/http may read the request late
			l.put(oldest, oldest.place.in)
			continue
		}
		l.forget(oldest)
		l.evicted++
		_ = oldest.raw.Close() // net/http notices, and ends its goroutine
	}
	l.open++
	l.put(c, l.silent)
	return 0
}

// put moves a connection to the end of a list. If the list is nil, put only removes it from its old list.
func (l *listener) put(c *Connection, in *list.List) {
	p := &c.place
	if p.in != nil {
		p.in.Remove(p.at)
	}
	if p.in, p.at = in, nil; in != nil {
		p.at, p.since = in.PushBack(c), time.Now()
	}
}

func (l *listener) forget(c *Connection) {
	l.put(c, nil)
	c.place.gone = true
	l.open--
}

// watch is the ConnState hook of net/http.
func (l *listener) watch(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*Connection)
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
	case http.StateHijacked: // a stream, which takes its place until it closes the connection
		l.put(c, nil)
		c.closed = func() { l.streamClosed(c) }
		return
	case http.StateClosed:
		l.forget(c)
	default:
		return
	}
	l.signal()
}

// streamClosed no longer counts the connection of a stream.
func (l *listener) streamClosed(c *Connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.place.gone {
		l.forget(c)
		l.signal()
	}
}

// signal wakes Accept, because a place may have become free.
func (l *listener) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Close ends the listener and a waiting call of Accept.
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

// closeSilent closes the connections that have not sent a request yet. Without it, Shutdown of net/http would wait five
// seconds for each to send one.
func (l *listener) closeSilent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.silent.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*Connection).raw.Close() // if it fails, Shutdown closes the connection
	}
}

func (l *listener) Connections() (open int, evicted int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.evicted
}
