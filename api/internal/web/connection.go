package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// A client must read or send paceBytes within PaceTime. If the rest of the answer or body is shorter, the client
	// must read or send the rest in that time. This bounds how long a client that stops, or sends single bytes, can
	// keep memory. Any connection that is useful for jobs is faster than 50 KiB/s.
	paceBytes = 256 << 10
	PaceTime  = 5 * time.Second

	// If the handler did not read the body, the server reads and discards up to leftoverBytes of it for at most
	// LeftoverWait before it answers, so that the connection can serve further requests. If the body has not ended by
	// then, the server closes the connection after the answer.
	LeftoverWait  = time.Second
	leftoverBytes = 256 << 10
)

// Connection is a client's connection, which net/http reads and writes. It fails a write if the client does not read
// fast enough, and it checks the framing of requests.
type Connection struct {
	net.Conn            // raw, or TLS over it
	raw      net.Conn   // as the listener accepted it. Closing it never waits, unlike closing TLS, which writes before
	Peer     netip.Addr // for limits per client; not valid for loopback, which is not limited

	// With TLS. Without it, secure is nil.
	secure     *tls.Conn
	records    *tlsRecords // below secure
	handshakes *handshakes
	shaken     bool // the handshake was made. Only the goroutine that reads the connection uses it
	state      atomic.Pointer[tls.ConnectionState]
	writing    atomic.Bool // Write has set the deadline of the current writes
	closing    atomic.Bool // Close was called

	framing framing
	place   place
	heard   atomic.Int64 // for a stream's connection: the time of the last read, in unix ns
	// patience is the longest time for a write of paceBytes, if not PaceTime. Only the handler of the current request
	// sets it.
	Patience time.Duration
	server   *Server
	closed   func() // the listener's hook for a stream's connection; nil for connections that net/http watches

	// The request that is being served, if it has a body. Only the goroutine of its handler uses these fields.
	request  *http.Request
	response *echo.Response
	unread   bool
	before   func() // the method settle, as a value that is made once per connection
}

func newConnection(c net.Conn) *Connection {
	conn := &Connection{Conn: c, raw: c, Peer: peerOf(c.RemoteAddr())}
	conn.before = conn.settle
	return conn
}

// peerOf returns the address for limits per client. For IPv6 it is the 64-bit network, because one host can use any
// address in its network.
func peerOf(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if addr.IsLoopback() {
		return netip.Addr{}
	}
	if addr.Is6() {
		network, _ := addr.Prefix(64) // cannot fail for IPv6
		return network.Addr()
	}
	return addr
}

func (c *Connection) Read(p []byte) (int, error) {
	if c.secure != nil {
		if err := c.shake(); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if c.framing.state == lost {
		c.heard.Store(time.Now().UnixNano())
	} else {
		c.framing.feed(p[:n])
	}
	return n, err
}

// HeardSince reports whether anything was read from a stream's connection after t.
func (c *Connection) HeardSince(t time.Time) bool { return c.heard.Load() > t.UnixNano() }

// Upgraded ends the checks of HTTP, because the connection carries a stream from now on.
func (c *Connection) Upgraded() { c.framing.state = lost }

// Close closes the connection.
func (c *Connection) Close() error {
	if c.closed != nil {
		c.closed()
	}
	c.closing.Store(true)
	return c.Conn.Close()
}

// Write writes all of p. It fails if the client reads too slowly.
func (c *Connection) Write(p []byte) (written int, err error) {
	write := c.Conn.Write
	if c.secure != nil {
		c.writing.Store(true)
		defer c.writing.Store(false)
		write = c.writeSecure
	}
	for {
		piece := p[written:min(written+paceBytes, len(p))]
		if err := c.Conn.SetWriteDeadline(time.Now().Add(cmp.Or(c.Patience, PaceTime))); err != nil {
			return written, err
		}
		n, err := write(piece)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// SetWriteDeadline does nothing, because Write sets its own deadlines.
func (c *Connection) SetWriteDeadline(time.Time) error { return nil }

// CloseWrite closes only the sending side. net/http calls it first, so that a client that is still sending can read
// the whole answer.
func (c *Connection) CloseWrite() error {
	if c.secure != nil {
		if err := c.secure.CloseWrite(); err != nil { // it says that the answer is complete, and leaves the connection open
			return err
		}
	}
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connectionKey struct{}

func (s *Server) withConnection(ctx context.Context, c net.Conn) context.Context {
	if conn, ok := c.(*Connection); ok {
		conn.server = s
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// ConnectionOf returns the connection of a request, or nil if the server did not accept the connection, as in tests of
// handlers.
func ConnectionOf(r *http.Request) *Connection {
	c, _ := r.Context().Value(connectionKey{}).(*Connection)
	return c
}

// PeerOf returns the address from which a request comes, and the zero address if it is not known.
func PeerOf(r *http.Request) (peer netip.Addr) {
	if conn := ConnectionOf(r); conn != nil {
		peer = conn.Peer
	}
	return peer
}

// begin prepares the connection for a request. Every later read of the body has a deadline. That includes the reads
// that net/http makes if the handler did not read the body: without a deadline they could wait forever.
func (c *Connection) begin(e echo.Context) error {
	r := e.Request()
	r.TLS = c.TLS() // net/http sets it only if it made the handshake
	wrong := c.framing.Next()
	if c.unread = r.ContentLength != 0; c.unread {
		if err := c.SetReadDeadline(time.Now().Add(PaceTime)); err != nil {
			return err
		}
		c.request, c.response = r, e.Response()
		c.response.Before(c.before)
	}
	if wrong != "" {
		e.Response().Header().Set(echo.HeaderConnection, "close")
		return BadRequest("", "the framing of the request is ambiguous: "+wrong)
	}
	if r.ContentLength == 0 && !r.ProtoAtLeast(1, 1) && len(r.Header[echo.HeaderContentLength]) == 0 {
		switch r.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			e.Response().Header().Set(echo.HeaderConnection, "close")
			return &Problem{Status: http.StatusLengthRequired, Code: "length_required", Detail: "an HTTP/1.0 request with this method requires a Content-Length header"}
		}
	}
	return nil
}

// settle runs before the header of an answer is written. If the handler did not read the request's body, settle reads
// and discards it. If the body is too long, or does not arrive in time, settle makes the server close the connection
// after the answer.
func (c *Connection) settle() {
	if !c.unread {
		return
	}
	c.unread = false
	h := c.response.Header()
	if h.Get(echo.HeaderConnection) == "" && c.request.ContentLength <= leftoverBytes && len(c.request.Header["Expect"]) == 0 &&
		c.SetReadDeadline(time.Now().Add(LeftoverWait)) == nil {
		if n, err := io.CopyN(io.Discard, c.request.Body, leftoverBytes+1); err == io.EOF && n <= leftoverBytes {
			return
		}
	}
	h.Set(echo.HeaderConnection, "close")
	// After the answer net/http continues to read for a moment. A client which is still sending can then read the
	// answer.
	_ = c.SetReadDeadline(time.Now().Add(LeftoverWait)) // if it fails, the connection is closed too
}
