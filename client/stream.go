package client

import (
	"bytes"
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
)

// StreamOptions are the options of OpenStream. A stream that gets jobs must have a RunnerID.
type StreamOptions struct {
	RunnerID string
	// Linger is how long the server keeps the stream's jobs for this runner after the connection has ended, at most 10
	// minutes. 0 means that they return to their queues at once.
	Linger time.Duration
	// Resume is the ID of an earlier stream of this runner, whose connection the server closes. Claims are the claims
	// that the runner still has. They become claims of this stream. The other claims of the earlier stream return to
	// their queues.
	Resume string
	Claims []string
}

// Stream is a connection that carries many requests at once, and jobs as soon as there are any. Any goroutine may call
// its methods. When the connection ends, the jobs of its claims return to their queues; see StreamOptions.Linger.
type Stream struct {
	ID   string
	Held map[string]int // of StreamOptions.Claims, those that still hold jobs, and how many

	c         *Client
	conn      *websocket.Conn
	defaults  jobDefaults
	heartbeat time.Duration
	heard     atomic.Int64 // when something arrived last, in unix ns
	done      chan struct{}

	mu      sync.Mutex // guards the fields below
	last    uint64     // number of the last request
	waiting map[uint64]chan<- streamAnswer
	takers  map[uint64]*Subscription
	texts   [][]byte // requests that are not written yet, as messages
	spare   []byte   // empty; for the next of them
	writing bool
	err     error // why the connection has ended
}

// streamAnswer is an answer in a stream.
type streamAnswer struct {
	ok      jsontext.Value
	problem *Error
	seq     uint64
	at      time.Time
}

// streamLine is a line of a text message of the server.
type streamLine struct {
	N            *uint64        `json:"n"`
	OK           jsontext.Value `json:"ok"`
	Problem      *Error         `json:"problem"`
	Seq          uint64         `json:"seq"`
	Subscription uint64         `json:"subscription"`
}

const (
	streamProtocol = "daybook.v1"
	// silentHeartbeats is after how many heartbeats without a sign of the server a stream is given up.
	silentHeartbeats = 3
)

var (
	// errNotSent says that a request was not sent, because its stream has ended.
	errNotSent = fmt.Errorf("%w: the stream has ended", ErrUnavailable)
	// errNoStreams says that the server offers no streams, or that something between does not let them through.
	errNoStreams = errors.New("the server offers no streams")
)

// OpenStream opens a stream. The errors are those of requests; OpenStream is not repeated.
func (c *Client) OpenStream(ctx context.Context, o StreamOptions) (*Stream, error) {
	s := &Stream{c: c, done: make(chan struct{}), waiting: map[uint64]chan<- streamAnswer{}, takers: map[uint64]*Subscription{}}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	alive := func(context.Context, []byte) bool { s.heard.Store(time.Now().UnixNano()); return true }
	conn, res, err := websocket.Dial(ctx, c.url+"/stream", &websocket.DialOptions{HTTPClient: c.http, Subprotocols: []string{streamProtocol}, OnPingReceived: alive})
	switch {
	case err == nil && conn.Subprotocol() != streamProtocol:
		_ = conn.CloseNow() // nothing was sent
		return nil, fmt.Errorf("open stream: %w: it speaks %q, not %s", errNoStreams, conn.Subprotocol(), streamProtocol)
	case err != nil && res != nil && res.StatusCode != 0:
		return nil, fmt.Errorf("open stream: %w", streamRefusal(res))
	case err != nil:
		return nil, fmt.Errorf("open stream: %w: %w", ErrUnavailable, err)
	}
	conn.SetReadLimit(maxAnswerBytes)
	s.conn = conn
	alive(ctx, nil)
	go s.read()
	if err := s.hello(ctx, o); err != nil {
		s.Close()
		return nil, fmt.Errorf("open stream: %w", err)
	}
	go s.watch()
	return s, nil
}

// streamRefusal returns the error of a handshake that was answered with another status than 101.
func streamRefusal(res *http.Response) error {
	body, _ := io.ReadAll(res.Body) // at most its first bytes, which are there already
	err := refusal(request{method: http.MethodGet, path: "/stream"}, res, body)
	if res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusTooManyRequests {
		return err
	}
	return fmt.Errorf("%w: %w", errNoStreams, err)
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

// Err returns why the connection has ended, or nil while it is open.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the connection. Requests without an answer end with ErrUnknown.
func (s *Stream) Close() {
	_ = s.conn.Close(websocket.StatusNormalClosure, "") // if the server does not answer, the connection is closed anyway
	<-s.done
}

// Client returns a client whose completions of several jobs and tickles of several jobs travel in the stream while it
// is open. Its other requests are HTTP requests.
func (s *Stream) Client() *Client {
	c := *s.c
	c.stream = new(atomic.Pointer[Stream])
	c.stream.Store(s)
	return &c
}

// ask sends a request and decodes the document of its answer.
func (s *Stream) ask(ctx context.Context, verb string, body, doc any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%w: encode the request: %w", ErrBadRequest, err)
	}
	a, err := s.do(ctx, verb, text, nil)
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
		return fmt.Errorf("%w: %w", ErrUnexpectedAnswer, err)
	}
	return nil
}

// once sends a request that HTTP has as well, and returns its answer in the form of HTTP.
func (s *Stream) once(ctx context.Context, c *Client, r request) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout+r.wait, errSilent)
	defer cancel()
	var more []byte
	if r.noBatch {
		more = []byte(`,"batch":false`)
	} else if n := r.number; n != nil && n.Session != "" {
		more = fmt.Appendf(nil, `,"session":{"id":%q,"slot":%d,"number":%d}`, n.Session, n.Slot, n.Number.Number)
	}
	got, err := s.do(ctx, r.verb, r.body, more)
	a := answer{status: http.StatusOK, mediaType: mimeJSON, stream: s, seq: got.seq, body: got.ok, at: got.at, once: r.repeat != repeatable}
	if err != nil {
		return a, fmt.Errorf("%s in a stream: %w", r.verb, err)
	}
	if got.problem != nil {
		a.status = got.problem.Status
		return a, a.unproven(got.problem)
	}
	return a, nil
}

// do sends a request and waits for its answer. more are its other fields, each after a comma. The error is errNotSent if
// nothing was sent, and otherwise ErrUnknown.
func (s *Stream) do(ctx context.Context, verb string, body, more []byte) (streamAnswer, error) {
	answers := make(chan streamAnswer, 1)
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return streamAnswer{}, errNotSent
	}
	n := s.add(verb, body, more)
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
	case a := <-answers: // it arrived meanwhile
		return a, nil
	default:
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return streamAnswer{}, fmt.Errorf("%w: %w", ErrUnknown, err)
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

// add appends a request to the text that is written next, and returns its number. s.mu is held.
func (s *Stream) add(verb string, body, more []byte) uint64 {
	s.last++
	if n := len(s.texts); n == 0 || len(s.texts[n-1])+len(body) > maxJoinedText {
		s.texts = append(s.texts, s.spare)
		s.spare = nil
	}
	text := &s.texts[len(s.texts)-1]
	b := strconv.AppendUint(append(*text, `{"n":`...), s.last, 10)
	b = append(append(append(b, `,"`...), verb...), `":`...)
	b = append(append(b, body...), more...)
	*text = append(b, "}\n"...)
	return s.last
}

// write writes what was added, unless another goroutine does so already. It joins what is added meanwhile. s.mu is
// held, and released.
func (s *Stream) write() {
	defer s.mu.Unlock()
	if s.writing {
		return
	}
	s.writing = true
	for len(s.texts) > 0 && s.err == nil {
		text := s.texts[0]
		s.texts[0], s.texts = nil, s.texts[1:]
		s.mu.Unlock()
		err := s.conn.Write(context.Background(), websocket.MessageText, text)
		s.mu.Lock()
		if err != nil {
			break // read reports the reason
		}
		if s.spare == nil && cap(text) <= maxSpareText {
			s.spare = text[:0]
		}
	}
	s.writing = false
}

const (
	// maxStreamedBody is how long a request in a stream may be, so that others do not wait for it. Longer ones are sent
	// over HTTP.
	maxStreamedBody = 256 << 10
	// maxJoinedText is how long a message of joined requests may be. The server's bound is 8 MiB.
	maxJoinedText = 1 << 20
	// maxSpareText is how large a buffer for requests may be to be used again.
	maxSpareText = 64 << 10
)

// read passes on what arrives, until the connection ends.
func (s *Stream) read() {
	err := s.readAll()
	_ = s.conn.CloseNow() // it has ended
	s.mu.Lock()
	s.err = fmt.Errorf("the stream has ended: %w", err)
	s.mu.Unlock()
	close(s.done)
}

func (s *Stream) readAll() error {
	for {
		kind, text, err := s.conn.Read(context.Background())
		if err != nil {
			return err
		}
		at := time.Now()
		s.heard.Store(at.UnixNano())
		if kind == websocket.MessageBinary {
			err = s.pushed(text, at)
		} else {
			err = s.lines(text, at)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnexpectedAnswer, err)
		}
	}
}

// lines passes on the answers in a text message.
func (s *Stream) lines(text []byte, at time.Time) error {
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var l streamLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		s.mu.Lock()
		if l.N == nil {
			sub := s.takers[l.Subscription]
			s.mu.Unlock()
			if sub != nil && l.Problem != nil && sub.o.Failed != nil {
				sub.o.Failed(l.Problem)
			}
			continue
		}
		waits := s.waiting[*l.N]
		delete(s.waiting, *l.N)
		s.mu.Unlock()
		if waits != nil {
			waits <- streamAnswer{ok: l.OK, problem: l.Problem, seq: l.Seq, at: at}
		}
	}
	return nil
}

const pushHead = "#:push subscription="

// pushed passes on the jobs in a binary message.
func (s *Stream) pushed(text []byte, at time.Time) error {
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	number, ok := bytes.CutPrefix(head, []byte(pushHead))
	n, err := strconv.ParseUint(string(number), 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("a binary message begins with %.80q", head)
	}
	c := &Claim{received: at}
	if err := c.readRuns(rest); err != nil {
		return err
	}
	s.mu.Lock()
	sub := s.takers[n]
	s.mu.Unlock()
	if sub == nil {
		return fmt.Errorf("jobs for subscription %d, which does not exist", n)
	}
	sub.o.Take(c)
	return nil
}

// watch ends the connection when nothing, not even a ping, has arrived for some heartbeats.
func (s *Stream) watch() {
	ticker := time.NewTicker(max(s.heartbeat, 10*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case now := <-ticker.C:
			if silent := now.Sub(time.Unix(0, s.heard.Load())); silent > silentHeartbeats*s.heartbeat {
				_ = s.conn.CloseNow() // nobody answers a closing handshake
				return
			}
		}
	}
}

// SubscribeOptions say which jobs a stream gets. Credit and Take are required.
type SubscribeOptions struct {
	Clients, Types []string // empty means all
	Strategy       string   // "" means oldest
	LeaseMs        int64    // 0 means that of the jobs
	Max            int      // how many jobs one claim has at most; 0 means 1000
	// Credit is how many jobs the runner can hold at once, up to 10,000. A job counts until an answer in the stream says
	// that it has ended or is lost.
	Credit int
	// Take gets the jobs. The stream reads nothing until it returns, so it must not wait for the stream.
	Take func(*Claim)
	// Failed, if not nil, is called when the server cannot claim. The server tries again on its own.
	Failed func(error)
}

// Subscription is what a stream gets jobs of.
type Subscription struct {
	s *Stream
	n uint64
	o SubscribeOptions
}

// Subscribe begins to get jobs.
func (s *Stream) Subscribe(ctx context.Context, o SubscribeOptions) (*Subscription, error) {
	body, err := json.Marshal(struct {
		Clients  []string `json:"clients,omitempty"`
		Types    []string `json:"types,omitempty"`
		Strategy string   `json:"strategy,omitzero"`
		LeaseMs  int64    `json:"lease_ms,omitzero"`
		Max      int      `json:"max,omitzero"`
		MaxBytes int64    `json:"max_bytes"`
		Credit   int      `json:"credit"`
	}{o.Clients, o.Types, o.Strategy, o.LeaseMs, o.Max, maxClaimBytes, o.Credit})
	if err != nil {
		return nil, fmt.Errorf("%w: encode the request: %w", ErrBadRequest, err)
	}
	answers := make(chan streamAnswer, 1)
	u := &Subscription{s: s, o: o}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return nil, errNotSent
	}
	u.n = s.add("subscribe", body, nil)
	s.waiting[u.n], s.takers[u.n] = answers, u
	s.write()
	select {
	case a := <-answers:
		if a.problem != nil {
			s.forget(u)
			return nil, a.problem
		}
		return u, nil
	case <-s.done:
		return nil, errNotSent
	case <-ctx.Done():
		s.Close() // jobs may be on their way
		return nil, context.Cause(ctx)
	}
}

func (s *Stream) forget(u *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.takers, u.n)
}

// SetCredit changes how many jobs the runner can hold. It does not wait for the server.
func (u *Subscription) SetCredit(n int) {
	u.s.send("credit", fmt.Appendf(nil, `{"subscription":%d,"credit":%d}`, u.n, n))
}

// End ends the subscription. When it returns without an error, no more jobs arrive. The runner still holds those that
// have arrived.
func (u *Subscription) End(ctx context.Context) error {
	err := u.s.ask(ctx, "unsubscribe", struct {
		Subscription uint64 `json:"subscription"`
	}{u.n}, nil)
	if err == nil {
		u.s.forget(u)
	}
	return err
}
