package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
)

// StreamOptions are the options of OpenStream. A stream that gets jobs must have a RunnerID.
type StreamOptions struct {
	RunnerID string
	// Linger is how long the server keeps the stream's jobs for this runner after the connection has ended, at most 10
	// minutes, and at most until shortly before their leases end. 0 means that they return to their queues at once.
	Linger time.Duration
	// Resume is the ID of an earlier stream of this runner, whose connection the server closes. Claims are the claims
	// that the runner still has. They become claims of this stream. All other claims of the earlier stream return to
	// their queues.
	Resume string
	Claims []string
}

// Stream is a connection that carries many requests at the same time, and delivers jobs as soon as there are any. Any
// goroutine may call its methods. When the connection ends, the jobs of its claims return to their queues; see
// StreamOptions.Linger.
type Stream struct {
	ID   string
	Held map[string]int // the claims of StreamOptions.Claims that still hold jobs, and how many

	c         *Client
	url       string // of the node
	closing   atomic.Bool
	conn      *websocket.Conn
	defaults  jobDefaults
	heartbeat time.Duration
	heard     atomic.Int64 // when something arrived last, in unix ns
	done      chan struct{}

	mu       sync.Mutex // guards the fields below
	last     uint64     // number of the last request
	waiting  map[uint64]chan<- streamAnswer
	takers   map[uint64]*Subscription
	messages []outgoing // that are not written yet
	spare    []byte     // empty; for the next text
	writing  bool
	err      error // the reason why the connection has ended
}

// streamAnswer is an answer in a stream.
type streamAnswer struct {
	ok      jsontext.Value
	problem *problem.Error
	seq     uint64
	at      time.Time
}

// streamLine is a line of a text message of the server.
type streamLine struct {
	N            *uint64        `json:"n"`
	OK           jsontext.Value `json:"ok"`
	Problem      *problem.Error `json:"problem"`
	Seq          uint64         `json:"seq"`
	Subscription uint64         `json:"subscription"`
}

const streamProtocol = "daybook.v1"

var (
	// ErrNoStreams says that the server offers no streams, or that a proxy blocks them.
	ErrNoStreams = errors.New("the server offers no streams")
)

// OpenStream opens a stream. It returns the same errors as requests do, and is not repeated.
func (c *Client) OpenStream(ctx context.Context, o StreamOptions) (_ *Stream, err error) {
	s := &Stream{c: c, url: c.conn.Servers.URL(), done: make(chan struct{}), waiting: map[uint64]chan<- streamAnswer{}, takers: map[uint64]*Subscription{}}
	dialing := ctx
	ctx, cancel := context.WithTimeout(ctx, c.conn.Timeout)
	defer cancel()
	defer func() {
		if err != nil && dialing.Err() == nil {
			c.conn.Servers.Failed(s.url)
		}
	}()
	alive := func(context.Context, []byte) bool { s.heard.Store(time.Now().UnixNano()); return true }
	header := http.Header{}
	if err := c.conn.Authorize(ctx, header); err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	conn, res, err := websocket.Dial(ctx, s.url+"/stream", &websocket.DialOptions{HTTPHeader: header, HTTPClient: c.conn.HTTP, Subprotocols: []string{streamProtocol}, OnPingReceived: alive})
	switch {
	case err == nil && conn.Subprotocol() != streamProtocol:
		_ = conn.CloseNow() // nothing was sent
		return nil, fmt.Errorf("open stream: %w: it speaks %q, not %s", ErrNoStreams, conn.Subprotocol(), streamProtocol)
	case err != nil && res != nil && res.StatusCode != 0:
		return nil, fmt.Errorf("open stream: %w", streamRefusal(res))
	case err != nil:
		return nil, fmt.Errorf("open stream: %w: %w", problem.ErrUnavailable, err)
	}
	conn.SetReadLimit(transport.MaxAnswerBytes)
	s.conn = conn
	alive(ctx, nil)
	go s.read()
	if err := s.hello(ctx, o); err != nil {
		go s.Close() // the server may not answer
		return nil, fmt.Errorf("open stream: %w", err)
	}
	go s.watch()
	return s, nil
}

// streamRefusal returns the error of a handshake that was answered with a status other than 101.
func streamRefusal(res *http.Response) error {
	body, _ := io.ReadAll(res.Body) // at most its first bytes, which are there already
	err := transport.Refusal(transport.Request{Method: http.MethodGet, Path: "/stream"}, res, body)
	if res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusTooManyRequests {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoStreams, err)
}

func (s *Stream) hello(ctx context.Context, o StreamOptions) error {
	var doc struct {
		StreamID    string      `json:"stream_id"`
		HeartbeatMs int64       `json:"heartbeat_ms"`
		Defaults    jobDefaults `json:"defaults"`
		Claims      []struct {
			ClaimID string `json:"claim_id"`
			Held    int    `json:"held"`
		} `json:"claims"`
	}
	err := s.ask(ctx, "hello", struct {
		RunnerID string   `json:"runner_id,omitzero"`
		LingerMs int64    `json:"linger_ms,omitzero"`
		Jobs     string   `json:"jobs"`
		Resume   string   `json:"resume,omitzero"`
		Claims   []string `json:"claims,omitempty"`
	}{o.RunnerID, o.Linger.Milliseconds(), "runs", o.Resume, o.Claims}, &doc)
	if err != nil {
		return err
	}
	s.defaults = doc.Defaults
	s.ID, s.heartbeat, s.Held = doc.StreamID, time.Duration(doc.HeartbeatMs)*time.Millisecond, map[string]int{}
	for _, c := range doc.Claims {
		s.Held[c.ClaimID] = c.Held
	}
	return nil
}

// Done returns a channel that is closed when the connection has ended.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err returns the reason why the connection has ended, or nil while it is open.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Heard returns when something arrived last.
func (s *Stream) Heard() time.Time { return time.Unix(0, s.heard.Load()) }

// ended reports whether the connection has ended.
func (s *Stream) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Close ends the connection. Requests without an answer end with ErrUnknown.
func (s *Stream) Close() {
	s.closing.Store(true)
	_ = s.conn.Close(websocket.StatusNormalClosure, "") // if the server does not answer, the connection is closed anyway
	<-s.done
}

// Abort ends the connection without a closing handshake. The server then keeps the jobs of the stream for its Linger;
// after Close it returns them to their queues at once.
func (s *Stream) Abort() {
	s.closing.Store(true)
	_ = s.conn.CloseNow() // it has ended then
	<-s.done
}

// Client returns a client that uses the stream, while it is open, to complete several jobs and to tickle several jobs.
// Its other requests are HTTP requests.
func (s *Stream) Client() *Client {
	c := *s.c
	c.conn.Stream = s.Once
	return &c
}

// ask sends a request and decodes the document of its answer.
func (s *Stream) ask(ctx context.Context, verb string, body, doc any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%w: encode the request: %w", problem.ErrBadRequest, err)
	}
	a, err := s.Do(ctx, verb, text, nil)
	if err != nil {
		return err
	}
	if a.problem != nil {
		return a.problem
	}
	if doc == nil {
		return nil
	}
	if err := json.Unmarshal(a.ok, doc); err != nil {
		return fmt.Errorf("%w: %w", problem.ErrUnexpectedAnswer, err)
	}
	return nil
}

// Once sends a request that also exists in HTTP, and returns its answer in the form of HTTP.
func (s *Stream) Once(ctx context.Context, c *transport.Conn, r transport.Request) (transport.Answer, error) {
	if r.Verb == "" || r.ContentType != transport.MimeJSON || len(r.Body) > maxStreamedBody {
		return transport.Answer{}, transport.ErrNotSent
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout+r.Wait, transport.ErrSilent)
	defer cancel()
	var more []byte
	if n := r.Number; n.Session != "" {
		more = fmt.Appendf(nil, `,"session":{"id":%q,"slot":%d,"number":%d}`, n.Session, n.Slot, n.Number)
	}
	got, err := s.Do(ctx, r.Verb, r.Body, more)
	return s.answer(got, err, r)
}

// onceInRuns is once for a request in a binary message, whose body is in runs.
func (s *Stream) onceInRuns(ctx context.Context, c *Client, r transport.Request) (transport.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.conn.Timeout, transport.ErrSilent)
	defer cancel()
	got, err := s.Wait(ctx, func() uint64 {
		s.last++
		s.messages = append(s.messages, outgoing{kind: websocket.MessageBinary, text: append(fmt.Appendf(nil, "#:request n=%d\n", s.last), r.Body...)})
		return s.last
	})
	return s.answer(got, err, r)
}

// answer returns an answer in the form of HTTP.
func (s *Stream) answer(got streamAnswer, err error, r transport.Request) (transport.Answer, error) {
	a := transport.Answer{Status: http.StatusOK, MediaType: transport.MimeJSON, Seq: got.seq, Body: got.ok, At: got.at, Once: r.Repeat != transport.Repeatable}
	if err != nil {
		return a, fmt.Errorf("%s in a stream: %w", r.Verb, err)
	}
	if got.problem != nil {
		a.Status = got.problem.Status
		return a, a.Unproven(got.problem)
	}
	return a, nil
}

// Do sends a request and waits for its answer. more are its other fields, each after a comma. It returns the errors of
// wait.
func (s *Stream) Do(ctx context.Context, verb string, body, more []byte) (streamAnswer, error) {
	return s.Wait(ctx, func() uint64 { return s.add(verb, body, more) })
}

// Wait sends a request, which add adds and numbers, and waits for its answer. The error is ErrNotSent if nothing was
// sent, and otherwise ErrUnknown.
func (s *Stream) Wait(ctx context.Context, add func() uint64) (streamAnswer, error) {
	answers := make(chan streamAnswer, 1)
	s.mu.Lock()
	if s.err != nil || len(s.messages) >= maxQueuedMessages {
		s.mu.Unlock()
		return streamAnswer{}, transport.ErrNotSent
	}
	n := add()
	s.waiting[n] = answers
	s.write()
	select {
	case a := <-answers:
		return a, nil
	case <-s.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	delete(s.waiting, n)
	err := s.err
	s.mu.Unlock()
	select {
	case a := <-answers: // the answer has arrived
		return a, nil
	default:
	}
	switch {
	case err == nil:
		err = context.Cause(ctx)
	case websocket.CloseStatus(err) == statusDone:
		return streamAnswer{}, transport.ErrNotSent
	}
	return streamAnswer{}, fmt.Errorf("%w: %w", problem.ErrUnknown, err)
}

// send sends a request without waiting for its answer.
func (s *Stream) send(verb string, body []byte) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.add(verb, body, nil)
	s.write()
}

// outgoing is a message that is not written yet.
type outgoing struct {
	kind    websocket.MessageType
	text    []byte
	written chan struct{} // closed when it is written; nil: nobody waits for that
}

// add appends a request to the last message in the queue, and returns its number. s.mu is held.
func (s *Stream) add(verb string, body, more []byte) uint64 {
	s.last++
	m := s.lastMessage(len(body))
	b := strconv.AppendUint(append(m.text, `{"n":`...), s.last, 10)
	b = append(append(append(b, `,"`...), verb...), `":`...)
	b = append(append(b, body...), more...)
	m.text = append(b, "}\n"...)
	return s.last
}

// lastMessage returns the last message in the queue, with room for a request. s.mu is held.
func (s *Stream) lastMessage(body int) *outgoing {
	if n := len(s.messages); n == 0 || s.messages[n-1].kind != websocket.MessageText || len(s.messages[n-1].text)+body > maxJoinedText {
		s.messages = append(s.messages, outgoing{kind: websocket.MessageText, text: s.spare})
		s.spare = nil
	}
	return &s.messages[len(s.messages)-1]
}

// Begin announces which runs of which claims begin, by the ids of claims and jobs, and returns when the message is
// written: the server must know even if the process ends with the first step of a run. The server does not answer. Jobs
// that a stream delivers have not begun; if the runner is lost before Begin, they return to their queues at no cost.
func (s *Stream) Begin(claims map[string][]string) {
	var text []byte
	for claim, ids := range claims {
		text = append(append(append(text, `{"begin":{"claim_id":"`...), claim...), `","job_ids":[`...)
		for i, id := range ids {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(append(append(text, '"'), id...), '"')
		}
		text = append(text, "]}}\n"...)
	}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	m := s.lastMessage(len(text)) // the number of held jobs bounds the queue
	m.text = append(m.text, text...)
	if m.written == nil {
		m.written = make(chan struct{})
	}
	written := m.written
	s.write()
	select {
	case <-written:
	case <-s.done:
	}
}

// write starts a goroutine that writes the queued messages, unless one runs already. The caller does not write: it must
// not wait for the connection longer than its context allows. s.mu is held, and released.
func (s *Stream) write() {
	if !s.writing {
		s.writing = true
		go s.writeAll()
	}
	s.mu.Unlock()
}

// writeAll writes the queued messages. Requests that arrive during a write are joined. If the connection accepts no
// data, watch closes it.
func (s *Stream) writeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.messages) > 0 && s.err == nil {
		m := s.messages[0]
		s.messages[0], s.messages = outgoing{}, s.messages[1:]
		s.mu.Unlock()
		err := s.conn.Write(context.Background(), m.kind, m.text)
		s.mu.Lock()
		if m.written != nil {
			close(m.written)
		}
		if err != nil {
			break // read reports the reason
		}
		if s.spare == nil && m.kind == websocket.MessageText && cap(m.text) <= maxSpareText {
			s.spare = m.text[:0]
		}
	}
	s.writing = false
}

const (
	// maxStreamedBody is how long a request in a stream may be, so that other requests do not wait for it. Longer ones
	// are sent over HTTP.
	maxStreamedBody = 256 << 10
	// maxJoinedText is how long a message of joined requests may be. The server's bound is 8 MiB.
	maxJoinedText = 1 << 20
	// maxQueuedMessages is how many messages of joined requests may wait for a connection that accepts no data. Further
	// requests are sent over HTTP.
	maxQueuedMessages = 8
	// maxSpareText is how large a buffer for requests may be to be kept for the next message.
	maxSpareText = 64 << 10
)
