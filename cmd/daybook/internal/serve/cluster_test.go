package serve

import (
	"net"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestKeptListener: a connection that arrives while one server closes the listener waits for the next server.
func TestKeptListener(t *testing.T) {
	l := testkit.Must(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer l.Close()
	s := &serverRun{Flags: &Flags{}, listener: l}
	s.join = "127.0.0.1:1"
	first := s.kept(t.Context()).(*keptListener)
	close(first.closed) // as Close does, before it ends a call of Accept
	caller := testkit.Must(net.Dial("tcp", l.Addr().String()))(t)
	defer caller.Close()
	testkit.Fails(first.Accept())(t, net.ErrClosed)

	served := testkit.Must(s.kept(t.Context()).Accept())(t)
	defer served.Close()
	testkit.Must(caller.Write([]byte("x")))(t)
	b := make([]byte, 1)
	testkit.Must(served.Read(b))(t)
	testkit.Equal(t, string(b), "x")
}
