package opsqueue_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// TestInit: the first message has the settings, the version, and a name for the connection.
func TestInit(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.HeartbeatInterval, c.MaxMissableHeartbeats = 2500*time.Millisecond, 7 })
	connID := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	names := map[string]bool{}
	for range 2 {
		init, err := h.consumer().Init(h.ctx)
		want := (wire.Init{MaxMissableHeartbeats: 7, HeartbeatInterval: wire.Duration(2500 * time.Millisecond), VersionInfo: "v0.40.1", ConnID: init.ConnID})
		testkit.Holds(t, err == nil && init == want && connID.MatchString(init.ConnID) && !names[init.ConnID], init, err, "not", want)
		names[init.ConnID] = true
	}
}

// TestMaxOfReservations: a consumer that requests too many chunks gets all that there are. A request for 0 is an error.
func TestMaxOfReservations(t *testing.T) {
	h := startHost(t)
	c := h.consumer()
	id := h.insert(stored("p", 3))
	testkit.Equal(t, idsOf(h.reserve(c, 1000, oldest), id), "0/0 0/1 0/2")
	testkit.Fails(c.Reserve(h.ctx, 0, oldest))(t, stockclient.ErrIncorrectUsage) // a reservation of 0 chunks
	// The client has dropped the connection, so the chunks are free again.
	got := h.reserve(c, 1<<40, newest)
	testkit.Holds(t, len(got) != 0 && got[0].Chunk.SubmissionID == id, got)
	// A raw connection survives the error.
	r := h.raw()
	r.settle(0)
	r.settle(1)
	h.insert(stored("q", 1))
	r.put(2, wire.WantToReserveChunks{Max: 1})
	m, ok := r.decoded().(wire.ChunksReserved)
	testkit.Holds(t, ok && m.Nonce == 2 && len(m.Chunks) == 1, "got", m)
}

// TestSeveralReservations: with several reservations on one connection, each reply has the nonce of its request.
func TestSeveralReservations(t *testing.T) {
	h := startHost(t)
	r := h.raw()
	const outstanding = 50
	for n := range uint64(outstanding) {
		r.put(n, wire.WantToReserveChunks{Max: 1, Strategy: []wire.Strategy{oldest, newest, random, preferDistinct(wire.Random, "user")}[n%4]})
	}
	for range outstanding / 2 {
		h.insert(stored("p", 2))
	}
	nonces, chunks := map[uint64]bool{}, map[wire.ChunkID]bool{}
	for range outstanding {
		m, ok := r.decoded().(wire.ChunksReserved)
		testkit.MustHold(t, ok && len(m.Chunks) == 1 && m.Nonce < outstanding && !nonces[m.Nonce] &&
			!chunks[m.Chunks[0].Chunk.ChunkID], "got", m, "after", nonces)
		nonces[m.Nonce], chunks[m.Chunks[0].Chunk.ChunkID] = true, true
	}
	r.settle(outstanding)
}

// TestForeignCompletions: a consumer can complete a chunk that another consumer holds, or that nobody holds. The server
// ignores completions of unknown chunks.
func TestForeignCompletions(t *testing.T) {
	h := startHost(t)
	id := h.insert(stored("p", 4))
	holder, other := h.consumer(), h.consumer()
	chunk := func(index int64) wire.ChunkID { return wire.ChunkID{SubmissionID: id, Index: index} }
	testkit.MustEqual(t, idsOf(h.reserve(holder, 2, oldest), id), "0/0 0/1")
	for _, unknown := range []wire.ChunkID{chunk(4), chunk(1<<62 + 1), {SubmissionID: 12345, Index: 0}, {SubmissionID: id + 1, Index: 0}} {
		h.must(other.Complete(h.ctx, unknown, nil))
		h.must(other.Fail(h.ctx, unknown, "boom"))
	}
	h.must(other.Complete(h.ctx, chunk(0), nil)) // held by holder
	h.must(other.Complete(h.ctx, chunk(2), nil)) // held by nobody
	h.waitDone(id, 2)
	h.must(other.Complete(h.ctx, chunk(2), nil)) // completed already
	h.must(other.Fail(h.ctx, chunk(0), "late"))
	h.must(holder.Complete(h.ctx, chunk(0), nil))
	testkit.MustEqual(t, idsOf(h.reserve(other, 5, oldest), id), "0/3")
	h.waitDone(id, 2)
	h.must(holder.Complete(h.ctx, chunk(1), nil))
	h.must(holder.Complete(h.ctx, chunk(3), nil))
	h.waitFor(id, "Completed")
	testkit.Equal(t, holder.Connects(), 1)
	testkit.Equal(t, other.Connects(), 1)
}

// TestCompletionRightAfterInsert: a chunk can be completed as soon as the insert is answered.
func TestCompletionRightAfterInsert(t *testing.T) {
	h := startHost(t)
	var workers sync.WaitGroup
	for n := range 4 {
		p, c := h.producer(), h.consumer()
		workers.Go(func() {
			for range 100 {
				id, err := p.Insert(h.ctx, stored("p", 1), nil)
				if err == nil {
					err = c.Complete(h.ctx, wire.ChunkID{SubmissionID: id, Index: 0}, nil)
				}
				if err != nil {
					t.Errorf("worker %d: %v", n, err)
					return
				}
				for {
					status, err := p.Status(h.ctx, id)
					if err != nil {
						t.Errorf("worker %d: the submission is %s: %v", n, kind(status), err)
						return
					}
					if kind(status) == "Completed" {
						break
					}
				}
			}
		})
	}
	workers.Wait()
}

// TestReportsKeepTheirOrder: if a consumer completes and fails the same chunk, the first report counts.
func TestReportsKeepTheirOrder(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.MaxChunkRetries = 1 })
	c := h.consumer()
	for n := range 50 {
		id := h.insert(stored("p", 1))
		chunk := h.reserveOne(c).Chunk.ChunkID
		complete := func() { h.must(c.Complete(h.ctx, chunk, nil)) }
		fail := func() { h.must(c.Fail(h.ctx, chunk, "boom")) }
		if n%2 == 0 {
			complete()
			fail()
			h.waitFor(id, "Completed")
		} else {
			fail()
			complete()
			h.waitFor(id, "Failed")
		}
	}
}

// TestDisconnectReleases: when a connection ends, its chunks are handed out again immediately.
func TestDisconnectReleases(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.HeartbeatInterval = time.Hour }) // so that no missed heartbeat releases them
	id := h.insert(stored("p", 20))
	holder, other := h.consumer(), h.consumer()
	testkit.MustEqual(t, len(h.reserve(holder, 20, oldest)), 20)
	holder.Disconnect()
	var got []wire.ReservedChunk
	for len(got) < 20 {
		got = append(got, h.reserve(other, 20, oldest)...)
	}
	testkit.Equal(t, idsOf(got, id)[:11], "0/0 0/1 0/2")
}

// TestExpiry: when a reservation expires, its holder is notified, and another consumer gets the chunk. A completion by
// the first holder still counts.
func TestExpiry(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.ReservationExpiration = 500 * time.Millisecond })
	id := h.insert(stored("p", 1))
	first, second := h.consumer(), h.consumer()
	start := time.Now()
	chunk := h.reserveOne(first).Chunk.ChunkID
	testkit.MustEqual(t, h.reserveOne(second).Chunk.ChunkID, chunk)
	if took := time.Since(start); took < h.config.ReservationExpiration {
		t.Errorf("the reservation expired after %s", took)
	}
	testkit.Eventually(h.t, "the holder is notified", func() bool { return first.Expired() > 0 })
	h.must(first.Complete(h.ctx, chunk, nil))
	h.waitFor(id, "Completed")
	testkit.Equal(t, first.Connects(), 1, "the holder connected")
}

// TestCompletionAfterExpiry: a completion counts even if the reservation has expired and nobody holds the chunk.
func TestCompletionAfterExpiry(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.ReservationExpiration = 50 * time.Millisecond })
	id := h.insert(stored("p", 1))
	c := h.consumer()
	chunk := h.reserveOne(c).Chunk.ChunkID
	testkit.Eventually(h.t, "the holder is notified", func() bool { return c.Expired() > 0 })
	h.must(c.Complete(h.ctx, chunk, nil))
	h.waitFor(id, "Completed")
}

// TestLateFailureAfterExpiry: a consumer answers an expiry with a FailChunk. It does not release the reservation of the
// next consumer.
func TestLateFailureAfterExpiry(t *testing.T) {
	for !lateFailure(t) {
	}
}

// lateFailure runs the test. It returns false if the second reservation expired too early.
func lateFailure(t *testing.T) bool {
	h := startHost(t, func(c *opsqueue.Config) { c.ReservationExpiration = time.Second })
	id := h.insert(stored("p", 1))
	first, second := h.raw(), h.consumer()
	first.put(0, wire.WantToReserveChunks{Max: 1})
	m, ok := first.decoded().(wire.ChunksReserved)
	testkit.MustHold(t, ok && len(m.Chunks) == 1, "got", m)
	chunk := h.reserveOne(second).Chunk.ChunkID
	taken := time.Now()
	gone, ok := first.decoded().(wire.ChunkReservationExpired)
	testkit.MustHold(t, ok && gone.ID == chunk, "the holder got", gone)
	first.put(1, wire.FailChunk{ID: chunk, Failure: "Reservation expired"})
	first.settle(2)
	ctx, cancel := context.WithTimeout(h.ctx, 200*time.Millisecond)
	defer cancel()
	got, err := h.consumer().Reserve(ctx, 1, oldest)
	if time.Since(taken) > 900*time.Millisecond || second.Expired() > 0 { // real time: undecided, so try again
		return false
	}
	testkit.Holds(t, err != nil, "a third consumer got", got, "which the second one holds")
	h.must(second.Complete(h.ctx, chunk, nil))
	h.waitFor(id, "Completed")
	return true
}

// TestExpiryCountsAsFailure: a submission fails if the reservations of a chunk keep expiring. The consumer reports each
// expiry as a failure.
func TestExpiryCountsAsFailure(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.ReservationExpiration = 20 * time.Millisecond; c.MaxChunkRetries = 3 })
	id := h.insert(stored("p", 1))
	c := h.consumer()
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	reserved := make(chan int64)
	go func() {
		n := int64(0)
		for {
			if _, err := c.Reserve(ctx, 1, oldest); err != nil {
				reserved <- n
				return
			}
			n++
		}
	}()
	failed := h.waitFor(id, "Failed").Failed
	cancel()
	n := <-reserved
	testkit.Holds(t, n <= 2*3+1, "the chunk was handed out", n, "times") // an expiry and a late failure may each hand it out again
	testkit.Holds(t, failed.Chunk.Failure != "", "the submission failed without a text", failed)
}

// TestHeartbeat: the server drops a peer that answers no pings, and hands out its chunks again. A peer that answers stays
// connected.
func TestHeartbeat(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.HeartbeatInterval, c.MaxMissableHeartbeats = 250*time.Millisecond, 3 })
	id := h.insert(stored("p", 1))
	silent := h.raw()
	silent.put(0, wire.WantToReserveChunks{Max: 1})
	m, ok := silent.decoded().(wire.ChunksReserved)
	testkit.MustHold(t, ok && len(m.Chunks) == 1, "got", m)
	start := time.Now() // from here on, nothing reads the first consumer's socket, so it answers no ping
	c := h.consumer()
	testkit.MustEqual(t, h.reserveOne(c).Chunk.SubmissionID, id)
	if took := time.Since(start); took < 3*h.config.HeartbeatInterval/2 {
		t.Errorf("the silent peer was dropped after %s", took)
	}
	silent.dropped()
	// The second consumer has sent nothing but pongs, and is still connected.
	testkit.Eventually(h.t, "the consumer has been idle for five intervals", func() bool { return time.Since(start) > 10*h.config.HeartbeatInterval }) // real time: nothing happens on a real connection
	testkit.Equal(t, c.Connects(), 1, "the consumer connected")
	h.must(c.Complete(h.ctx, wire.ChunkID{SubmissionID: id, Index: 0}, nil))
	h.waitFor(id, "Completed")
	testkit.Equal(t, c.Connects(), 1, "the consumer connected")
}

// TestFirstPing: the server sends the first ping immediately.
func TestFirstPing(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.HeartbeatInterval = time.Hour })
	pinged := make(chan []byte, 1)
	socket, _ := testkit.Must2(websocket.Dial(h.ctx, "ws://"+h.address+"/consumer", &websocket.DialOptions{
		OnPingReceived: func(_ context.Context, payload []byte) bool { pinged <- payload; return true },
	}))(t)
	defer socket.CloseNow()
	go func() {
		for {
			if _, _, err := socket.Read(h.ctx); err != nil {
				return
			}
		}
	}()
	select {
	case <-pinged:
	case <-h.ctx.Done():
		t.Error("no ping")
	}
}

// TestBadMessages: a malformed message ends only its own connection, and releases that connection's chunks.
func TestBadMessages(t *testing.T) {
	h := startHost(t)
	bystander := h.consumer()
	parked := h.later(bystander, 1, oldest)
	unhex := func(text string) []byte { return testkit.Must(hex.DecodeString(text))(t) }
	binary := websocket.MessageBinary
	for name, send := range map[string]func(r *rawConsumer){
		"text frame":         func(r *rawConsumer) { r.send(websocket.MessageText, []byte(`{"nonce":0}`)) },
		"text frame of CBOR": func(r *rawConsumer) { r.send(websocket.MessageText, unhex("a0")) },
		"text frame of a message": func(r *rawConsumer) {
			r.send(websocket.MessageText, wire.EncodeClientToServer(wire.ClientToServer{Nonce: 1, Contents: wire.WantToReserveChunks{Max: 1}}))
		},
		"not CBOR":               func(r *rawConsumer) { r.send(binary, unhex("ff")) },
		"no bytes":               func(r *rawConsumer) { r.send(binary, nil) },
		"not an envelope":        func(r *rawConsumer) { r.send(binary, unhex("a0")) },
		"unknown message":        func(r *rawConsumer) { r.send(binary, unhex("a2656e6f6e63650068636f6e74656e747363666f6f")) },
		"nonce below 0":          func(r *rawConsumer) { r.send(binary, unhex("a2656e6f6e63652068636f6e74656e747363666f6f")) },
		"part of a message":      func(r *rawConsumer) { r.send(binary, unhex("a2656e6f6e636500")) },
		"a length of 2^63 bytes": func(r *rawConsumer) { r.send(binary, unhex("5b7fffffffffffffff")) },
		"deep nesting":           func(r *rawConsumer) { r.send(binary, append(make([]byte, 0), nested(100_000)...)) },
	} {
		t.Run(name, func(t *testing.T) {
			id := h.insert(stored("p", 2))
			r := h.raw()
			if first := <-parked; len(first) != 1 {
				t.Fatalf("got %+v", first)
			} else {
				h.must(bystander.Complete(h.ctx, first[0].Chunk.ChunkID, nil))
			}
			r.put(0, wire.WantToReserveChunks{Max: 1})
			m, ok := r.decoded().(wire.ChunksReserved)
			testkit.MustHold(t, ok && len(m.Chunks) == 1, "got", m)
			send(r)
			r.dropped()
			got := h.reserveOne(bystander)
			h.must(bystander.Complete(h.ctx, got.Chunk.ChunkID, nil))
			h.waitFor(id, "Completed")
			parked = h.later(bystander, 1, oldest)
		})
	}
	testkit.Equal(t, bystander.Connects(), 1, "the other consumer connected")
	h.insert(stored("last", 1))
	<-parked
}

// nested returns nested CBOR arrays.
func nested(depth int) []byte {
	b := make([]byte, depth)
	for i := range b {
		b[i] = 0x81
	}
	return append(b, 0)
}

// TestFramesOfHTTP: bytes that are not a WebSocket, or that stop halfway, do not affect other connections.
func TestFramesOfHTTP(t *testing.T) {
	h := startHost(t)
	for _, text := range []string{
		"GET /consumer HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /consumer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff1234",
		"GET /consumer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x82\x05no mask",
		"GET /consumer HTTP/1.1\r\nHo",
		"\x00\x01\x02\x03\r\n\r\n",
	} {
		conn := testkit.Must(net.Dial("tcp", h.address))(t)
		testkit.Must(conn.Write([]byte(text)))(t)
		defer conn.Close()
	}
	h.runConsumers([]wire.Strategy{random}, upper)
	got := testkit.Must(h.producer().Run(h.ctx, h.objects, stockclient.Work{Chunks: chunksOf(5)}))(h.t)
	checkResults(t, got, 5)
}

// TestCallersThatDisappear: if a chunk reaches a consumer whose caller has gone, it is handed out again.
func TestCallersThatDisappear(t *testing.T) {
	h := startHost(t, func(c *opsqueue.Config) { c.MaxChunkRetries = 1000 })
	impatient, other := h.consumer(), h.consumer()
	for n := range 20 {
		ctx, cancel := context.WithCancel(h.ctx)
		called := make(chan error, 1)
		go func() { _, err := impatient.Reserve(ctx, 1, oldest); called <- err }()
		inserted := make(chan wire.SubmissionID, 1)
		go func() { inserted <- h.insert(stored(fmt.Sprint(n), 1)) }()
		time.Sleep(time.Duration(n%5) * time.Millisecond / 2) // real time: vary the order of events
		cancel()
		id := <-inserted
		if err := <-called; err == nil {
			impatient.Disconnect() // it got the chunk before its context ended
		}
		got := h.reserveOne(other)
		testkit.MustEqual(t, got.Chunk.SubmissionID, id)
		h.must(other.Complete(h.ctx, got.Chunk.ChunkID, nil))
		h.waitFor(id, "Completed")
	}
}
