package opsqueue_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// TestReplyHasBoundedLength: clients accept frames of 16 MiB, so a reply's trace contexts and keys of strategic metadata
// count towards its length, too.
func TestReplyHasBoundedLength(t *testing.T) {
	testkit.OneByOne(t)
	h := startHost(t)
	header := http.Header{
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Baggage": {"k=" + strings.Repeat("v", 8000)},
	}
	content := bytes.Repeat([]byte{7}, 8300)
	var pairs []any
	for i := range 16 {
		pairs = append(pairs, fmt.Sprintf("key%d_%s", i, strings.Repeat("k", 50)), i)
	}
	p := h.producer()
	for range 9 {
		s := wire.InsertSubmission{Chunks: wire.ChunkContents{Direct: &wire.Direct{}}, StrategicMetadata: metadata(pairs...)}
		for range 115 {
			s.Chunks.Direct.Contents = append(s.Chunks.Direct.Contents, content)
		}
		_, err := p.Insert(h.ctx, s, header)
		h.must(err)
	}
	r := h.raw()
	r.put(0, wire.WantToReserveChunks{Max: 1000, Strategy: oldest})
	m := r.read()
	if n := len(m); n >= 16<<20 {
		t.Errorf("a reply has %d bytes", n)
	}
	reply, err := wire.DecodeServerToClient(m)
	h.must(err)
	if n := len(reply.(wire.ChunksReserved).Chunks); n < 100 {
		t.Errorf("a reply has %d chunks", n)
	}
}

// silentPeer is a consumer's connection that sends frames, and reads only when the test calls readFrame.
type silentPeer struct {
	h    *host
	conn net.Conn
	r    *bufio.Reader
}

// connectSilent connects, and reads the response to the handshake.
func (h *host) connectSilent() *silentPeer {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.address)
	h.must(err)
	h.t.Cleanup(func() { conn.Close() })
	h.must(conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /consumer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	h.must(err)
	p := &silentPeer{h, conn, bufio.NewReaderSize(conn, 512)}
	resp, err := http.ReadResponse(p.r, nil)
	h.must(err)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		h.t.Fatalf("answered %s", resp.Status)
	}
	return p
}

const (
	frameBinary = 0x82
	framePing   = 0x89
	framePong   = 0x8a
)

// frame sends a frame with a short payload.
func (p *silentPeer) frame(kind byte, payload []byte) {
	p.h.t.Helper()
	if len(payload) > 125 {
		p.h.t.Fatalf("a payload of %d bytes", len(payload))
	}
	_, err := p.conn.Write(append([]byte{kind, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...))
	p.h.must(err)
}

// readFrame reads a frame and returns its opcode.
func (p *silentPeer) readFrame() (kind byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:2]); err != nil {
		return 0, err
	}
	n := int(head[1])
	switch n {
	case 126:
		if _, err := io.ReadFull(p.r, head[2:]); err != nil {
			return 0, err
		}
		n = int(head[2])<<8 | int(head[3])
	case 127:
		return 0, fmt.Errorf("a frame of 64 KiB or more")
	}
	_, err = p.r.Discard(n)
	return head[0], err
}

// TestPingsWaitBoundedTime: the server stops waiting for a pong before the connection ends.
func TestPingsWaitBoundedTime(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) {
		c.HeartbeatInterval, c.MaxMissableHeartbeats = 20*time.Millisecond, math.MaxInt32
	})
	p := h.connectSilent()
	if kind, err := p.readFrame(); err != nil || kind != frameBinary { // Init
		t.Fatalf("frame of kind %#x: %v", kind, err)
	}
	before := runtime.NumGoroutine()
	var pings atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for {
			kind, err := p.readFrame()
			if err != nil {
				ended <- err
				return
			}
			if kind == framePing {
				pings.Add(1)
			}
		}
	}()
	testkit.Eventually(h.t, "40 pings have arrived", func() bool { return pings.Load() >= 40 })
	// Unsolicited pongs keep the connection open, and the server sends no pings while they arrive.
	testkit.Eventually(h.t, "the pings have ended", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the connection ended: %v", err)
		default:
		}
		p.frame(framePong, nil)
		return runtime.NumGoroutine() < before+20
	})
}

// TestExpiryTakesFewGoroutines: if a connection does not read, its reservations expire without one goroutine each.
func TestExpiryTakesFewGoroutines(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.ReservationExpiration = time.Second })
	content := bytes.Repeat([]byte{7}, 8<<10)
	for range 9 { // more than the connection can buffer
		s := direct()
		for range 100 {
			s.Chunks.Direct.Contents = append(s.Chunks.Direct.Contents, content)
		}
		h.insert(s)
	}
	p := h.connectSilent()
	p.frame(frameBinary, wire.EncodeClientToServer(wire.ClientToServer{Contents: wire.WantToReserveChunks{Max: 1000, Strategy: oldest}}))
	other := h.consumer()
	testkit.Eventually(h.t, "the connection holds all chunks, but for the first that expires", func() bool {
		_, _, text := h.send("GET", "/metrics", "", "")
		return strings.Contains(text, "\nreserver_chunks_reserved_count 900\n") || strings.Contains(text, "\nreserver_chunks_reserved_count 899\n")
	})
	h.reserveOne(other) // the first that expired
	most := runtime.NumGoroutine()
	testkit.NoError(t, p.conn.Close())
	for left := 899; left > 0; {
		most = max(most, runtime.NumGoroutine())
		left -= len(h.reserve(other, 100, oldest))
	}
	if most > 200 {
		t.Errorf("%d goroutines", most)
	}
}
