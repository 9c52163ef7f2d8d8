package opsqueue

import (
	"net"
	"syscall"
)

// NewListener returns a listener whose TCP connections send at once, and acknowledge at once what they read.
//
// The consumer of the original leaves Nagle's algorithm on, so its kernel sends a small message only after the one before
// it was acknowledged. It sends a completion, to which there is no reply, and then requests the next chunk. A kernel that
// delays acknowledgements by 40 ms, in the hope of a reply to send them with, limits such a consumer to 25 chunks/s.
//
// Connections of other kinds are returned as they are.
func NewListener(l net.Listener) net.Listener { return &listener{l} }

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := accepted.(*net.TCPConn)
	if !ok {
		return accepted, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return accepted, nil // it is closed already, which the first read reports
	}
	_ = tcp.SetNoDelay(true) // the default of Go; an error means that the connection is closed
	return &promptConn{Conn: accepted, raw: raw}, nil
}

// promptConn is a TCP connection that acknowledges after each read. It hides the methods by which io.Copy would read the
// socket in another way.
type promptConn struct {
	net.Conn
	raw syscall.RawConn
}

// Read reads from the connection and then acknowledges. The kernel leaves the mode of quick acknowledgements after each
// answer that the server sends, so once for each connection is not enough.
func (c *promptConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		_ = c.raw.Control(quickAck) // an error means that the connection is closed, which the next read reports
	}
	return n, err
}
