//go:build unix

package web

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestRequestThatWasNotRead: a connection whose request has arrived keeps its place, even if the server has not read
// the request for longer than IdleGrace. A silent connection is closed to make room.
func TestRequestThatWasNotRead(t *testing.T) {
	inner := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l := newListener(inner, 2)
	defer l.Close()
	dial := func() net.Conn {
		t.Helper()
		c := testkit.Must(net.Dial("tcp", inner.Addr().String()))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	accept := func() *Connection {
		t.Helper()
		c := testkit.Must(l.Accept())(t)
		t.Cleanup(func() { c.Close() })
		testkit.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		return c.(*Connection)
	}
	asking := dial()
	late := accept()
	testkit.Must(io.WriteString(asking, "GET"))(t)
	testkit.Eventually(t, "the request arrives", func() bool { return arrived(late.raw) })
	dial()
	silent := accept()
	dial()
	accept() // after IdleGrace
	_, err := silent.Read(make([]byte, 1))
	testkit.Holds(t, err != nil && silent.place.gone, "the silent connection is open", err)
	b := make([]byte, 3)
	testkit.Must(io.ReadFull(late, b))(t)
	testkit.Holds(t, string(b) == "GET", "the connection with a request", b)
}
