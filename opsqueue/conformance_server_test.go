package opsqueue_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// host is a server of the protocol, over an engine with its data in a directory. Both can be stopped and started again at
// the same address.
type host struct {
	t       testing.TB
	ctx     context.Context // ends a test that hangs
	dir     string
	config  opsqueue.Config
	address string

	violations *stockclient.Violations
	objects    *stockclient.ObjectStore
	stop       func()                                  // nil: stopped
	wrap       func(opsqueue.Engine) opsqueue.Engine   // nil: the engine unchanged
	wrapState  func(opsqueue.Queries) opsqueue.Queries // nil: the state unchanged
	engine     *ingest.Engine
	server     *opsqueue.Server
	queues     int // of claimAs
}

// longestTest is much longer than any test takes on a busy machine.
const longestTest = 5 * time.Minute

// startHost starts a server with the original's defaults, as modified by change. At the end of the test, it stops the
// server, checks the data, and reports everything that would have broken a client of the original.
func startHost(t testing.TB, change ...func(*opsqueue.Config)) *host {
	t.Helper()
	h := newHost(t, change...)
	h.start()
	return h
}

// newHost is startHost without the start. The test may set wrap and wrapState before it calls start.
func newHost(t testing.TB, change ...func(*opsqueue.Config)) *host {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longestTest)
	h := &host{
		t: t, ctx: ctx, dir: t.TempDir(), config: opsqueue.DefaultConfig(),
		address: "127.0.0.1:0", violations: &stockclient.Violations{}, objects: &stockclient.ObjectStore{},
	}
	for _, c := range change {
		c(&h.config)
	}
	t.Cleanup(func() {
		if h.stop != nil {
			h.stop()
		}
		cancel()
		for _, v := range h.violations.List() {
			t.Errorf("the server would have broken a client: %s", v)
		}
		problems, err := ingest.Check(context.Background(), h.dir, func(p string) bool { t.Errorf("check: %s", p); return true })
		testkit.Holds(t, err == nil && problems <= 0, "check of the data", problems, "problems", err)
	})
	return h
}

func (h *host) start() {
	h.t.Helper()
	var started atomic.Pointer[opsqueue.Server]
	engine, err := ingest.Open(ingest.Options{Dir: h.dir, OnBatchEnds: func(ends []job.BatchEnd) {
		if server := started.Load(); server != nil {
			server.BatchEnds(ends)
		}
	}})
	testkit.NoError(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- engine.Run(ctx) }()
	var served opsqueue.Engine = engine
	if h.wrap != nil {
		served = h.wrap(engine)
	}
	var state opsqueue.Queries = engine.Queries()
	if h.wrapState != nil {
		state = h.wrapState(state)
	}
	server := opsqueue.New(served, state, h.config)
	h.engine, h.server = engine, server
	started.Store(server)
	var l net.Listener
	testkit.Eventually(h.t, "the address is free", func() bool { l, err = net.Listen("tcp4", h.address); return err == nil })
	h.address = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	h.stop = func() {
		h.stop = nil
		closing, end := context.WithTimeout(context.Background(), time.Minute)
		defer end()
		testkit.Check(h.t, server.Close(closing), "close")
		testkit.Check(h.t, <-ended, "serve")
		cancel()
		testkit.Check(h.t, <-ran, "engine")
	}
	testkit.Eventually(h.t, "the server is healthy", func() bool {
		resp, err := http.Get("http://" + h.address + "/ping")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// restart stops the server and the engine, and starts both again.
func (h *host) restart() {
	h.t.Helper()
	h.stop()
	h.start()
}

func (h *host) producer() *stockclient.Producer {
	p := stockclient.NewProducer(h.address, h.violations)
	h.t.Cleanup(p.Close)
	return p
}

func (h *host) consumer() *stockclient.Consumer {
	c := stockclient.NewConsumer(h.address, h.violations)
	h.t.Cleanup(c.Close)
	return c
}

// stored returns a submission of n chunks whose contents are in the object store.
func stored(prefix string, n int64, pairs ...any) wire.InsertSubmission {
	return wire.InsertSubmission{Chunks: wire.ChunkContents{SeeObjectStorage: &wire.SeeObjectStorage{Prefix: prefix, Count: n}}, StrategicMetadata: metadata(pairs...)}
}

// direct returns a submission whose contents are in the request.
func direct(contents ...[]byte) wire.InsertSubmission {
	return wire.InsertSubmission{Chunks: wire.ChunkContents{Direct: &wire.Direct{Contents: contents}}}
}

// metadata returns strategic metadata from alternating keys and values.
func metadata(pairs ...any) wire.Metadata {
	m := wire.Metadata{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = int64(pairs[i+1].(int))
	}
	return m
}

func (h *host) insert(s wire.InsertSubmission) wire.SubmissionID {
	h.t.Helper()
	id, err := h.producer().Insert(h.ctx, s, nil)
	testkit.NoError(h.t, err, "insert")
	return id
}

func (h *host) status(id wire.SubmissionID) *wire.SubmissionStatus {
	h.t.Helper()
	s, err := h.producer().Status(h.ctx, id)
	testkit.NoError(h.t, err, "status")
	return s
}

// kind returns the name of the status's variant, or "null".
func kind(s *wire.SubmissionStatus) string {
	switch {
	case s == nil:
		return "null"
	case s.InProgress != nil:
		return "InProgress"
	case s.Completed != nil:
		return "Completed"
	case s.Failed != nil:
		return "Failed"
	}
	return "Cancelled"
}

// waitFor waits until a submission has the wanted status, and returns it. It is needed because completions are not
// answered.
func (h *host) waitFor(id wire.SubmissionID, want string) (s *wire.SubmissionStatus) {
	h.t.Helper()
	p := h.producer()
	testkit.Eventually(h.t, fmt.Sprintf("submission %s is %s", id, want), func() bool {
		s = testkit.Must(p.Status(h.ctx, id))(h.t)
		return kind(s) == want
	})
	return s
}

// waitDone waits until n chunks of a submission in progress are completed.
func (h *host) waitDone(id wire.SubmissionID, n int64) {
	h.t.Helper()
	testkit.Eventually(h.t, fmt.Sprintf("%d chunks of submission %s are done", n, id), func() bool {
		s := h.status(id)
		testkit.MustHold(h.t, s != nil && s.InProgress != nil, "submission", id, "is", kind(s))
		return s.InProgress.ChunksDone == n
	})
}

// reported waits until the server has carried out all reports of a consumer. Reports have no answers, but are carried out
// in order.
func (h *host) reported(c *stockclient.Consumer) {
	h.t.Helper()
	id := h.insert(stored("reported", 1))
	h.must(c.Complete(h.ctx, wire.ChunkID{SubmissionID: id, Index: 0}, nil)) // nobody needs to hold it
	h.waitFor(id, "Completed")
}

// reserve reserves up to max chunks, and fails the test if none arrives.
func (h *host) reserve(c *stockclient.Consumer, max uint64, s wire.Strategy) []wire.ReservedChunk {
	h.t.Helper()
	chunks, err := c.Reserve(h.ctx, max, s)
	testkit.NoError(h.t, err, "reserve")
	return chunks
}

// reserveOne reserves a chunk by Oldest.
func (h *host) reserveOne(c *stockclient.Consumer) wire.ReservedChunk {
	h.t.Helper()
	return h.reserve(c, 1, oldest)[0]
}

func (h *host) must(err error) { h.t.Helper(); testkit.NoError(h.t, err) }

// later runs a reservation in a goroutine.
func (h *host) later(c *stockclient.Consumer, max uint64, s wire.Strategy) <-chan []wire.ReservedChunk {
	got := make(chan []wire.ReservedChunk, 1)
	go func() {
		chunks, err := c.Reserve(h.ctx, max, s)
		testkit.Check(h.t, err, "parked reservation")
		got <- chunks
	}()
	return got
}

// idsOf returns chunks as text: `0/1` is chunk 1 of the first submission in the list.
func idsOf(chunks []wire.ReservedChunk, submissions ...wire.SubmissionID) string {
	var names []string
	for _, c := range chunks {
		place := "?"
		for i, id := range submissions {
			if id == c.Chunk.SubmissionID {
				place = fmt.Sprint(i)
			}
		}
		names = append(names, fmt.Sprintf("%s/%d", place, c.Chunk.Index))
	}
	return strings.Join(names, " ")
}

var (
	oldest = wire.Strategy{Base: wire.Oldest}
	newest = wire.Strategy{Base: wire.Newest}
	random = wire.Strategy{Base: wire.Random}
)

func preferDistinct(base wire.Base, keys ...string) wire.Strategy {
	return wire.Strategy{PreferDistinct: keys, Base: base}
}

// rawConsumer is a WebSocket that sends only the messages of the test.
type rawConsumer struct {
	h      *host
	socket *websocket.Conn
}

// raw connects and reads Init.
func (h *host) raw() *rawConsumer {
	h.t.Helper()
	socket, _ := testkit.Must2(websocket.Dial(h.ctx, "ws://"+h.address+"/consumer", nil))(h.t)
	socket.SetReadLimit(wire.MaxMessageBytes)
	h.t.Cleanup(func() { socket.CloseNow() })
	r := &rawConsumer{h, socket}
	m, ok := r.decoded().(wire.Init)
	testkit.MustHold(h.t, ok, "the first message is", fmt.Sprintf("%T", m))
	return r
}

func (r *rawConsumer) send(kind websocket.MessageType, message []byte) {
	r.h.t.Helper()
	r.h.must(r.socket.Write(r.h.ctx, kind, message))
}

func (r *rawConsumer) put(nonce uint64, contents wire.ClientContents) {
	r.h.t.Helper()
	r.send(websocket.MessageBinary, wire.EncodeClientToServer(wire.ClientToServer{Nonce: nonce, Contents: contents}))
}

func (r *rawConsumer) read() []byte {
	r.h.t.Helper()
	kind, message := testkit.Must2(r.socket.Read(r.h.ctx))(r.h.t)
	testkit.MustEqual(r.h.t, kind, websocket.MessageBinary, "frame of kind")
	return message
}

func (r *rawConsumer) decoded() wire.ServerToClient {
	r.h.t.Helper()
	message := r.read()
	m, err := wire.DecodeServerToClient(message)
	testkit.NoError(r.h.t, err, fmt.Sprintf("%x", message))
	return m
}

// settle returns when the server has handled all earlier messages. The server answers a reservation of 0 chunks
// immediately.
func (r *rawConsumer) settle(nonce uint64) {
	r.h.t.Helper()
	r.put(nonce, wire.WantToReserveChunks{})
	for {
		if m, ok := r.decoded().(wire.ChunksReserved); ok && m.Nonce == nonce {
			testkit.MustHold(r.h.t, m.MaxIsZero, "a reservation of 0 chunks was answered with", m)
			return
		}
	}
}

// dropped checks that the server drops the connection.
func (r *rawConsumer) dropped() {
	r.h.t.Helper()
	for {
		if _, _, err := r.socket.Read(r.h.ctx); err != nil {
			testkit.NoError(r.h.t, r.h.ctx.Err(), "the server did")
			return
		}
	}
}
