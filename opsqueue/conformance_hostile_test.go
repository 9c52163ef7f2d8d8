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

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// TestOneConsumerIsNotDelayed: a consumer with Nagle's algorithm does not wait 40 ms for an acknowledgement with each
// chunk. That would take 8 s for 200 chunks.
func TestOneConsumerIsNotDelayed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("TCP_QUICKACK exists on Linux only")
	}
	h := startHost(t)
	const chunks, tries = 200, 5
	for try := 1; ; try++ {
		id := h.insert(stored("p", chunks))
		c := h.consumer()
		start := time.Now()
		for range chunks {
			h.must(c.Complete(h.ctx, h.reserveOne(c).Chunk.ChunkID, nil))
		}
		took := time.Since(start)
		h.waitFor(id, "Completed")
		if took < chunks*35*time.Millisecond {
			return
		}
		testkit.MustHold(t, try != tries, chunks, "chunks took", took)
	}
}

// TestSlowReader: a consumer that requests a lot and reads nothing is dropped. Its chunks are handed out again. Other
// consumers are not delayed.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(c *opsqueue.Config) { c.MaxChunkRetries = 100 })
	content := bytes.Repeat([]byte{1}, 900_000)
	const chunks = 24 // more than the buffers of both sockets hold
	var ids []wire.SubmissionID
	for range chunks {
		ids = append(ids, h.insert(direct(content)))
	}
	conn, err := net.Dial("tcp", h.address)
	testkit.NoError(h.t, err)
	defer conn.Close()
	h.must(conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = io.WriteString(conn, "GET /consumer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	testkit.NoError(h.t, err)
	for n := range uint64(chunks) {
		testkit.Must(conn.Write(frame(wire.EncodeClientToServer(wire.ClientToServer{Nonce: n, Contents: wire.WantToReserveChunks{Max: 1}}))))(h.t)
	}
	c := h.consumer()
	prompt := h.insert(stored("p", 1))
	start := time.Now()
	seen := map[wire.SubmissionID]bool{}
	for len(seen) < chunks+1 {
		got := h.reserveOne(c)
		seen[got.Chunk.SubmissionID] = true
		testkit.Holds(t, got.Chunk.SubmissionID == prompt || len(got.Chunk.InputContent) == len(content),
			got.Chunk.ChunkID, "has", len(got.Chunk.InputContent), "bytes")
		h.must(c.Complete(h.ctx, got.Chunk.ChunkID, nil))
	}
	for _, id := range ids {
		h.waitFor(id, "Completed")
	}
	t.Logf("all chunks were completed after %s", time.Since(start))
}

// frame returns a masked binary frame. The message must be shorter than 64 KiB.
func frame(message []byte) []byte {
	b := []byte{0x82}
	if len(message) < 126 {
		b = append(b, 0x80|byte(len(message)))
	} else {
		b = append(b, 0x80|126, byte(len(message)>>8), byte(len(message)))
	}
	return append(append(b, 0, 0, 0, 0), message...) // masking with zeros changes nothing
}

// TestManyRequests: a connection may have 256 outstanding requests for chunks. The 257th ends the connection. Other
// connections stay.
func TestManyRequests(t *testing.T) {
	h := startHost(t)
	bystander := h.consumer()
	parked := h.later(bystander, 1, oldest)
	r := h.raw()
	for n := range uint64(257) {
		r.put(n, wire.WantToReserveChunks{Max: 1})
	}
	r.dropped()
	h.insert(stored("p", 1))
	testkit.Equal(t, len(<-parked), 1)
	testkit.Equal(t, bystander.Connects(), 1)
}

// TestManyHeldChunks: a connection may hold 100,000 chunks. A request for more gets none, and other connections can get
// them.
func TestManyHeldChunks(t *testing.T) {
	testkit.OneByOne(t)
	h := startHost(t)
	id := h.insert(stored("p", 100_010))
	r := h.raw()
	held := 0
	for n := uint64(0); held < 100_000; n++ {
		r.put(n, wire.WantToReserveChunks{Max: 1000})
		m, ok := r.decoded().(wire.ChunksReserved)
		testkit.MustHold(t, ok && len(m.Chunks) != 0 && len(m.Chunks) <= 1000, "got", fmt.Sprintf("%T", m), "after", held, "chunks")
		held += len(m.Chunks)
	}
	r.put(1000, wire.WantToReserveChunks{Max: 1})
	m, ok := r.decoded().(wire.ChunksReserved)
	testkit.Holds(t, ok && m.Nonce == 1000 && len(m.Chunks) == 0, "got", m)
	c := h.consumer()
	for range 10 {
		got := h.reserveOne(c)
		testkit.Holds(t, got.Chunk.SubmissionID == id && got.Chunk.Retries == 0, "got", got.Chunk)
	}
}

// TestManyConsumers: closed connections leave no goroutines.
func TestManyConsumers(t *testing.T) {
	h := startHost(t)
	h.raw().settle(0)
	before := runtime.NumGoroutine()
	for range 20 {
		var sockets []*rawConsumer
		for n := range uint64(20) {
			r := h.raw()
			for k := range n % 4 {
				r.put(k, wire.WantToReserveChunks{Max: 3, Strategy: random})
			}
			sockets = append(sockets, r)
		}
		for n, r := range sockets {
			switch n % 3 {
			case 0:
				_ = r.socket.CloseNow()
			case 1:
				go r.socket.Close(websocket.StatusNormalClosure, "") // waits for the server's answer
			default:
				r.send(websocket.MessageText, nil)
				r.dropped()
			}
		}
	}
	testkit.Eventually(t, fmt.Sprintf("at most %d goroutines run", before+5), func() bool { return runtime.NumGoroutine() <= before+5 })
}

// TestUnknownStatusesOfLargeIDs: unknown ids of every size are answered with null.
func TestUnknownStatusesOfLargeIDs(t *testing.T) {
	h := startHost(t)
	id := h.insert(stored("p", 1))
	for _, other := range []wire.SubmissionID{0, 1, id - 1, id + 1, id ^ 1<<21, id ^ 1<<40, 1<<63 - 1} {
		testkit.Equal(t, kind(h.status(other)), "null", "submission", other)
	}
}

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
		testkit.Must(p.Insert(h.ctx, s, header))(h.t)
	}
	r := h.raw()
	r.put(0, wire.WantToReserveChunks{Max: 1000, Strategy: oldest})
	m := r.read()
	n := len(m)
	testkit.Holds(t, n < 16<<20, "a reply has", n, "bytes")
	reply := testkit.Must(wire.DecodeServerToClient(m))(h.t)
	n = len(reply.(wire.ChunksReserved).Chunks)
	testkit.Holds(t, n >= 100, "a reply has", n, "chunks")
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
	testkit.NoError(h.t, err)
	h.t.Cleanup(func() { conn.Close() })
	h.must(conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /consumer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	testkit.NoError(h.t, err)
	p := &silentPeer{h, conn, bufio.NewReaderSize(conn, 512)}
	resp := testkit.Must(http.ReadResponse(p.r, nil))(h.t)
	testkit.MustEqual(h.t, resp.StatusCode, http.StatusSwitchingProtocols, "answered", resp.Status)
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
	testkit.MustHold(p.h.t, len(payload) <= 125, "a payload of", len(payload), "bytes")
	testkit.Must(p.conn.Write(append([]byte{kind, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)))(p.h.t)
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
		c.HeartbeatInterval, c.MaxMissableHeartbeats = 100*time.Millisecond, math.MaxInt32
	})
	p := h.connectSilent()
	if kind, err := p.readFrame(); err != nil || kind != frameBinary { // Init
		t.Fatalf("frame of kind %#x: %v", kind, err)
	}
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
	// Unsolicited pongs keep the connection open, and the server sends few pings while they arrive often.
	testkit.Eventually(h.t, "the pings have ended", func() bool {
		p.frame(framePong, nil)
		select {
		case err := <-ended:
			t.Fatalf("the connection ended: %v", err)
		default:
		}
		stacks := make([]byte, 4<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("websocket.(*Conn).Ping(")) < 20 // of all hosts of this process
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
	testkit.Holds(t, most <= 200, most, "goroutines")
}
