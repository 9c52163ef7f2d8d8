package stockclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/opsqueue/wire"
)

// ErrConnection reports that the connection ended before the call was answered. The next call connects again.
var ErrConnection = errors.New("connection to the server ended")

// Failures that the client reports on its own.
const (
	failureExpired     = "Reservation expired"
	failureDisappeared = "Requester disappeared"
)

// connection is one WebSocket. Its nonces start at 0.
type connection struct {
	socket   *websocket.Conn
	consumer *Consumer
	init     wire.Init
	missed   atomic.Uint64 // ticks of the watchdog since the last frame
	stop     context.CancelFunc
	running  context.Context // ends with the connection
	workers  sync.WaitGroup

	mu       sync.Mutex // messages are numbered and written one at a time
	next     uint64     // the next nonce
	reserves map[uint64]*reserve
	answered []uint64 // bit n: nonce n was answered
}

// reserve is an unanswered reservation.
type reserve struct {
	max   uint64
	reply chan wire.ChunksReserved // of length 1
	gone  bool                     // nobody waits for the reply
}

// connect opens a connection and waits for Init.
func (c *Consumer) connect(ctx context.Context) (*connection, error) {
	l := &connection{consumer: c, reserves: map[uint64]*reserve{}}
	socket, resp, err := websocket.Dial(ctx, "ws://"+c.address+"/consumer", &websocket.DialOptions{
		HTTPClient:     &http.Client{Transport: &http.Transport{DialContext: dial}},
		OnPingReceived: func(context.Context, []byte) bool { l.missed.Store(0); return true },
		OnPongReceived: func(context.Context, []byte) { l.missed.Store(0) },
	})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode < 500 {
			c.violations.add("consumer: the upgrade got status %d", resp.StatusCode)
		}
		return nil, err
	}
	socket.SetReadLimit(wire.MaxMessageBytes)
	l.socket = socket
	l.running, l.stop = context.WithCancel(context.Background())
	first, err := l.read(ctx)
	if err != nil {
		l.end()
		return nil, err
	}
	init, ok := first.(wire.Init)
	if !ok {
		l.violation("the first message is a %T and not Init", first)
		l.end()
		return nil, errors.New("the first message is not Init")
	}
	if init.HeartbeatInterval <= 0 {
		l.violation("Init has the heartbeat interval %s", time.Duration(init.HeartbeatInterval))
		l.end()
		return nil, errors.New("the heartbeat interval is not positive")
	}
	l.init = init
	l.workers.Go(l.readAll)
	l.workers.Go(l.watch)
	return l, nil
}

// dial opens a TCP connection with Nagle's algorithm on, as the original does.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetNoDelay(false)
}

// end drops the TCP connection without a close frame, as the original does. All waiting calls return ErrConnection.
func (l *connection) end() {
	l.stop()
	_ = l.socket.CloseNow() // may be closed already
}

func (l *connection) violation(format string, args ...any) {
	l.consumer.violations.add("connection %s: %s", l.init.ConnID, fmt.Sprintf(format, args...))
}

// read reads a message. It records a violation if the original could not read the message.
func (l *connection) read(ctx context.Context) (wire.ServerToClient, error) {
	kind, message, err := l.socket.Read(ctx)
	if err != nil {
		return nil, err
	}
	l.missed.Store(0)
	if kind != websocket.MessageBinary {
		l.violation("a text frame arrived: %q", message)
		return nil, errors.New("text frame")
	}
	decoded, err := wire.DecodeServerToClient(message)
	if err != nil {
		l.violation("a message cannot be decoded: %v: %x", err, message)
	}
	return decoded, err
}

// readAll handles messages until the connection ends.
func (l *connection) readAll() {
	defer l.end()
	for {
		message, err := l.read(l.running)
		if err != nil {
			return
		}
		switch m := message.(type) {
		case wire.Init:
			l.violation("a second Init arrived")
		case wire.ChunksReserved:
			err = l.reserved(m)
		case wire.ChunkReservationExpired:
			l.consumer.expired.Add(1)
			err = l.send(wire.FailChunk{ID: m.ID, Failure: failureExpired})
		}
		if err != nil {
			return
		}
	}
}

// reserved passes the answer of a reservation to its caller. If the caller has gone, it fails the chunks.
func (l *connection) reserved(m wire.ChunksReserved) error {
	l.mu.Lock()
	r, waits := l.reserves[m.Nonce]
	delete(l.reserves, m.Nonce)
	used := m.Nonce < l.next
	again := used && l.wasAnswered(m.Nonce)
	l.mu.Unlock()
	switch {
	case again:
		l.violation("nonce %d was answered twice", m.Nonce)
		return errors.New("nonce answered twice")
	case !waits && used:
		l.violation("nonce %d was answered, which is that of a message without a reply", m.Nonce)
		return errors.New("nonce not outstanding")
	case !waits:
		l.violation("nonce %d was answered, which was not sent", m.Nonce)
		return errors.New("nonce not outstanding")
	}
	l.inspect(r, m)
	if l.deliver(r, m) {
		return nil
	}
	return l.disappeared(m)
}

// wasAnswered reports whether a nonce was answered before, and marks it as answered. The caller holds mu.
func (l *connection) wasAnswered(nonce uint64) bool {
	word, bit := nonce/64, uint64(1)<<(nonce%64)
	for uint64(len(l.answered)) <= word {
		l.answered = append(l.answered, 0)
	}
	before := l.answered[word]&bit != 0
	l.answered[word] |= bit
	return before
}

// deliver passes the reply to the caller. It returns false if the caller has gone.
func (l *connection) deliver(r *reserve, m wire.ChunksReserved) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.gone {
		return false
	}
	r.reply <- m
	return true
}

// inspect records the violations in an answer that can be decoded.
func (l *connection) inspect(r *reserve, m wire.ChunksReserved) {
	if m.MaxIsZero != (r.max == 0) {
		l.violation("nonce %d, which requested %d chunks, was answered with Err: %t", m.Nonce, r.max, m.MaxIsZero)
	}
	if uint64(len(m.Chunks)) > r.max || len(m.Chunks) == 0 && !m.MaxIsZero {
		l.violation("nonce %d requested %d chunks and got %d", m.Nonce, r.max, len(m.Chunks))
	}
	for _, c := range m.Chunks {
		s := &c.Submission
		if c.Chunk.SubmissionID != s.ID || c.Chunk.Index >= s.ChunksTotal || s.ChunksDone > s.ChunksTotal || c.Chunk.Retries < 0 {
			l.violation("chunk %+v does not belong to submission %s with %d of %d chunks done", c.Chunk.ChunkID, s.ID, s.ChunksDone, s.ChunksTotal)
		}
		if (s.Prefix == nil) != (c.Chunk.InputContent != nil) {
			l.violation("chunk %+v has content: %t; its submission has a prefix: %t", c.Chunk.ChunkID, c.Chunk.InputContent != nil, s.Prefix != nil)
		}
	}
}

// disappeared fails the chunks of an answer for which nobody waits.
func (l *connection) disappeared(m wire.ChunksReserved) error {
	for _, c := range m.Chunks {
		if err := l.send(wire.FailChunk{ID: c.Chunk.ChunkID, Failure: failureDisappeared}); err != nil {
			return err
		}
	}
	return nil
}

// watch ends the connection if no frame arrives for too long.
func (l *connection) watch() {
	ticks := time.NewTicker(time.Duration(l.init.HeartbeatInterval))
	defer ticks.Stop()
	for {
		select {
		case <-l.running.Done():
			return
		case <-ticks.C:
			if l.missed.Add(1) > l.init.MaxMissableHeartbeats {
				l.violation("no frame arrived for %d intervals of %s", l.missed.Load(), time.Duration(l.init.HeartbeatInterval))
				l.end()
				return
			}
		}
	}
}

// send writes a message without a reply.
func (l *connection) send(contents wire.ClientContents) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(contents)
}

// write writes a message with the next nonce. The caller holds mu.
func (l *connection) write(contents wire.ClientContents) error {
	message := wire.EncodeClientToServer(wire.ClientToServer{Nonce: l.next, Contents: contents})
	l.next++
	if err := l.socket.Write(l.running, websocket.MessageBinary, message); err != nil {
		l.end()
		return fmt.Errorf("%w: %w", ErrConnection, err)
	}
	return nil
}

// reserve requests chunks and waits for them. If ctx ends first, it fails the chunks that arrive later.
func (l *connection) reserve(ctx context.Context, max uint64, strategy wire.Strategy) (wire.ChunksReserved, error) {
	r := &reserve{max: max, reply: make(chan wire.ChunksReserved, 1)}
	l.mu.Lock()
	l.reserves[l.next] = r
	err := l.write(wire.WantToReserveChunks{Max: max, Strategy: strategy})
	l.mu.Unlock()
	if err != nil {
		return wire.ChunksReserved{}, err
	}
	select {
	case m := <-r.reply:
		return m, nil
	case <-l.running.Done():
		select {
		case m := <-r.reply: // it arrived before the connection ended
			return m, nil
		default:
			return wire.ChunksReserved{}, ErrConnection
		}
	case <-ctx.Done():
	}
	l.mu.Lock()
	r.gone = true
	l.mu.Unlock()
	select {
	case m := <-r.reply: // it arrived at the same time
		_ = l.disappeared(m) // an error ends the connection, which returns the chunks
	default:
	}
	return wire.ChunksReserved{}, ctx.Err()
}
