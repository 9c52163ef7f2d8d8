package wsframe

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// lingerTime is how long a client that broke the rules may continue to send before it reads the close frame.
const lingerTime = 5 * time.Second

// Accept accepts a WebSocket as websocket.Accept does. It bounds messages to maxMessage bytes. If a frame breaks the
// rules, reads return an *Error. The caller must then close the connection with the status and reason in it.
func Accept(w http.ResponseWriter, r *http.Request, o *websocket.AcceptOptions, maxMessage int64) (*websocket.Conn, error) {
	conn, err := websocket.Accept(&upgrade{w, maxMessage}, r, o)
	if err == nil {
		conn.SetReadLimit(maxMessage)
	}
	return conn, err
}

// upgrade passes a connection to the library that checks frames.
type upgrade struct {
	http.ResponseWriter
	maxMessage int64
}

func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := both.Peek(both.Reader.Buffered()) // frames that arrived with the request
	if err != nil {
		return nil, nil, err
	}
	c := &connection{Conn: conn, early: bytes.Clone(early), frames: frames{most: uint64(u.maxMessage)}}
	both.Reader.Reset(c)
	return c, both, nil
}

// connection checks the bytes that are read. The library reads in one goroutine at a time.
type connection struct {
	net.Conn
	early  []byte // is read first
	frames frames
	broken atomic.Pointer[Error]
}

func (c *connection) Read(p []byte) (n int, err error) {
	if broken := c.broken.Load(); broken != nil {
		return 0, broken
	}
	if len(c.early) > 0 {
		n = copy(p, c.early)
		if c.early = c.early[n:]; len(c.early) == 0 {
			c.early = nil
		}
	} else {
		n, err = c.Conn.Read(p)
	}
	ok, broken := c.frames.pass(p[:n])
	if broken != nil {
		c.broken.Store(broken)
		if err = nil; ok == 0 {
			err = broken
		}
	}
	return ok, err
}

// Close closes the connection. If the client has broken the rules, Close first reads until the client has closed its end,
// for at most lingerTime.
func (c *connection) Close() error {
	if c.broken.Load() != nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // if the client has gone, the reads notice
		}
		_, _ = io.Copy(io.Discard, c.Conn) // any error is the end
	}
	return c.Conn.Close()
}
