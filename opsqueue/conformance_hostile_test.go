package opsqueue_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
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
		if try == tries {
			t.Fatalf("%d chunks took %s", chunks, took)
		}
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
	h.must(err)
	defer conn.Close()
	h.must(conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = io.WriteString(conn, "GET /consumer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	h.must(err)
	for n := range uint64(chunks) {
		_, err := conn.Write(frame(wire.EncodeClientToServer(wire.ClientToServer{Nonce: n, Contents: wire.WantToReserveChunks{Max: 1}})))
		h.must(err)
	}
	c := h.consumer()
	prompt := h.insert(stored("p", 1))
	start := time.Now()
	seen := map[wire.SubmissionID]bool{}
	for len(seen) < chunks+1 {
		got := h.reserveOne(c)
		seen[got.Chunk.SubmissionID] = true
		if got.Chunk.SubmissionID != prompt && len(got.Chunk.InputContent) != len(content) {
			t.Errorf("%+v has %d bytes", got.Chunk.ChunkID, len(got.Chunk.InputContent))
		}
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
		if !ok || len(m.Chunks) == 0 || len(m.Chunks) > 1000 {
			t.Fatalf("got %T after %d chunks", m, held)
		}
		held += len(m.Chunks)
	}
	r.put(1000, wire.WantToReserveChunks{Max: 1})
	if m, ok := r.decoded().(wire.ChunksReserved); !ok || m.Nonce != 1000 || len(m.Chunks) != 0 {
		t.Errorf("got %+v", m)
	}
	c := h.consumer()
	for range 10 {
		if got := h.reserveOne(c); got.Chunk.SubmissionID != id || got.Chunk.Retries != 0 {
			t.Errorf("got %+v", got.Chunk)
		}
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
	testkit.Eventually(t, fmt.Sprintf("at most %d goroutines run", before+5), func() bool {
		return runtime.NumGoroutine() <= before+5
	})
}

// TestUnknownStatusesOfLargeIDs: unknown ids of every size are answered with null.
func TestUnknownStatusesOfLargeIDs(t *testing.T) {
	h := startHost(t)
	id := h.insert(stored("p", 1))
	for _, other := range []wire.SubmissionID{0, 1, id - 1, id + 1, id ^ 1<<21, id ^ 1<<40, 1<<63 - 1} {
		testkit.Equal(t, kind(h.status(other)), "null", "submission", other)
	}
}
