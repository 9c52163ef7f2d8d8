package opsqueue

import (
	"fmt"
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
	_, ok := conn.(*net.UnixConn)
	testkit.Holds(t, ok, "it is a", fmt.Sprintf("%T", conn))
	testkit.Check(t, l.Close())
	testkit.Fails(l.Accept())(t)
}

// TestHeartbeat simulates connections second by second, with the original's defaults.
func TestHeartbeat(t *testing.T) {
	start := time.Unix(1750000000, 0)
	for _, c := range []struct {
		name     string
		most     uint64
		received []int // seconds at which a frame arrives, after the tick of that second
		pings    []int
		drop     int // 0: not within two minutes
	}{
		{"a silent peer", 3, nil, []int{0, 10, 20, 30}, 40},
		{"a peer that answers each ping", 3, []int{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110}, []int{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110}, 0},
		{"a peer that sends often", 3, []int{5, 12, 21, 30, 38, 47, 56, 65, 74, 83, 92, 101, 110, 119}, []int{0}, 0},
		{"a peer that answers the last ping", 3, []int{35}, []int{0, 10, 20, 30, 45, 55, 65, 75}, 85},
		{"a frame in the second of the drop is too late", 3, []int{40}, []int{0, 10, 20, 30}, 40},
		{"no ping may be missed", 0, nil, []int{0}, 10},
		{"no ping may be missed and none is", 0, []int{9, 18, 27}, []int{0, 37}, 47},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := NewHeartbeat(10*time.Second, c.most, start)
			pings, received := c.pings, c.received
			for second := range 120 {
				now := start.Add(time.Duration(second) * time.Second)
				beat := h.Tick(now)
				switch {
				case beat == Drop && second == c.drop:
					testkit.Holds(t, len(pings) == 0, "dropped before the pings", pings)
					return
				case len(pings) > 0 && pings[0] == second:
					testkit.MustHold(t, beat == Ping && h.Due().Equal(now.Add(10*time.Second)), second, "s: beat", beat, "due", h.Due())
					testkit.MustEqual(t, h.Tick(now), Wait, second, "s: a second tick at the same time")
					pings = pings[1:]
				case beat != Wait:
					t.Fatalf("%d s: beat %d", second, beat)
				}
				if len(received) > 0 && received[0] == second {
					h.Received(now)
					received = received[1:]
				}
			}
			testkit.Holds(t, c.drop == 0 && len(pings) == 0, "it was not dropped at", c.drop, "s, and the pings", pings, "were not sent")
		})
	}
}

// TestHeartbeatLate: after a late tick there is one ping, not one for each missed interval.
func TestHeartbeatLate(t *testing.T) {
	start := time.Unix(1750000000, 0)
	h := NewHeartbeat(time.Second, 3, start)
	now := start.Add(time.Minute)
	testkit.MustEqual(t, h.Tick(now), Ping)
	testkit.Equal(t, h.Tick(now.Add(999*time.Millisecond)), Wait)
	testkit.Equal(t, h.Tick(now.Add(time.Second)), Ping)
}
