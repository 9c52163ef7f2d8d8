package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// A peer must take or send paceBytes within paceTime, or what is left of an answer or body if that is less. It
	// bounds how long one that stops, or sends byte by byte, keeps memory; 50 KiB/s is less than any link that carries
	// jobs.
	paceBytes = 256 << 10
	paceTime  = 5 * time.Second

	// A body that no handler has read is waited for that long before the answer, up to that size, so that the
	// connection can serve further requests. If it is not there by then, the answer says that the connection ends.
	leftoverWait  = time.Second
	leftoverBytes = 256 << 10
)

// connection is a client's connection, below net/http. It cuts off a client that does not read, whatever is written,
// and looks at how requests are framed.
type connection struct {
	net.Conn
	peer    netip.Addr // what bounds per remote address go by; not valid for loopback
	framing framing
	place   place

	// The request that is being served, if it has a body; used by its handler alone.
	request  *http.Request
	response *echo.Response
	unread   bool
	before   func() // is settle
}

func newConnection(c net.Conn) *connection {
	conn := &connection{Conn: c, peer: peerOf(c.RemoteAddr())}
	conn.before = conn.settle
	return conn
}

// peerOf returns the address by which a remote host is counted: for IPv6 its network of 64 bits, within which one host
// may have any address.
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
		network, _ := addr.Prefix(64) // an address of IPv6 has one
		return network.Addr()
	}
	return addr
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.framing.feed(p[:n])
	return n, err
}

// Write writes all of p as long as the client takes it at the least pace.
func (c *connection) Write(p []byte) (written int, err error) {
	for {
		piece := p[written:min(written+paceBytes, len(p))]
		if err := c.Conn.SetWriteDeadline(time.Now().Add(paceTime)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// SetWriteDeadline does nothing: Write sets its own.
func (c *connection) SetWriteDeadline(time.Time) error { return nil }

// CloseWrite is for net/http, which closes its side first, so that a client that is still sending reads the end of the
// answers.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// connectionOf returns the connection that a request came by; nil when it came without one, as in tests of handlers.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// begin prepares for a request. From here on every read of its body has a deadline, also those that net/http makes by
// itself before and after the answer of a handler that did not read it: without one they would wait for as long as the
// client likes.
func (c *connection) begin(e echo.Context) error {
	r := e.Request()
	wrong := c.framing.next()
	if c.unread = r.ContentLength != 0; c.unread {
		if err := c.SetReadDeadline(time.Now().Add(paceTime)); err != nil {
			return err
		}
		c.request, c.response = r, e.Response()
		c.response.Before(c.before)
	}
	if wrong != "" {
		e.Response().Header().Set(echo.HeaderConnection, "close")
		return badRequest("", "the request does not say beyond doubt where it ends: "+wrong)
	}
	if r.ContentLength == 0 && !r.ProtoAtLeast(1, 1) && len(r.Header[echo.HeaderContentLength]) == 0 {
		switch r.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			e.Response().Header().Set(echo.HeaderConnection, "close")
			return &problem{status: http.StatusLengthRequired, code: "length_required", detail: "a request of HTTP/1.0 that may have a body must give its Content-Length"}
		}
	}
	return nil
}

// settle is called before an answer's header is written. If the handler did not read the request's body, what has come
// of it is discarded; if that is not the whole of it, the connection ends with the answer.
func (c *connection) settle() {
	if !c.unread {
		return
	}
	c.unread = false
	h := c.response.Header()
	if h.Get(echo.HeaderConnection) == "" && c.request.ContentLength <= leftoverBytes && len(c.request.Header["Expect"]) == 0 &&
		c.SetReadDeadline(time.Now().Add(leftoverWait)) == nil {
		if n, err := io.CopyN(io.Discard, c.request.Body, leftoverBytes+1); err == io.EOF && n <= leftoverBytes {
			return
		}
	}
	h.Set(echo.HeaderConnection, "close")
	// After the answer net/http reads on for a moment, so that a client which is still sending gets to read it.
	_ = c.SetReadDeadline(time.Now().Add(leftoverWait)) // the connection is about to be closed either way
}
