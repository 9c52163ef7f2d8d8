package opsqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/wsframe"
	"github.com/daybookq/daybook/opsqueue/wire"
)

// consumer is a consumer's connection. It has a goroutine that reads messages, a goroutine that sends pings, and a
// goroutine for each waiting request for chunks.
type consumer struct {
	s      *Server
	name   string // conn_id
	runner string // of its claims
	conn   *websocket.Conn
	tcp    net.Conn // the connection below conn

	ctx  context.Context // ends with the connection
	stop context.CancelFunc

	beating   sync.Mutex // guards heartbeat and reading
	heartbeat *Heartbeat
	reading   bool // the server is reading from the connection

	waiting  sync.WaitGroup                // waiting requests for chunks
	requests chan struct{}                 // holds a value for each of them
	long     atomic.Pointer[chan struct{}] // closed when the last long report is stored; nil: there was none

	holding
}

const (
	// maxRequests bounds the requests of a connection that wait for chunks. The original's client sends one at a time.
	maxRequests = 256
	// maxLongWait is how long a client may take to send a long message.
	maxLongWait = 30 * time.Second
	// maxFrameWait is how long the client may take to read a message.
	maxFrameWait = 10 * time.Second
	// minPingWait is the minimum wait for the answer to a ping. It bounds only the number of waiting pings.
	minPingWait = time.Second
	// closeWait is how long a client may take to answer a close frame.
	closeWait = 100 * time.Millisecond
	// mistakeWait is how long a client that broke the rules may continue to send before it reads the close frame with the
	// reason. The wait ends early if the client closes the connection or the server is closed.
	mistakeWait = 5 * time.Second
)

// connKey is the context key for the net.Conn of a request.
type connKey struct{}

// serveConsumer answers GET /consumer.
func (s *Server) serveConsumer(w http.ResponseWriter, r *http.Request) error {
	c := &consumer{s: s, name: s.config.ConnID(), reading: true, requests: make(chan struct{}, maxRequests)}
	c.runner = runnerPrefix + s.instance + "/" + c.name
	c.holding.init()
	c.ctx, c.stop = context.WithCancel(s.running)
	c.tcp, _ = r.Context().Value(connKey{}).(net.Conn)
	if !s.admit() {
		c.stop()
		return &rejection{http.StatusServiceUnavailable, "the server stops"}
	}
	c.heartbeat = NewHeartbeat(s.config.HeartbeatInterval, s.config.MaxMissableHeartbeats, time.Now())
	conn, err := wsframe.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // guard has already refused requests with an Origin
		OnPingReceived:     func(context.Context, []byte) bool { c.received(); return true },
		OnPongReceived:     func(context.Context, []byte) { c.received() },
	}, wire.MaxMessageBytes)
	if err != nil { // Accept has answered the request
		c.stop()
		s.leave(c)
		return nil //nolint:nilerr
	}
	c.conn = conn
	s.opened(c)
	go func() { // the request's goroutine has a large stack and keeps the request in memory
		defer s.leave(c)
		c.run()
	}()
	return nil
}

// run serves the connection until it ends. Then it releases the connection's chunks.
func (c *consumer) run() {
	c.s.log.Debug("a consumer has connected", "conn_id", c.name)
	var beats sync.WaitGroup
	err := c.send(wire.Init{
		MaxMissableHeartbeats: c.s.config.MaxMissableHeartbeats, HeartbeatInterval: wire.Duration(c.s.config.HeartbeatInterval),
		VersionInfo: "v" + Version, ConnID: c.name,
	})
	if err == nil {
		beats.Go(c.beat)
		err = c.read()
	}
	c.closeFor(err)
	c.stop()
	c.cut()
	c.waiting.Wait()
	beats.Wait()
	c.releaseAll()
	c.s.log.Debug("a consumer has gone", "conn_id", c.name, "reason", err)
}

// read serves messages until the connection ends.
func (c *consumer) read() error {
	buffer := bytes.NewBuffer(make([]byte, 0, 512))
	for {
		c.readsNow(true)
		m, err := c.receive(buffer)
		if err != nil {
			return err
		}
		c.readsNow(false)
		if err := c.s.permits(workers); err != nil {
			return &mistake{err}
		}
		if err := c.serve(&m); err != nil {
			return err
		}
		if buffer.Cap() > maxKeptBuffer {
			buffer = bytes.NewBuffer(nil)
		}
	}
}

// receive reads the next message into a buffer, which it clears. A long message first waits until there is memory for it.
func (c *consumer) receive(buffer *bytes.Buffer) (m wire.ClientToServer, err error) {
	kind, r, err := c.conn.Reader(c.ctx)
	if err != nil {
		return m, err
	}
	if kind != websocket.MessageBinary {
		return m, &mistake{errors.New("a text message; messages are binary")}
	}
	buffer.Reset()
	n, err := buffer.ReadFrom(io.LimitReader(r, maxKeptBuffer))
	if err == nil && n == maxKeptBuffer {
		c.readsNow(false)
		if err := c.s.messages.Acquire(c.ctx, wire.MaxMessageBytes); err != nil {
			return m, err
		}
		c.readsNow(true)
		defer c.s.messages.Release(wire.MaxMessageBytes)
		late := time.AfterFunc(maxLongWait, c.cut)
		defer late.Stop()
		_, err = buffer.ReadFrom(r)
	}
	if err != nil {
		return m, err
	}
	if m, err = wire.DecodeClientToServer(buffer.Bytes()); err != nil {
		err = &mistake{err}
	}
	return m, err
}

// mistake is a message that no consumer may send.
type mistake struct{ error }

func (m *mistake) Unwrap() error { return m.error }

// serve starts to carry out one message. Completions and failures are carried out in order.
func (c *consumer) serve(m *wire.ClientToServer) error {
	switch what := m.Contents.(type) {
	case wire.WantToReserveChunks:
		return c.want(m.Nonce, what)
	case wire.CompleteChunk:
		return c.complete(what)
	case wire.FailChunk:
		return c.fail(what)
	default:
		return &mistake{fmt.Errorf("unknown message %T", what)}
	}
}

const maxKeptBuffer = 64 << 10

// send writes a message. Any goroutine may call it.
func (c *consumer) send(m wire.ServerToClient) error {
	ctx, cancel := context.WithTimeout(c.ctx, maxFrameWait)
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageBinary, wire.EncodeServerToClient(m))
}

// received records that a frame has arrived.
func (c *consumer) received() {
	c.beating.Lock()
	defer c.beating.Unlock()
	c.heartbeat.Received(time.Now())
}

// readsNow records whether the server is reading from the connection. The server stops reading after a message, or after
// a part of a long message.
func (c *consumer) readsNow(reading bool) {
	c.beating.Lock()
	defer c.beating.Unlock()
	c.reading = reading
	if !reading {
		c.heartbeat.Received(time.Now())
	}
}

// beat sends pings until the connection ends. It drops the connection if the consumer is silent.
func (c *consumer) beat() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var pings sync.WaitGroup
	defer pings.Wait()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		c.beating.Lock()
		if !c.reading { // an answer may have arrived that the server has not read
			c.heartbeat.Received(now)
		}
		beat, due := c.heartbeat.Tick(now), c.heartbeat.Due()
		c.beating.Unlock()
		switch beat {
		case Drop:
			c.s.log.Debug("a consumer is silent", "conn_id", c.name)
			c.stop()
			c.cut()
			return
		case Ping:
			pings.Go(func() { // received records the answer, and read notices the end
				ctx, cancel := context.WithTimeout(c.ctx, max(c.s.config.HeartbeatInterval, minPingWait))
				defer cancel()
				_ = c.conn.Ping(ctx)
			})
		}
		timer.Reset(max(0, due.Sub(now)))
	}
}

// closeGracefully ends the connection after a close frame.
func (c *consumer) closeGracefully() { c.closeWith(websocket.StatusGoingAway, "") }

// closeFor ends the connection with a close frame that gives the reason, if the consumer has made a mistake. It continues
// to read for a moment, because the system would discard the frame if unread data was left.
func (c *consumer) closeFor(err error) {
	status, reason := websocket.StatusPolicyViolation, ""
	if broken, ok := errors.AsType[*wsframe.Error](err); ok {
		status, reason = broken.Status, broken.Reason
	} else if why, ok := errors.AsType[*mistake](err); ok {
		reason = closeReason(why.Error())
	} else {
		return
	}
	gone := time.AfterFunc(mistakeWait, c.cut)
	defer gone.Stop()
	_ = c.conn.Close(status, reason) // the client notices the end of the connection, too
}

// closeReason truncates a reason to the maximum length in a close frame.
func closeReason(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), 123)], "")
}

// cut ends the connection immediately.
func (c *consumer) cut() {
	if c.tcp != nil {
		_ = c.tcp.Close() // there is nothing left to send
		return
	}
	_ = c.conn.CloseNow()
}
