package web

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// TLS makes a server speak TLS. Config is required.
type TLS struct {
	// Config returns the settings of the next connection. It returns the same pointer until they change, since clients resume
	// a session only with the settings that began it.
	Config func() *tls.Config
	// Expires, if not nil, returns the end of the certificate in use, for the metrics.
	Expires func() time.Time
	// Failures, if not nil, returns how many times new files could not be used, for the metrics.
	Failures func() uint64
}

// handshakes makes connections speak TLS, and counts their handshakes.
type handshakes struct {
	settings     func() *tls.Config
	log          zerolog.Logger
	done, failed atomic.Uint64

	// Only the goroutine of Accept uses these.
	given, used *tls.Config
}

func newHandshakes(t *TLS, log zerolog.Logger) *handshakes {
	if t == nil {
		return nil
	}
	return &handshakes{settings: t.Config, log: log}
}

// config returns the settings for a connection. Streams take over their connections, which only HTTP/1.1 allows, and
// net/http does not see that a Connection speaks TLS. So a client that prefers HTTP/2 must get HTTP/1.1.
func (h *handshakes) config() *tls.Config {
	if now := h.settings(); now != h.given {
		h.given, h.used = now, now.Clone()
		h.used.NextProtos = []string{"http/1.1"}
	}
	return h.used
}

// begin makes a connection speak TLS from its first byte. The handshake is made by the first read, which runs in the
// connection's own goroutine, so it does not delay other connections. net/http has set the deadline of the first head by
// then, so both together take readHeaderTimeout at most. Until a head has arrived, the listener counts the connection as
// silent, and may close it for a new one.
func (h *handshakes) begin(c *Connection) {
	if h == nil {
		return
	}
	c.secure, c.handshakes = tls.Server(&tlsRecords{Conn: c.raw, of: c}, h.config()), h
	c.Conn = c.secure
}

// tlsRecords is the connection below TLS. TLS writes not only what Connection.Write passes on: it also writes its part of
// the handshake, and answers to new keys. tlsRecords bounds these writes, because a client could otherwise block a
// goroutine for ever by not reading.
type tlsRecords struct {
	net.Conn
	of *Connection
}

func (r *tlsRecords) Write(p []byte) (int, error) {
	wait := PaceTime
	switch {
	case r.of.closing.Load():
		wait = closeWait
	case r.of.writing.Load():
		return r.Conn.Write(p) // Connection.Write has set the deadline
	}
	if err := r.SetWriteDeadline(time.Now().Add(wait)); err != nil {
		return 0, err
	}
	return r.Conn.Write(p)
}

// closeWait bounds how long closing a connection waits for room for the last message of TLS, which says that nothing
// follows. A server that stops closes its connections one after the other.
const closeWait = 50 * time.Millisecond

// notTLS is the answer to a request without TLS.
const notTLS = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nthis server speaks TLS; use https\n"

// shake makes the handshake before the first read. After a handshake that failed, net/http must not answer, so shake
// returns io.EOF, as if the client had closed the connection.
func (c *Connection) shake() error {
	h := c.handshakes
	if c.shaken {
		return nil
	}
	err := c.secure.Handshake()
	if err == nil {
		state := c.secure.ConnectionState()
		c.state.Store(&state)
		c.shaken = true
		h.done.Add(1)
		return nil
	}
	h.failed.Add(1)
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && beginsHTTP(plain.RecordHeader) {
		c.answerPlain()
	} else if wait, ok := errors.AsType[net.Error](err); err != io.EOF && !errors.Is(err, net.ErrClosed) && (!ok || !wait.Timeout()) {
		// Probes of ports connect and close, and silent connections are closed: neither helps to find a wrong certificate.
		h.log.Info().Str("remote", c.raw.RemoteAddr().String()).Err(err).Msg("a TLS handshake failed")
	}
	return io.EOF
}

// beginsHTTP reports whether the first bytes of a connection, which are no TLS, begin a request of HTTP.
func beginsHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}

// answerPlain answers that the server speaks TLS. It reads the rest of the request for a moment: if the system
// discards unread bytes, it resets the connection, and the client does not see the answer.
func (c *Connection) answerPlain() {
	if c.raw.SetWriteDeadline(time.Now().Add(PaceTime)) != nil {
		return
	}
	if _, err := io.WriteString(c.raw, notTLS); err != nil {
		return
	}
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil && c.raw.SetReadDeadline(time.Now().Add(LeftoverWait)) == nil {
		_, _ = io.CopyN(io.Discard, c.raw, leftoverBytes) // the connection is closed in any case
	}
}

// TLS returns the state of the connection's TLS, with the verified chains of the client's certificate if it has one. It
// returns nil if the connection does not use TLS.
func (c *Connection) TLS() *tls.ConnectionState {
	if c == nil {
		return nil
	}
	return c.state.Load()
}

// Handshakes returns how many TLS handshakes were made, and how many failed.
func (s *Server) Handshakes() (done, failed uint64) {
	if h := s.handshakes; h != nil {
		return h.done.Load(), h.failed.Load()
	}
	return 0, 0
}
