package opsqueue

import (
	"net"
	"syscall"
)

// NewListener returns a listener whose TCP connections send without delay, and acknowledge data as soon as they have read
// it.
//
// The original's consumer leaves Nagle's algorithm on, so its kernel sends a small message only after the previous one
// was acknowledged. It sends a completion, which is not answered, and then requests the next chunk. A kernel delays an
// acknowledgement by up to 40 ms, in the hope of sending it with an answer. That limits such a consumer to 25 chunks/s.
//
// The listener returns other kinds of connections unchanged.
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
		return accepted, nil // already closed, which the first read reports
	}
	_ = tcp.SetNoDelay(true) // the default in Go; fails only if the connection is closed
	return &promptConn{Conn: accepted, raw: raw}, nil
}

// promptConn is a TCP connection that acknowledges after each read. It hides the methods by which io.Copy would bypass
// Read.
type promptConn struct {
	net.Conn
	raw syscall.RawConn
}

// Read reads from the connection and then acknowledges. It must do so every time, because the kernel leaves quick
// acknowledgement mode after each answer that the server sends.
func (c *promptConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		_ = c.raw.Control(quickAck) // fails only if the connection is closed, which the next read reports
	}
	return n, err
}
