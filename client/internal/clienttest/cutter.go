package clienttest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/client/internal/testkit"
)

// cutter forwards connections to a server, and can cut all of them.
type cutter struct {
	Url string

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func NewCutter(t *testing.T, url string) *cutter {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	c := &cutter{Url: "http://" + l.Addr().String(), conns: map[net.Conn]struct{}{}}
	var forwarding sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		c.Cut()
		forwarding.Wait()
	})
	forwarding.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				in.Close()
				continue
			}
			c.add(in, out)
			forwarding.Go(func() { c.forward(in, out) })
			forwarding.Go(func() { c.forward(out, in) })
		}
	})
	return c
}

func (c *cutter) add(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		c.conns[conn] = struct{}{}
	}
}

func (c *cutter) forward(to, from net.Conn) {
	io.Copy(to, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range []net.Conn{to, from} {
		conn.Close()
		delete(c.conns, conn)
	}
}

// Cut closes all connections.
func (c *cutter) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		conn.Close()
	}
}
