package stockclient

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// peer is the fake server's side of one connection. Its methods end the script if they fail.
type peer struct {
	t      *testing.T
	socket *websocket.Conn
	tcp    net.Conn
}

type peerKey struct{}

// fakeServer starts a server that runs one script for each consumer connection, in order. It refuses further connections
// with 503. It returns its address, and a function that waits until all scripts have ended.
func fakeServer(t *testing.T, scripts ...func(p *peer)) (address string, wait func()) {
	t.Helper()
	ended := make([]chan struct{}, len(scripts))
	next := make(chan int, len(scripts))
	for i := range scripts {
		ended[i] = make(chan struct{})
		next <- i
	}
	return serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			select {
			case i := <-next:
				defer close(ended[i])
				testkit.Holds(t, r.URL.Path == "/consumer" && r.Header.Get("Sec-Websocket-Protocol") == "" &&
					r.Header.Get("Sec-Websocket-Extensions") == "", "upgrade of", r.URL.Path, "with", r.Header)
				socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
				if err != nil {
					t.Error(err)
					return
				}
				defer socket.CloseNow()
				scripts[i](&peer{t, socket, r.Context().Value(peerKey{}).(net.Conn)})
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}), func() {
			t.Helper()
			for i := range ended {
				select {
				case <-ended[i]:
				case <-time.After(time.Minute):
					t.Fatalf("script %d has not ended", i)
				}
			}
		}
}

func serveHTTP(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: handler, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, c)
	}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { server.Close(); testkit.Failed(t, <-served, http.ErrServerClosed) })
	return l.Addr().String()
}

// get reads a message of the consumer and compares it.
func (p *peer) get(nonce uint64, want wire.ClientContents) {
	kind, message, err := p.socket.Read(p.t.Context())
	if err != nil {
		p.t.Errorf("read nonce %d: %v", nonce, err)
		return
	}
	got := fmt.Sprintf("%x", message)
	wanted := fmt.Sprintf("%x", wire.EncodeClientToServer(wire.ClientToServer{Nonce: nonce, Contents: want}))
	testkit.Holds(p.t, kind == websocket.MessageBinary && got == wanted, "message", nonce, "of kind", kind, got, "not", wanted)
}

func (p *peer) put(m wire.ServerToClient) {
	testkit.Check(p.t, p.socket.Write(p.t.Context(), websocket.MessageBinary, wire.EncodeServerToClient(m)))
}

// gone waits until the consumer has dropped the connection. It fails if the consumer sent another message or a close
// frame.
func (p *peer) gone() {
	_, message, err := p.socket.Read(p.t.Context())
	if err == nil {
		p.t.Errorf("message %x before the end of the connection", message)
	} else if status := websocket.CloseStatus(err); status != -1 {
		p.t.Errorf("the consumer sent a close frame with status %d", status)
	}
}

var hello = wire.Init{MaxMissableHeartbeats: 3, HeartbeatInterval: wire.Duration(10 * time.Second), VersionInfo: "v0.40.1", ConnID: "red"}

func chunkOf(index, total int64) wire.ReservedChunk {
	prefix := "p"
	return wire.ReservedChunk{
		Chunk:      wire.Chunk{ChunkID: wire.ChunkID{SubmissionID: 7, Index: index}},
		Submission: wire.Submission{ID: 7, Prefix: &prefix, ChunksTotal: total, ChunkSize: 1, OtelTraceCarrier: "{}"},
	}
}

func reserveOne(strategy wire.Strategy) wire.ClientContents {
	return wire.WantToReserveChunks{Max: 1, Strategy: strategy}
}

// inTime returns a context that ends a hanging test.
func inTime(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func checkViolations(t *testing.T, v *Violations, want ...string) {
	t.Helper()
	got := v.List()
	testkit.Holds(t, len(got) == len(want) && slices.EqualFunc(got, want, strings.Contains), "violations", got, "not", want)
}

// TestConsumer: a consumer sends the right messages with the right nonces, and drops TCP without a close frame.
func TestConsumer(t *testing.T) {
	ctx, v := inTime(t), &Violations{}
	strategy := wire.Strategy{PreferDistinct: []string{"id"}, Base: wire.Random}
	address, wait := fakeServer(t, func(p *peer) {
		p.put(hello)
		p.get(0, wire.WantToReserveChunks{Max: 5, Strategy: strategy})
		p.put(wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 2), chunkOf(1, 2)}})
		p.get(1, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 0}})
		p.get(2, wire.FailChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 1}, Failure: "boom"})
		p.get(3, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 1}, OutputContent: []byte{1, 200}})
		p.gone()
	})
	c := NewConsumer(address, v)
	chunks, err := c.Reserve(ctx, 5, strategy)
	testkit.MustHold(t, err == nil && len(chunks) == 2 && chunks[1].Chunk.Index == 1, chunks, err)
	for _, err := range []error{
		c.Complete(ctx, chunks[0].Chunk.ChunkID, nil), c.Fail(ctx, chunks[1].Chunk.ChunkID, "boom"), c.Complete(ctx, chunks[1].Chunk.ChunkID, []byte{1, 200}),
	} {
		testkit.NoError(t, err)
	}
	c.Close()
	wait()
	checkViolations(t, v)
	testkit.Fails(c.Reserve(ctx, 1, strategy))(t, ErrClosed)
}

// TestServerBreaksRules: the client records each sequence of messages that breaks the original's client.
func TestServerBreaksRules(t *testing.T) {
	raw := func(kind websocket.MessageType, text string) func(*peer) {
		return func(p *peer) {
			message, err := hex.DecodeString(text)
			testkit.Check(p.t, err)
			testkit.Check(p.t, p.socket.Write(p.t.Context(), kind, message))
		}
	}
	put := func(messages ...wire.ServerToClient) func(*peer) {
		return func(p *peer) {
			for i, m := range messages {
				if reply, ok := m.(wire.ChunksReserved); ok && reply.Nonce == 0 && i == 1 {
					p.get(0, reserveOne(wire.Strategy{}))
				}
				p.put(m)
			}
		}
	}
	for name, c := range map[string]struct {
		script func(*peer)
		want   string
	}{
		"reservation answered twice": {put(hello, wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 1)}},
			wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 1)}}), "nonce 0 was answered twice"},
		"nonce of the future": {put(hello, wire.ChunksReserved{Nonce: 9, Chunks: []wire.ReservedChunk{chunkOf(0, 1)}}), "nonce 9 was answered, which was not sent"},
		"nonce of a completion": {func(p *peer) {
			p.put(hello)
			p.get(0, reserveOne(wire.Strategy{}))
			p.get(1, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: 1, Index: 2}})
			p.put(wire.ChunksReserved{Nonce: 1, Chunks: []wire.ReservedChunk{chunkOf(0, 1)}})
		}, "nonce 1 was answered, which is that of a message without a reply"},
		"not CBOR":            {func(p *peer) { p.put(hello); raw(websocket.MessageBinary, "ff")(p) }, "cannot be decoded"},
		"not a message":       {func(p *peer) { p.put(hello); raw(websocket.MessageBinary, "6449656974")(p) }, "cannot be decoded"},
		"text frame":          {func(p *peer) { p.put(hello); raw(websocket.MessageText, "7b7d")(p) }, "a text frame arrived"},
		"Init not first":      {put(wire.ChunkReservationExpired{ID: wire.ChunkID{SubmissionID: 1, Index: 2}}), "the first message is a wire.ChunkReservationExpired"},
		"second Init":         {put(hello, hello), "a second Init"},
		"no first message":    {raw(websocket.MessageBinary, "80"), "cannot be decoded"},
		"interval of 0":       {put(wire.Init{}), "heartbeat interval 0s"},
		"too many chunks":     {put(hello, wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 2), chunkOf(1, 2)}}), "requested 1 chunks and got 2"},
		"no chunks":           {put(hello, wire.ChunksReserved{Nonce: 0}), "requested 1 chunks and got 0"},
		"Err without a cause": {put(hello, wire.ChunksReserved{Nonce: 0, MaxIsZero: true}), "answered with Err: true"},
		"foreign chunk":       {put(hello, wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(1, 1)}}), "does not belong to submission 7"},
		"silence": {func(p *peer) {
			p.put(wire.Init{MaxMissableHeartbeats: 1, HeartbeatInterval: wire.Duration(500 * time.Millisecond)})
			p.get(0, reserveOne(wire.Strategy{}))
			p.get(1, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: 1, Index: 2}})
			p.gone()
		}, "no frame arrived for 2 intervals of 500ms"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, v := inTime(t), &Violations{}
			done := make(chan struct{})
			address, wait := fakeServer(t, func(p *peer) { c.script(p); <-done })
			consumer := NewConsumer(address, v)
			defer consumer.Close()
			ctx, cancel := context.WithCancel(ctx)
			go func() { // some scripts do not answer the reservation, or do not send Init
				for len(v.List()) == 0 && ctx.Err() == nil {
					_ = sleep(ctx, time.Millisecond)
				}
				cancel()
			}()
			called := make(chan struct{})
			go func() {
				defer close(called)
				_, _ = consumer.Reserve(ctx, 1, wire.Strategy{})
			}()
			if name == "nonce of a completion" || name == "silence" {
				for l := consumer.current(); l == nil || !l.sent(1); l = consumer.current() {
					_ = sleep(ctx, time.Millisecond)
				}
				testkit.Check(t, consumer.Complete(ctx, wire.ChunkID{SubmissionID: 1, Index: 2}, nil))
			}
			<-ctx.Done()
			<-called
			close(done)
			consumer.Close()
			wait()
			checkViolations(t, v, c.want)
		})
	}
}

// sent reports whether n messages were sent.
func (l *connection) sent(n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next >= n
}

// TestPingsKeepConnection: the client answers pings, counts them as frames, and sends none.
func TestPingsKeepConnection(t *testing.T) {
	ctx, v := inTime(t), &Violations{}
	address, wait := fakeServer(t, func(p *peer) {
		p.put(wire.Init{MaxMissableHeartbeats: 40, HeartbeatInterval: wire.Duration(5 * time.Millisecond)})
		p.get(0, reserveOne(wire.Strategy{}))
		reading := p.socket.CloseRead(p.t.Context())
		for start := time.Now(); time.Since(start) < 300*time.Millisecond; { // longer than the 205 ms after which silence ends the connection
			if err := p.socket.Ping(reading); err != nil { // waits for the pong
				p.t.Error(err)
				return
			}
			time.Sleep(time.Millisecond) // real time: a real connection with nothing but pings
		}
		p.put(wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 1)}})
		<-reading.Done()
	})
	c := NewConsumer(address, v)
	testkit.Must(c.Reserve(ctx, 1, wire.Strategy{}))(t)
	c.Close()
	wait()
	checkViolations(t, v)
}

// TestExpired: the consumer fails a chunk whose reservation has expired.
func TestExpired(t *testing.T) {
	ctx, v := inTime(t), &Violations{}
	id := wire.ChunkID{SubmissionID: 7, Index: 0}
	address, wait := fakeServer(t, func(p *peer) {
		p.put(hello)
		p.get(0, reserveOne(wire.Strategy{}))
		p.put(wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 1)}})
		p.put(wire.ChunkReservationExpired{ID: id})
		p.get(1, wire.FailChunk{ID: id, Failure: "Reservation expired"})
		p.gone()
	})
	c := NewConsumer(address, v)
	testkit.Must(c.Reserve(ctx, 1, wire.Strategy{}))(t)
	for c.Expired() == 0 || !c.current().sent(2) {
		testkit.NoError(t, sleep(ctx, time.Millisecond))
	}
	c.Close()
	wait()
	checkViolations(t, v)
}

// TestCallerGone: the consumer fails chunks that arrive after its caller has gone.
func TestCallerGone(t *testing.T) {
	ctx, v := inTime(t), &Violations{}
	gone := make(chan struct{})
	failed := make(chan struct{})
	address, wait := fakeServer(t, func(p *peer) {
		p.put(hello)
		p.get(0, wire.WantToReserveChunks{Max: 2})
		<-gone
		p.put(wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 2), chunkOf(1, 2)}})
		p.get(1, wire.FailChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 0}, Failure: "Requester disappeared"})
		p.get(2, wire.FailChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 1}, Failure: "Requester disappeared"})
		close(failed)
		p.gone()
	})
	c := NewConsumer(address, v)
	calling, cancel := context.WithCancel(ctx)
	go func() {
		for l := c.current(); l == nil || !l.sent(1); l = c.current() {
			_ = sleep(ctx, time.Millisecond)
		}
		cancel()
	}()
	testkit.Fails(c.Reserve(calling, 2, wire.Strategy{}))(t, context.Canceled)
	close(gone)
	<-failed
	c.Close()
	wait()
	checkViolations(t, v)
}

// TestReconnect: a call fails when its connection ends. The next call connects again, even if the server has refused some
// connections, and starts with nonce 0.
func TestReconnect(t *testing.T) {
	ctx, v := inTime(t), &Violations{}
	address, wait := fakeServer(t, func(p *peer) {
		p.put(hello)
		p.get(0, reserveOne(wire.Strategy{Base: wire.Newest}))
	}, func(p *peer) { // ends before Init
	}, func(p *peer) {
		p.put(hello)
		p.get(0, reserveOne(wire.Strategy{Base: wire.Newest}))
		p.put(wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 1)}})
		p.gone()
	})
	c := NewConsumer(address, v)
	testkit.Fails(c.Reserve(ctx, 1, wire.Strategy{Base: wire.Newest}))(t, ErrConnection)
	testkit.Must(c.Reserve(ctx, 1, wire.Strategy{Base: wire.Newest}))(t)
	testkit.Equal(t, c.Connects(), 2)
	c.Close()
	wait()
	checkViolations(t, v)
}

// TestZeroChunks: after a reservation of 0 chunks, the consumer drops the connection.
func TestZeroChunks(t *testing.T) {
	ctx, v := inTime(t), &Violations{}
	address, wait := fakeServer(t, func(p *peer) {
		p.put(hello)
		p.get(0, wire.WantToReserveChunks{})
		p.put(wire.ChunksReserved{Nonce: 0, MaxIsZero: true})
		p.gone()
	})
	c := NewConsumer(address, v)
	testkit.Fails(c.Reserve(ctx, 0, wire.Strategy{}))(t, ErrIncorrectUsage)
	wait()
	c.Close()
	checkViolations(t, v)
}

// TestNagle: Nagle's algorithm is on for a consumer's socket.
func TestNagle(t *testing.T) {
	address, _ := fakeServer(t)
	conn, err := dial(inTime(t), "tcp", address)
	testkit.NoError(t, err)
	defer conn.Close()
	raw := testkit.Must(conn.(*net.TCPConn).SyscallConn())(t)
	noDelay := -1
	testkit.NoError(t, raw.Control(func(fd uintptr) {
		noDelay, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
	}))
	testkit.NoError(t, err)
	testkit.Equal(t, noDelay, 0)
}

// TestProducer: a producer sends the right request on each route.
func TestProducer(t *testing.T) {
	ctx, v := inTime(t), &Violations{}
	var seen []string
	answers := map[string]string{
		"POST /producer/submissions":                                  "7",
		"GET /producer/submissions/8":                                 "null",
		"GET /producer/submissions/count":                             "3",
		"GET /producer/submissions/lookup_id_by_prefix/a%2Fb":         "9",
		"POST /producer/submissions/lookup_ids_by_strategic_metadata": "[1,2]",
		"GET /producer/version":                                       "v0.40.1",
		"GET /producer/submissions/count_completed":                   "4",
	}
	address := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		testkit.Check(t, err)
		_, hasLength := r.Header["Content-Length"]
		testkit.Equal(t, r.Header.Get("Traceparent") != "", r.Method+r.URL.Path == "POST/producer/submissions")
		seen = append(seen, fmt.Sprintf("%s %s %q %d %t %q", r.Method, r.URL.EscapedPath(), r.Header.Get("Content-Type"), r.ContentLength, hasLength, body))
		if text, ok := answers[r.Method+" "+r.URL.EscapedPath()]; ok {
			io.WriteString(w, text)
		}
	})
	p := NewProducer(address, v)
	defer p.Close()
	id, err := p.Insert(ctx, wire.InsertSubmission{Chunks: wire.ChunkContents{SeeObjectStorage: &wire.SeeObjectStorage{Prefix: "x", Count: 5}}}, http.Header{"Traceparent": {"00-1"}})
	testkit.NoError(t, err)
	testkit.Equal(t, id, 7)
	status := testkit.Must(p.Status(ctx, 8))(t)
	testkit.Holds(t, status == nil, status)
	testkit.Equal(t, testkit.Must(p.Count(ctx))(t), 3)
	testkit.Equal(t, testkit.Must(p.CountCompleted(ctx))(t), 4)
	id, ok := testkit.Must2(p.LookupByPrefix(ctx, "a/b"))(t)
	testkit.Holds(t, ok && id == 9, id, ok)
	testkit.Equal(t, len(testkit.Must(p.LookupByMetadata(ctx, wire.Metadata{"k": -1}))(t)), 2)
	testkit.Equal(t, testkit.Must(p.ServerVersion(ctx))(t), "v0.40.1")
	testkit.Check(t, p.Cancel(ctx, 8))
	want := []string{
		`POST /producer/submissions "application/json" 122 true "{\"chunk_contents\":{\"SeeObjectStorage\":{\"prefix\":\"x\",\"count\":5}},\"metadata\":null,\"strategic_metadata\":{},\"chunk_size\":null}"`,
		`GET /producer/submissions/8 "" 0 false ""`,
		`GET /producer/submissions/count "" 0 false ""`,
		`GET /producer/submissions/count_completed "" 0 false ""`,
		`GET /producer/submissions/lookup_id_by_prefix/a%2Fb "" 0 false ""`,
		`POST /producer/submissions/lookup_ids_by_strategic_metadata "application/json" 8 true "{\"k\":-1}"`,
		`GET /producer/version "" 0 false ""`,
		`POST /producer/submissions/cancel/8 "" 0 false ""`,
	}
	for i := range max(len(want), len(seen)) {
		if i >= len(want) || i >= len(seen) || want[i] != seen[i] {
			t.Errorf("requests:\n%s\nnot\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
			break
		}
	}
	checkViolations(t, v)
}

// TestProducerRetries: a producer repeats exactly the requests that the original repeats.
func TestProducerRetries(t *testing.T) {
	for _, c := range []struct {
		name    string
		call    func(context.Context, *Producer) error
		answers []string // "" drops the connection
		retries int64
		failure string
	}{
		{"insert", func(ctx context.Context, p *Producer) error {
			_, err := p.Insert(ctx, wire.InsertSubmission{Chunks: wire.ChunkContents{Direct: &wire.Direct{}}}, nil)
			return err
		}, []string{"500", "", "503", "200 1"}, 3, ""},
		{"status", func(ctx context.Context, p *Producer) error { _, err := p.Status(ctx, 1); return err }, []string{"", "502", "200 null"}, 2, ""},
		{"status: 4xx", func(ctx context.Context, p *Producer) error { _, err := p.Status(ctx, 1); return err }, []string{"400"}, 0, "status 400"},
		{"count", func(ctx context.Context, p *Producer) error { _, err := p.Count(ctx); return err }, []string{"500", "200 1"}, 1, ""},
		{"prefix", func(ctx context.Context, p *Producer) error { _, _, err := p.LookupByPrefix(ctx, "x"); return err }, []string{"500", "200 null"}, 1, ""},
		{"metadata", func(ctx context.Context, p *Producer) error { _, err := p.LookupByMetadata(ctx, nil); return err }, []string{"", "500"}, 1, "status 500"},
		{"cancel", func(ctx context.Context, p *Producer) error { return p.Cancel(ctx, 1) }, []string{"", "500"}, 1, "status 500"},
		{"version", func(ctx context.Context, p *Producer) error { _, err := p.ServerVersion(ctx); return err }, []string{""}, 0, "EOF"},
		{"wrong shape", func(ctx context.Context, p *Producer) error { _, err := p.Count(ctx); return err }, []string{`200 "x"`}, 0, "wrong shape"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &Violations{}
			var mu sync.Mutex
			answers := c.answers
			address := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				text := "500"
				if len(answers) > 0 {
					text, answers = answers[0], answers[1:]
				} else {
					t.Error("a request too many")
				}
				if text == "" {
					panic(http.ErrAbortHandler)
				}
				code, body, _ := strings.Cut(text, " ")
				var status int
				fmt.Sscan(code, &status)
				w.WriteHeader(status)
				io.WriteString(w, body)
			})
			p := NewProducer(address, v)
			// The server must drop only new connections: package net/http repeats a request on its own if a reused
			// connection is dropped.
			p.http.Transport.(*http.Transport).DisableKeepAlives = true
			err := c.call(inTime(t), p)
			mu.Lock()
			defer mu.Unlock()
			testkit.Holds(t, (err == nil) == (c.failure == "") && (err == nil || strings.Contains(err.Error(), c.failure)) &&
				p.Retries() == c.retries && len(answers) == 0, err, p.Retries(), "retries", len(answers), "answers are left")
			if c.name == "wrong shape" {
				checkViolations(t, v, "wrong shape")
			} else {
				checkViolations(t, v)
			}
		})
	}
}

// TestProducerAnswers: a cancel and a lookup return the right errors for statuses other than 200.
func TestProducerAnswers(t *testing.T) {
	status, body := 0, ""
	address := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status); io.WriteString(w, body) })
	ctx, v := inTime(t), &Violations{}
	p := NewProducer(address, v)
	defer p.Close()
	status, body = 404, "5"
	testkit.Failed(t, p.Cancel(ctx, 5), ErrNotFound)
	status, body = 409, `{"Completed":{"id":5,"prefix":null,"chunks_total":1,"chunk_size":1,"metadata":null,"strategic_metadata":{},"otel_trace_carrier":"{}","completed_at":"2026-01-01T00:00:00Z"}}`
	var conflict *NotCancellableError
	err := p.Cancel(ctx, 5)
	testkit.Holds(t, errors.As(err, &conflict) && conflict.Completed != nil && conflict.Completed.ID == 5, err)
	status, body = 400, "100"
	testkit.Fails(p.LookupByMetadata(ctx, nil))(t, TooManyError(100))
	checkViolations(t, v)
	status, body = 404, "6"
	_ = p.Cancel(ctx, 5)
	status, body = 200, "{}"
	_ = p.Cancel(ctx, 5)
	status, body = 400, "no such key"
	_, _ = p.LookupByMetadata(ctx, nil)
	status, body = 200, "4294967296"
	_, _ = p.Count(ctx)
	checkViolations(t, v, "404 has the id 6", "200 has the body", "lookup by metadata: 400", "greater than 32 bits")
}

// TestBackoff: the pauses are the Fibonacci numbers times 10 ms, up to 5 s.
func TestBackoff(t *testing.T) {
	var b backoff
	var got []int64
	for range 18 {
		got = append(got, b.pause().Milliseconds())
	}
	testkit.EqualSlices(t, got, []int64{10, 10, 20, 30, 50, 80, 130, 210, 340, 550, 890, 1440, 2330, 3770, 5000, 5000, 5000, 5000})
}

// TestViolationsAreBounded: Violations keeps only the first violations.
func TestViolationsAreBounded(t *testing.T) {
	v := &Violations{}
	for n := range mostViolations + 5 {
		v.add("%d", n)
	}
	list := v.List()
	testkit.Holds(t, len(list) == mostViolations+1 && list[0] == "0" && list[mostViolations] == "and 5 more", list)
}

// TestRunEachChunk: a producer and a consumer share an object store. The server hands out one chunk and reads its
// outcome.
func TestRunEachChunk(t *testing.T) {
	prefix := "p"
	objects := &ObjectStore{}
	objects.put("p/0-in.bin", []byte("in"))
	address, wait := fakeServer(t, func(p *peer) {
		p.put(hello)
		p.get(0, reserveOne(wire.Strategy{Base: wire.Random}))
		p.put(wire.ChunksReserved{Nonce: 0, Chunks: []wire.ReservedChunk{chunkOf(0, 3)}})
		p.get(1, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 0}})
		p.get(2, reserveOne(wire.Strategy{Base: wire.Random}))
		p.put(wire.ChunksReserved{Nonce: 2, Chunks: []wire.ReservedChunk{chunkOf(1, 3)}})
		p.get(3, wire.FailChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 1}, Failure: "object p/1-in.bin does not exist"})
		p.get(4, reserveOne(wire.Strategy{Base: wire.Random}))
		direct := chunkOf(2, 3)
		direct.Submission.Prefix, direct.Chunk.InputContent = nil, []byte("direct")
		p.put(wire.ChunksReserved{Nonce: 4, Chunks: []wire.ReservedChunk{direct}})
		p.get(5, wire.CompleteChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 2}, OutputContent: []byte("direct out")})
		p.get(6, reserveOne(wire.Strategy{Base: wire.Random}))
		p.put(wire.ChunksReserved{Nonce: 6, Chunks: []wire.ReservedChunk{chunkOf(0, 3)}})
		p.get(7, wire.FailChunk{ID: wire.ChunkID{SubmissionID: 7, Index: 0}, Failure: "leave after this chunk"})
		p.gone()
	})
	v := &Violations{}
	c := NewConsumer(address, v)
	runs := 0
	err := c.RunEachChunk(inTime(t), objects, wire.Strategy{Base: wire.Random}, func(_ wire.ReservedChunk, input []byte) ([]byte, error) {
		if runs++; runs == 3 {
			return nil, ErrLeave
		}
		return append(input, " out"...), nil
	})
	testkit.Failed(t, err, ErrLeave)
	c.Close()
	wait()
	out, ok := objects.get("p/0-out.bin")
	testkit.Holds(t, ok && string(out) == "in out", "output", string(out), ok)
	got, err := results(objects, &wire.SubmissionCompleted{Prefix: &prefix, ChunksTotal: 1})
	testkit.Holds(t, err == nil && len(got) == 1 && string(got[0]) == "in out", "results", got, err)
	testkit.Fails(results(objects, &wire.SubmissionCompleted{Prefix: &prefix, ChunksTotal: 2}))(t)
	checkViolations(t, v)
}
