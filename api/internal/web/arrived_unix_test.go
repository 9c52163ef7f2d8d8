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
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner, 2)
	defer l.Close()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	accept := func() *Connection {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return c.(*Connection)
	}
	asking := dial()
	late := accept()
	if _, err := io.WriteString(asking, "GET"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the request arrives", func() bool { return arrived(late.Conn) })
	dial()
	silent := accept()
	dial()
	accept() // after IdleGrace
	if _, err := silent.Read(make([]byte, 1)); err == nil || !silent.place.gone {
		t.Errorf("the silent connection is open: %v", err)
	}
	b := make([]byte, 3)
	if _, err := io.ReadFull(late, b); err != nil || string(b) != "GET" {
		t.Errorf("the connection with a request: %q, %v", b, err)
	}
}
