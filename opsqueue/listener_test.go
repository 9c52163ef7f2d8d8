package opsqueue

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// cycles measures a client with Nagle's algorithm. In each cycle, the client sends a message without a reply, such as a
// completion, and then a message with a reply, such as a request for a chunk.
func cycles(t *testing.T, wrap func(net.Listener) net.Listener, count int) time.Duration {
	t.Helper()
	bound := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l := wrap(bound)
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			defer conn.Close()
			message := make([]byte, 100)
			for n := 0; ; n++ {
				if _, err := io.ReadFull(conn, message); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if n%2 == 1 {
					if _, err := conn.Write(message); err != nil {
						return err
					}
				}
			}
		}()
	}()
	conn := testkit.Must(net.Dial("tcp", bound.Addr().String()))(t)
	testkit.NoError(t, conn.(*net.TCPConn).SetNoDelay(false))
	message := make([]byte, 100)
	start := time.Now()
	for range count {
		for range 2 {
			testkit.Must(conn.Write(message))(t)
		}
		testkit.Must(io.ReadFull(conn, message))(t)
	}
	took := time.Since(start)
	testkit.Check(t, conn.Close())
	testkit.Check(t, <-served)
	testkit.Check(t, l.Close())
	return took
}

// TestListenerAcknowledges: a client with Nagle's algorithm does not wait 40 ms for an acknowledgement in each cycle.
// Without NewListener, it does.
func TestListenerAcknowledges(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("TCP_QUICKACK exists on Linux only")
	}
	const plainCycles, count, delay = 10, 50, 40 * time.Millisecond
	plain := cycles(t, func(l net.Listener) net.Listener { return l }, plainCycles)
	if plain < plainCycles*delay/2 {
		t.Skipf("this kernel does not delay acknowledgements: %d cycles without the wrapper took %v", plainCycles, plain)
	}
	for try := 1; ; try++ {
		prompt := cycles(t, NewListener, count)
		t.Logf("%v a cycle without the wrapper, %v with it", plain/plainCycles, prompt/count)
		if prompt < count*delay*7/8 {
			return
		}
		if try == 5 { // another process may have used the machine in some tries
			t.Fatalf("%d cycles took %v, as if acknowledgements were delayed", count, prompt)
		}
	}
}

// TestListenerOthers: the listener returns errors and non-TCP connections unchanged.
func TestListenerOthers(t *testing.T) {
	bound := testkit.Must(net.Listen("unix", t.TempDir()+"/socket"))(t)
	l := NewListener(bound)
	client := testkit.Must(net.Dial("unix", bound.Addr().String()))(t)
	defer client.Close()
	conn := testkit.Must(l.Accept())(t)
	defer conn.Close()
	if _, ok := conn.(*net.UnixConn); !ok {
		t.Errorf("it is a %T", conn)
	}
	testkit.Check(t, l.Close())
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
}
