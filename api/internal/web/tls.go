package web

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
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
	buffers      chan []byte // for joined records; those that were never used are nil

	// Only the goroutine of Accept uses these.
	given, used *tls.Config
}

func newHandshakes(t *TLS, log zerolog.Logger) *handshakes {
	if t == nil {
		return nil
	}
	h := &handshakes{settings: t.Config, log: log, buffers: make(chan []byte, joinBuffers)}
	for range joinBuffers {
		h.buffers <- nil
	}
	return h
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
	c.records, c.handshakes = &tlsRecords{Conn: c.raw, of: c}, h
	c.secure = tls.Server(c.records, h.config())
	c.Conn = c.secure
}

// tlsRecords is the connection below TLS. TLS writes not only what Connection.Write passes on: it also writes its part of
// the handshake, and answers to new keys. tlsRecords bounds these writes, because a client could otherwise block a
// goroutine for ever by not reading.
//
// TLS makes a system call for each record, and a record has 16 KiB at most. So tlsRecords can join the records of a write.
type tlsRecords struct {
	net.Conn
	of *Connection

	mu     sync.Mutex // guards joined and failed; held while bytes are written
	joined []byte     // records that are not written yet; nil: each is written at once
	failed error      // of a write of joined records, which TLS takes for written
}

func (r *tlsRecords) Write(p []byte) (int, error) {
	if !r.of.closing.Load() {
		r.mu.Lock()
	} else if !r.mu.TryLock() { // the client does not read the joined records; TLS closes the connection next
		return 0, net.ErrClosed
	}
	defer r.mu.Unlock()
	if r.failed != nil {
		return 0, r.failed
	}
	wait := PaceTime
	switch {
	case r.joined != nil: // first, since records must be in order
		if len(r.joined)+len(p) > cap(r.joined) {
			r.writeJoined()
		}
		r.joined = append(r.joined, p...)
		return len(p), r.failed
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

// writeJoined writes the joined records. The caller has locked mu.
func (r *tlsRecords) writeJoined() {
	if r.failed == nil && len(r.joined) > 0 {
		_, r.failed = r.Conn.Write(r.joined)
	}
	r.joined = r.joined[:0]
}

// join makes writes join their records in an empty buffer until end is called.
func (r *tlsRecords) join(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joined = b
}

// end writes the joined records. It returns the buffer, and why joined records could not be written.
func (r *tlsRecords) end() (b []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeJoined()
	b, r.joined = r.joined, nil
	return b, r.failed
}

const (
	// joinBytes is the size of a buffer for joined records, and joinBuffers how many a server has. They are held while a
	// client reads, and a client that reads slowly would hold one for PaceTime. Without one, records are written one by one.
	joinBytes   = 64 << 10
	joinBuffers = 64
	// smallWrite is the length of a write that has one record, also at the beginning of a connection, when TLS makes them small.
	smallWrite = 1 << 10
)

// writeSecure writes a piece of an answer with few system calls.
func (c *Connection) writeSecure(piece []byte) (n int, err error) {
	if len(piece) <= smallWrite {
		return c.secure.Write(piece)
	}
	select {
	case b := <-c.handshakes.buffers:
		if b == nil {
			b = make([]byte, 0, joinBytes)
		}
		c.records.join(b)
		n, err = c.secure.Write(piece)
		b, failed := c.records.end()
		c.handshakes.buffers <- b
		if failed != nil { // nobody knows how much was sent
			return 0, failed
		}
		return n, err
	default:
		return c.secure.Write(piece)
	}
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
